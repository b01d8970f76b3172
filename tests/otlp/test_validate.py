# SPDX-License-Identifier: Apache-2.0
"""Each rule of the validator trips on a file that breaks it, and on no good one."""

import copy
import pathlib
import tempfile
import unittest

import otlp
from otlp import second, wire


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def delimited(number, data):
    return varint(number << 3 | wire.BYTES) + varint(len(data)) + data


def encode_one(number, kind, value):
    if kind in wire.SCHEMA:
        return delimited(number, encode(kind, value))
    if kind in "vi":
        return varint(number << 3 | wire.VARINT) + varint(value)
    if kind == "f":
        return varint(number << 3 | wire.FIXED64) + value.to_bytes(8, "little")
    return delimited(number, value.encode("utf-8", "surrogateescape") if kind == "s" else value)


def encode(name, message):
    out = b""
    for number, (field, kind) in wire.SCHEMA[name].items():
        value, base = message.get(field), kind.rstrip("*")
        if kind.endswith("*") and base in ("v", "i"):
            out += delimited(number, b"".join(map(varint, value))) if value else b""
        elif kind.endswith("*"):
            out += b"".join(encode_one(number, base, each) for each in value or [])
        elif value is not None:
            out += encode_one(number, base, value)
    return out


def increment(message):
    """The dictionary before the profiles that need it."""
    dictionary, resources = message["dictionary"], message["resource_profiles"]
    return delimited(2, encode("ProfilesDictionary", dictionary)) + encode("ProfilesData", {"resource_profiles": resources})


STRINGS = ["", "samples", "count", "cpu", "nanoseconds", "parse_date", "/bin/shop", "profile.frame.type", "native",
           "process.executable.build_id.gnu", "[background]", "abort-marker", "spanfold.ticks", "spanfold.in_span",
           "spanfold.background", "spanfold.idle", "spanfold.filtered", "spanfold.missed", "spanfold.frequency_hz"]
FIGURES = {"ticks": 5, "in_span": 3, "background": 2, "idle": 0, "filtered": 0, "missed": 1, "frequency_hz": 99}


def row(key, **value):
    return {"key_strindex": STRINGS.index(key), "value": value}


def good():
    """A message with one span, background, and accounting."""
    attributes = [{}, row("profile.frame.type", string_value="native"), row("profile.frame.type", string_value="abort-marker"),
                  row("process.executable.build_id.gnu", string_value="00ff")]
    first = len(attributes)
    attributes += [row(f"spanfold.{name}", int_value=value) for name, value in FIGURES.items()]
    strings = [each for each in STRINGS if each not in ("native", "abort-marker")]
    move = {STRINGS.index(each): index for index, each in enumerate(strings)}
    for each in attributes[1:]:
        each["key_strindex"] = move[each["key_strindex"]]

    def index(text):
        return strings.index(text)
    profile = {
        "sample_type": {"type_strindex": index("samples"), "unit_strindex": index("count")},
        "samples": [{"stack_index": 1, "link_index": 1, "values": [3]}, {"stack_index": 2, "values": [2]}],
        "time_unix_nano": 10**18, "duration_nano": 10**9,
        "period_type": {"type_strindex": index("cpu"), "unit_strindex": index("nanoseconds")}, "period": 10101010,
        "profile_id": bytes(range(16)), "attribute_indices": list(range(first, first + len(FIGURES)))}
    resource = {"attributes": [{"key": "process.pid", "value": {"int_value": 7}}]}
    return {
        "dictionary": {
            "mapping": [{}, {"memory_start": 0x1000, "memory_limit": 0x2000, "filename_strindex": index("/bin/shop"),
                             "attribute_indices": [3]}],
            "location": [{}, {"mapping_index": 1, "address": 0x1234, "lines": [{"function_index": 1}], "attribute_indices": [1]},
                         {"lines": [{"function_index": 2}], "attribute_indices": [2]}],
            "function": [{}, {"name_strindex": index("parse_date")}, {"name_strindex": index("[background]")}],
            "link": [{}, {"trace_id": b"\1" * 16, "span_id": b"\2" * 8}],
            "string": strings, "attribute": attributes,
            "stack": [{}, {"location_indices": [1]}, {"location_indices": [2]}]},
        "resource_profiles": [{"resource": resource, "scope_profiles": [{"scope": {"name": "spanfold"}, "profiles": [profile]}]}]}


