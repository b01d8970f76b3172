# SPDX-License-Identifier: Apache-2.0
"""A decoder of protobuf's wire format for the messages of OTLP profiles, with no generated code.

Source of the numbers: opentelemetry-proto 1.10 and newer, opentelemetry.proto.profiles.v1development."""

# Field number: (name, kind). Kinds: v varint, i signed varint, f fixed64, s string, b bytes, a message by its name;
# a trailing * repeats.
SCHEMA = {
    "ProfilesData": {1: ("resource_profiles", "ResourceProfiles*"), 2: ("dictionary", "ProfilesDictionary*")},
    "ProfilesDictionary": {1: ("mapping", "Mapping*"), 2: ("location", "Location*"), 3: ("function", "Function*"),
                           4: ("link", "Link*"), 5: ("string", "s*"), 6: ("attribute", "KeyValueAndUnit*"),
                           7: ("stack", "Stack*")},
    "ResourceProfiles": {1: ("resource", "Resource"), 2: ("scope_profiles", "ScopeProfiles*"), 3: ("schema_url", "s")},
    "Resource": {1: ("attributes", "KeyValue*"), 2: ("dropped_attributes_count", "v")},
    "ScopeProfiles": {1: ("scope", "Scope"), 2: ("profiles", "Profile*"), 3: ("schema_url", "s")},
    "Scope": {1: ("name", "s"), 2: ("version", "s"), 3: ("attributes", "KeyValue*")},
    "Profile": {1: ("sample_type", "ValueType"), 2: ("samples", "Sample*"), 3: ("time_unix_nano", "f"),
                4: ("duration_nano", "v"), 5: ("period_type", "ValueType"), 6: ("period", "i"), 7: ("profile_id", "b"),
                8: ("dropped_attributes_count", "v"), 9: ("original_payload_format", "s"),
                10: ("original_payload", "b"), 11: ("attribute_indices", "i*")},
    "Link": {1: ("trace_id", "b"), 2: ("span_id", "b")},
    "ValueType": {1: ("type_strindex", "i"), 2: ("unit_strindex", "i")},
    "Sample": {1: ("stack_index", "i"), 2: ("attribute_indices", "i*"), 3: ("link_index", "i"), 4: ("values", "i*"),
               5: ("timestamps_unix_nano", "f*")},
    "Mapping": {1: ("memory_start", "v"), 2: ("memory_limit", "v"), 3: ("file_offset", "v"),
                4: ("filename_strindex", "i"), 5: ("attribute_indices", "i*")},
    "Stack": {1: ("location_indices", "i*")},
    "Location": {1: ("mapping_index", "i"), 2: ("address", "v"), 3: ("lines", "Line*"), 4: ("attribute_indices", "i*")},
    "Line": {1: ("function_index", "i"), 2: ("line", "i"), 3: ("column", "i")},
    "Function": {1: ("name_strindex", "i"), 2: ("system_name_strindex", "i"), 3: ("filename_strindex", "i"),
                 4: ("start_line", "i")},
    "KeyValueAndUnit": {1: ("key_strindex", "i"), 2: ("value", "AnyValue"), 3: ("unit_strindex", "i")},
    "KeyValue": {1: ("key", "s"), 2: ("value", "AnyValue")},
    "AnyValue": {1: ("string_value", "s"), 2: ("bool_value", "v"), 3: ("int_value", "i")},
}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
EMPTY = {"v": 0, "i": 0, "f": 0, "s": "", "b": b""}


class Malformed(Exception):
    """The bytes are not such a message."""


class Torn(Malformed):
    """The bytes end in the middle of a field."""


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data):
            raise Torn("a varint is cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise Malformed("a varint is longer than 10 bytes")


def fields(data):
    """(number, wire type, value, end) of each field; the value is a number, or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = varint(data, at)
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
            value, at = int.from_bytes(data[at:at + size], "little"), at + size
        elif wire_type == BYTES:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise Malformed(f"field {number} has wire type {wire_type}")
        if at > len(data):
            raise Torn(f"field {number} is cut")
        yield number, wire_type, value, at


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def unpack(kind, data):
    """The numbers of a packed field."""
    if kind == "f":
        if len(data) % 8:
            raise Malformed("packed fixed64 is cut")
        return [int.from_bytes(data[at:at + 8], "little") for at in range(0, len(data), 8)]
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(signed(value) if kind == "i" else value)
    return values


def scalar(kind, wire_type, value, where):
    expected = {"v": VARINT, "i": VARINT, "f": FIXED64}.get(kind, BYTES)
    if wire_type != expected:
        raise Malformed(f"{where} has wire type {wire_type} and not {expected}")
    if kind == "i":
        return signed(value)
    if kind == "s":
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"{where} is no valid UTF-8: {bytes(value)!r}") from error
    return bytes(value) if kind == "b" else value


def decode(name, data):
    """The message `name` as a dict; absent fields have protobuf's defaults, messages are None."""
    schema = SCHEMA[name]
    message = {field: [] if kind.endswith("*") else EMPTY.get(kind) for field, kind in schema.values()}
    for number, wire_type, value, _ in fields(data):
        if number not in schema:
            raise Malformed(f"{name} has no field {number}")
        field, kind = schema[number]
        where, base = f"{name}.{field}", kind.rstrip("*")
        if base in SCHEMA:
            if wire_type != BYTES:
                raise Malformed(f"{where} has wire type {wire_type}")
            values = [decode(base, value)]
        elif kind.endswith("*") and base in "vif" and wire_type == BYTES:
            values = unpack(base, value)
        else:
            values = [scalar(base, wire_type, value, where)]
        if kind.endswith("*"):
            message[field].extend(values)
        else:
            message[field] = values[-1]
    return message


def read(data, torn=False):
    """Pairs (dictionary, resource profiles): a message, or the increments that it was written in, each of which begins
    with the rows that it adds. `torn`: a cut last field is left out."""
    increments, kinds = [], {1: "ResourceProfiles", 2: "ProfilesDictionary"}
    try:
        for number, wire_type, value, _ in fields(memoryview(data)):
            if number not in kinds or wire_type != BYTES:
                raise Malformed(f"field {number} of wire type {wire_type} is none of ProfilesData")
            message = decode(kinds[number], value)
            if number == 2:
                increments.append((message, []))
            elif not increments:
                raise Malformed("profiles stand before their dictionary")
            else:
                increments[-1][1].append(message)
    except Torn:
        if not torn:
            raise
    return increments
