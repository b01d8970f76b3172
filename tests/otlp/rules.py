# SPDX-License-Identifier: Apache-2.0
"""The rules of OTLP profiles, and of spanfold's own on top of them."""

import re

from . import span_times

ON_CPU = ("samples", "count")
TABLES = ("mapping", "location", "function", "link", "string", "attribute", "stack")
FRAME_TYPES = {"native", "kernel", "go", "jvm", "cpython", "v8js", "dotnet", "abort-marker"}
FATES = ("in_span", "background", "idle", "filtered")
BUILD_IDS = {"process.executable.build_id.gnu": r"([0-9a-f]{2}){1,64}", "process.executable.build_id.go": r".+",
             "process.executable.build_id.htlhash": r"[0-9a-f]{32}"}
NOT_ON_A_RESOURCE = re.compile(r"trace.?id|span.?id|^spanfold\.", re.IGNORECASE)


def freeze(value):
    """A hashable twin of a decoded message."""
    if isinstance(value, dict):
        return tuple(sorted((key, freeze(each)) for key, each in value.items()))
    return tuple(freeze(each) for each in value) if isinstance(value, list) else value


def is_zero(row):
    return not any(row.values()) if isinstance(row, dict) else not row


class Checker:
    """Takes increments in their order; `broken` lists what is wrong."""

    def __init__(self):
        self.broken = []
        self.tables = {name: [] for name in TABLES}
        self.used = {name: set() for name in TABLES}
        self.known = {name: set() for name in TABLES}
        self.profile_ids = set()
        self.last_was_empty = False

    def complain(self, text):
        if len(self.broken) < 50:
            self.broken.append(text)

    # Dictionary

    def use(self, table, index, where):
        """Row `index`, or None where there is none."""
        if not 0 <= index < len(self.tables[table]):
            self.complain(f"{where}: index {index} is outside the {table} table of {len(self.tables[table])} rows")
            return None
        self.used[table].add(index)
        return self.tables[table][index]

    def string(self, index, where):
        return self.use("string", index, where) or ""

    def add_rows(self, dictionary):
        first = {}
        for name in TABLES:
            rows = dictionary[name]
            first[name] = len(self.tables[name])
            if not self.tables[name] and (not rows or not is_zero(rows[0])):
                self.complain(f"row 0 of the {name} table is not the zero value")
            for row in rows:
                frozen = freeze(row)
                if frozen in self.known[name]:
                    self.complain(f"the {name} table holds {row!r} twice")
                self.known[name].add(frozen)
            self.tables[name] += rows
        for name, check in (("attribute", self.check_attribute), ("mapping", self.check_mapping),
                            ("location", self.check_location), ("function", self.check_function),
                            ("stack", self.check_stack), ("link", self.check_link)):
            for index in range(max(first[name], 1), len(self.tables[name])):
                check(self.tables[name][index], f"{name} {index}")

    def check_attribute(self, row, where):
        if not self.string(row["key_strindex"], where):
            self.complain(f"{where} has no key")
        self.string(row["unit_strindex"], where)
        if row["value"] is None:
            self.complain(f"{where} has no value")

    def attributes(self, indices, where):
        """Key to value of the attributes of something."""
        found = {}
        for index in indices:
            row = self.use("attribute", index, where)
            if row is None or index == 0:
                self.complain(f"{where} has attribute {index}")
                continue
            key = self.string(row["key_strindex"], where)
            if key in found:
                self.complain(f"{where} has {key} twice")
            value = row["value"] or {}
            found[key] = value.get("string_value") or value.get("int_value", 0)
        return found

    def check_mapping(self, row, where):
        if not self.string(row["filename_strindex"], where):
            self.complain(f"{where} has no filename")
        if row["memory_limit"] and row["memory_start"] >= row["memory_limit"]:
            self.complain(f"{where} ends before it begins")
        for key, value in self.attributes(row["attribute_indices"], where).items():
            if key not in BUILD_IDS or not re.fullmatch(BUILD_IDS[key], str(value)):
                self.complain(f"{where} has {key} = {value!r}")

    def check_location(self, row, where):
        mapping = self.use("mapping", row["mapping_index"], where)
        attributes = self.attributes(row["attribute_indices"], where)
        kind = attributes.get("profile.frame.type")
        if kind not in FRAME_TYPES:
            self.complain(f"{where} has frame type {kind!r}")
        names = []
        for line in row["lines"]:
            function = self.use("function", line["function_index"], where)
            names.append(self.string((function or {}).get("name_strindex", 0), where))
        if not all(names):
            self.complain(f"{where} has a line without a name")
        if kind == "abort-marker" and not all(re.fullmatch(r"\[.+\]", name) for name in names or [""]):
            self.complain(f"{where} is synthetic and named {names}")
        if mapping and mapping["memory_limit"] and not mapping["memory_start"] <= row["address"] < mapping["memory_limit"]:
            self.complain(f"{where}: {row['address']:#x} lies outside mapping {row['mapping_index']}")

    def check_function(self, row, where):
        if not self.string(row["name_strindex"], where):
            self.complain(f"{where} has no name")
        for field in ("system_name_strindex", "filename_strindex"):
            self.string(row[field], where)

    def check_stack(self, row, where):
        for index in row["location_indices"]:
            if self.use("location", index, where) is not None and index == 0:
                self.complain(f"{where} holds location 0")

    def check_link(self, row, where):
        if len(row["trace_id"]) != 16 or len(row["span_id"]) != 8 or not any(row["trace_id"]) or not any(row["span_id"]):
            self.complain(f"{where} has ids {row['trace_id'].hex()!r} and {row['span_id'].hex()!r}")

    # Profiles

    def add_increment(self, dictionary, resources):
        if self.last_was_empty:
            self.complain("a message without samples is not the last one")
        self.add_rows(dictionary)
        seen, accountings, windows, totals = set(), [], set(), {True: 0, False: 0}
        on_cpu, timed = [], 0
        for resource_profiles in resources:
            self.check_resource(resource_profiles["resource"], seen)
            profiles, links = self.profiles_of(resource_profiles), set()
            for profile in profiles:
                windows.add((profile["time_unix_nano"], profile["duration_nano"]))
                attributes = self.attributes(profile["attribute_indices"], "a profile")
                if "spanfold.ticks" in attributes:
                    accountings.append(attributes)
                self.check_identity(profile)
                if self.is_span_time(profile):
                    span_times.check(self, profile, attributes, links)
                    timed += len(profile["samples"])
                    continue
                on_cpu.append(profile)
                self.check_profile(profile)
                self.check_samples(profile["samples"], totals)
            self.check_order(profiles)
        if len(on_cpu) != 1 and not all(profile["samples"] for profile in on_cpu):
            self.complain("an on-CPU profile without samples is not the only one of its message")
        if len(windows) != 1:
            self.complain(f"profiles of one message have {len(windows)} windows")
        if len(accountings) != 1:
            self.complain(f"{len(accountings)} profiles of one message carry the accounting")
        for attributes in accountings:
            self.check_accounting(attributes, totals, on_cpu)
        self.last_was_empty = not any(totals.values()) and not timed

    def profiles_of(self, resource_profiles):
        profiles = []
        for scoped in resource_profiles["scope_profiles"]:
            if (scoped["scope"] or {}).get("name") != "spanfold":
                self.complain("the scope is not spanfold")
            profiles += scoped["profiles"]
        return profiles

    def is_span_time(self, profile):
        return self.value_type(profile["sample_type"], "sample_type") == span_times.TYPE

    def check_order(self, profiles):
        """At most one of what ran on the CPU, the first; then span times, of ended spans and of others."""
        timed = [self.is_span_time(profile) for profile in profiles]
        if not profiles or timed != sorted(timed) or timed.count(False) > 1 or timed.count(True) > 2:
            self.complain(f"a process has the profiles {['span times' if each else 'on CPU' for each in timed]}")
        kinds = [tuple(profile["attribute_indices"]) for profile in profiles if self.is_span_time(profile)]
        if len(set(kinds)) != len(kinds):
            self.complain("a process has two profiles of span times that are alike")

    def check_resource(self, resource, seen):
        attributes = (resource or {"attributes": []})["attributes"]
        keys = [each["key"] for each in attributes]
        if len(set(keys)) != len(keys):
            self.complain(f"a resource has a key twice: {keys}")
        for key in keys:
            if NOT_ON_A_RESOURCE.search(key):
                self.complain(f"a resource has {key}")
        if freeze(attributes) in seen:
            self.complain(f"two resources of one message are equal: {attributes}")
        seen.add(freeze(attributes))

    def value_type(self, value, where):
        value = value or {"type_strindex": 0, "unit_strindex": 0}
        return self.string(value["type_strindex"], where), self.string(value["unit_strindex"], where)

    def check_profile(self, profile):
        if self.value_type(profile["sample_type"], "sample_type") != ON_CPU:
            self.complain("sample_type is not samples/count")
        if self.value_type(profile["period_type"], "period_type") != ("cpu", "nanoseconds"):
            self.complain("period_type is not cpu/nanoseconds")
        if profile["period"] <= 0:
            self.complain(f"period is {profile['period']}")

    def check_identity(self, profile):
        if not profile["time_unix_nano"] or not 0 < profile["duration_nano"] < 1 << 63:
            self.complain(f"window of {profile['duration_nano']} ns at {profile['time_unix_nano']}")
        identity = profile["profile_id"]
        if len(identity) != 16 or not any(identity) or identity in self.profile_ids:
            self.complain(f"profile_id {identity.hex()!r} is not 16 bytes, zero, or used twice")
        self.profile_ids.add(identity)

    def check_samples(self, samples, totals):
        seen = set()
        for sample in samples:
            where = "a sample"
            self.use("stack", sample["stack_index"], where)
            self.use("link", sample["link_index"], where)
            self.attributes(sample["attribute_indices"], where)
            if len(sample["values"]) != 1 or sample["timestamps_unix_nano"]:
                self.complain(f"{where} has {len(sample['values'])} values and timestamps")
            if any(value <= 0 for value in sample["values"]):
                self.complain(f"{where} has the values {sample['values']}")
            identity = (sample["stack_index"], sample["link_index"], tuple(sorted(sample["attribute_indices"])))
            if identity in seen:
                self.complain(f"two samples of one profile are of stack, link, attributes {identity}")
            seen.add(identity)
            totals[sample["link_index"] != 0] += sum(sample["values"])

    def check_accounting(self, attributes, totals, on_cpu):
        figures = {key.removeprefix("spanfold."): value for key, value in attributes.items() if key.startswith("spanfold.")}
        for name in ("ticks", *FATES, "missed", "frequency_hz"):
            if not isinstance(figures.get(name), int) or figures[name] < 0:
                self.complain(f"spanfold.{name} is {figures.get(name)!r}")
                return
        dropped = sum(value for name, value in figures.items() if name.startswith("dropped."))
        if figures["ticks"] != sum(figures[name] for name in FATES) + dropped:
            self.complain(f"the accounting does not add up: {figures}")
        if figures["in_span"] != totals[True]:
            self.complain(f"{totals[True]} samples are linked, the accounting says {figures['in_span']}")
        # Zero with --background none.
        if totals[False] not in (0, figures["background"]):
            self.complain(f"{totals[False]} samples are not linked, the accounting says {figures['background']}")
        for name in ("recursion_misses", "unsampled"):
            if not isinstance(figures.get(name, 0), int) or figures.get(name, 0) < 0:
                self.complain(f"spanfold.{name} is {figures[name]!r}")
        for profile in on_cpu:
            if abs(profile["period"] * figures["frequency_hz"] - 1e9) > figures["frequency_hz"]:
                self.complain(f"period {profile['period']} is not that of {figures['frequency_hz']} Hz")
        if not on_cpu or not set(self.first_attributes(on_cpu)) >= set(attributes):
            self.complain("the accounting is not on the first on-CPU profile")

    def first_attributes(self, profiles):
        return self.attributes(profiles[0]["attribute_indices"], "a profile")

    def finish(self):
        for name in TABLES:
            for index in range(1, len(self.tables[name])):
                if index not in self.used[name]:
                    self.complain(f"row {index} of the {name} table is used by nothing: {self.tables[name][index]!r}")
        return self.broken