def profile_of(message):
    return message["resource_profiles"][0]["scope_profiles"][0]["profiles"][0]


def later():
    """A second increment for good(): no new strings, its own accounting, no samples."""
    message, first = good(), len(good()["dictionary"]["attribute"])
    attributes = copy.deepcopy(message["dictionary"]["attribute"][4:])
    for each, value in zip(attributes, (11, 0, 0, 11, 0, 2, 99), strict=True):
        each["value"] = {"int_value": value}
    known = message["dictionary"]["attribute"]
    new = [each for each in attributes if each not in known]
    indices = [known.index(each) if each in known else first + new.index(each) for each in attributes]
    profile_of(message).update(samples=[], time_unix_nano=2 * 10**18, profile_id=b"\7" * 16, attribute_indices=indices)
    message["dictionary"] = {"attribute": new}
    return message


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, data, name="test.otlp"):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def broken(self, data, name="test.otlp"):
        return "\n".join(otlp.validate(self.write(data, name)))


class Good(Files):
    def test_message(self):
        self.assertEqual(self.broken(increment(good())), "")

    def test_increments(self):
        self.assertEqual(self.broken(increment(good()) + increment(later())), "")

    def test_totals(self):
        found = otlp.totals(self.write(increment(good()) + increment(later())))
        self.assertEqual(found, {"spans": {("01" * 16, "02" * 8): 3}, "background": {7: 2}, "span_times": {}})

    def test_torn_tail_of_a_killed_recorder(self):
        data = increment(good())
        cut = data + increment(later())[:-1]
        self.assertIn("cut", self.broken(cut))
        self.assertIn("0 profiles of one message carry", self.broken(cut, "test.otlp.part"))
        self.assertEqual(self.broken(data + b"\x0a", "test.otlp.part"), "")

    def test_second_decoder(self):
        if not second.available():
            self.skipTest("the package opentelemetry-proto cannot be had here")
        path = self.write(increment(good()))
        self.assertEqual(second.totals(path)["spans"], {("01" * 16, "02" * 8): 3})
        with self.assertRaises(ValueError):
            second.totals(self.write(b"no message"))


def changed(change, make=good):
    message = make()
    change(message)
    return increment(message)


def in_dictionary(table, index, **fields):
    return lambda message: message["dictionary"][table][index].update(fields)


def in_profile(**fields):
    return lambda message: profile_of(message).update(fields)


def in_sample(index, **fields):
    return lambda message: profile_of(message)["samples"][index].update(fields)


def append(table, value):
    return lambda message: message["dictionary"][table].append(value)


def figure(index, value):
    return in_dictionary("attribute", 4 + index, value={"int_value": value})


class Broken(Files):
    def check(self, expected, change):
        with self.subTest(expected=expected):
            self.assertRegex(self.broken(changed(change)), expected)

    def test_zero_rows(self):
        for table in ("mapping", "location", "function", "link", "attribute", "stack"):
            self.check(f"row 0 of the {table}", lambda message, table=table: message["dictionary"][table].pop(0))
        self.check("row 0 of the string", lambda message: message["dictionary"]["string"].pop(0))

    def test_duplicates(self):
        for table in ("mapping", "location", "function", "link", "string", "attribute", "stack"):
            self.check(f"the {table} table holds .* twice", lambda message, table=table:
                       message["dictionary"][table].append(message["dictionary"][table][1]))

    def test_orphans(self):
        self.check("of the string table is used by nothing", append("string", "orphan"))
        self.check("of the link table is used by nothing", append("link", {"trace_id": b"\3" * 16, "span_id": b"\3" * 8}))
        self.check("of the stack table is used by nothing", append("stack", {"location_indices": [1, 2]}))

    def test_indices(self):
        self.check("outside the stack table", in_sample(0, stack_index=3))
        self.check("index -1 is outside the link table", in_sample(0, link_index=-1))
        self.check("outside the function table", in_dictionary("location", 1, lines=[{"function_index": 9}]))
        self.check("outside the string table", in_dictionary("function", 1, name_strindex=99))
        self.check("outside the mapping table", in_dictionary("location", 1, mapping_index=2))
        self.check("outside the location table", in_dictionary("stack", 1, location_indices=[8]))
        self.check("outside the attribute table", in_dictionary("location", 1, attribute_indices=[77]))

    def test_later_rows_do_not_count(self):
        self.assertIn("before their dictionary", self.broken(encode("ProfilesData", {
            "resource_profiles": good()["resource_profiles"], "dictionary": [good()["dictionary"]]})))

    def test_strings(self):
        self.check("no valid UTF-8", lambda message: message["dictionary"]["string"].append(b"\xff".decode("utf-8", "surrogateescape")))

    def test_links(self):
        self.check("has ids", in_dictionary("link", 1, trace_id=b"\1" * 15))
        self.check("has ids", in_dictionary("link", 1, span_id=bytes(8)))

    def test_frames(self):
        self.check("has frame type", in_dictionary("location", 1, attribute_indices=[]))
        self.check("is synthetic and named", in_dictionary("location", 1, attribute_indices=[2]))
        self.check("lies outside mapping", in_dictionary("location", 1, address=0x2000))
        self.check("build_id.gnu = 'xyz'", in_dictionary("attribute", 3, value={"string_value": "xyz"}))
        self.check("has no filename", in_dictionary("mapping", 1, filename_strindex=0))
        self.check("ends before it begins", in_dictionary("mapping", 1, memory_start=0x3000))

    def test_samples(self):
        self.check("has 2 values", in_sample(0, values=[1, 2]))
        self.check("has 0 values", in_sample(0, values=[]))
        self.check("has 1 values and timestamps", in_sample(0, timestamps_unix_nano=[10**18]))
        self.check("has the values", in_sample(0, values=[0]))
        self.check("two samples of one profile", in_sample(1, stack_index=1, link_index=1))

    def test_profile(self):
        self.check("sample_type is not", in_profile(sample_type={"type_strindex": 3, "unit_strindex": 2}))
        self.check("period_type is not", in_profile(period_type=None))
        self.check("period is 0", in_profile(period=0))
        self.check("period 5 is not that of 99 Hz", in_profile(period=5))
        self.check("window of 0 ns", in_profile(duration_nano=0))
        self.check("window of .* at 0", in_profile(time_unix_nano=0))
        self.check("is not 16 bytes", in_profile(profile_id=b"short"))
        self.check("is not 16 bytes, zero", in_profile(profile_id=bytes(16)))

    def test_ids_are_used_once(self):
        twice = later()
        profile_of(twice)["profile_id"] = profile_of(good())["profile_id"]
        self.assertIn("used twice", self.broken(increment(good()) + increment(twice)))

    def test_accounting(self):
        self.check("does not add up", figure(0, 6))
        self.check("3 samples are linked, the accounting says 4", figure(1, 4))
        self.check("2 samples are not linked", figure(2, 1))
        self.check("0 profiles of one message carry", in_profile(attribute_indices=[]))
        self.check("spanfold.missed is None", lambda message: profile_of(message)["attribute_indices"].remove(9))

        def twice(message):
            other = copy.deepcopy(message["resource_profiles"][0])
            other["resource"]["attributes"][0]["value"]["int_value"] = 8
            message["resource_profiles"].append(other)
        self.check("2 profiles of one message carry", twice)

    def test_windows(self):
        def other_window(message):
            other = copy.deepcopy(message["resource_profiles"][0])
            other["resource"]["attributes"] = []
            other["scope_profiles"][0]["profiles"][0]["duration_nano"] = 1
            message["resource_profiles"].append(other)
        self.check("have 2 windows", other_window)

    def test_empty_message_is_the_last(self):
        data = increment(good()) + increment(later()) + increment(later())
        self.assertIn("without samples is not the last", self.broken(data))

    def test_resources(self):
        def same(message):
            message["resource_profiles"].append(copy.deepcopy(message["resource_profiles"][0]))
        self.check("two resources of one message are equal", same)

        def span(message):
            message["resource_profiles"][0]["resource"]["attributes"].append({"key": "span_id", "value": {"string_value": "1"}})
        self.check("a resource has span_id", span)

    def test_bytes(self):
        data = increment(good())
        self.assertIn("cut", self.broken(data[:-1]))
        self.assertIn("it is empty", self.broken(b""))
        self.assertIn("none of ProfilesData", self.broken(b"\x1a\x00"))
        self.assertIn("has no field", self.broken(data + b"\x0a\x02\x78\x00"))


if __name__ == "__main__":
    unittest.main()
