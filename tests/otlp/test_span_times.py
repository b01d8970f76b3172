# SPDX-License-Identifier: Apache-2.0
"""The rules of spans' times trip on files that break them, and on no good one."""

import unittest

import otlp
from otlp import test_validate as base


def timed():
    """good(), and the times of its span, that ended, and of another, that goes on."""
    message = base.good()
    dictionary = message["dictionary"]
    type_index, key_index = len(dictionary["string"]), len(dictionary["string"]) + 1
    dictionary["string"] += ["span_thread_time", "spanfold.ended"]
    dictionary["link"].append({"trace_id": b"\3" * 16, "span_id": b"\4" * 8})
    rows = len(dictionary["attribute"])
    dictionary["attribute"] += [{"key_strindex": key_index, "value": {"int_value": ended}} for ended in (1, 0)]
    value_type = {"type_strindex": type_index, "unit_strindex": dictionary["string"].index("nanoseconds")}
    profiles = message["resource_profiles"][0]["scope_profiles"][0]["profiles"]
    for number, (lengths, begins) in enumerate((([5, 7], [10**18, 10**18 + 9]), ([10**9], [10**18]))):
        profiles.append({
            "sample_type": value_type, "period_type": value_type, "period": 1, "profile_id": bytes([number + 1]) * 16,
            "samples": [{"link_index": number + 1, "values": lengths, "timestamps_unix_nano": begins}],
            "time_unix_nano": 10**18, "duration_nano": 10**9, "attribute_indices": [rows + number]})
    return message


def times_of(message, number=0):
    return message["resource_profiles"][0]["scope_profiles"][0]["profiles"][1 + number]


class SpanTimes(base.Files):
    def test_good(self):
        path = self.write(base.increment(timed()))
        self.assertEqual(otlp.validate(path), [])
        totals = otlp.totals(path)
        self.assertEqual(totals["spans"], {("01" * 16, "02" * 8): 3})
        self.assertEqual(totals["span_times"], {("01" * 16, "02" * 8): (12, 2), ("03" * 16, "04" * 8): (10**9, 1)})

    def test_without_samples(self):
        def unsampled(message):
            base.profile_of(message)["samples"] = []
            dictionary = message["dictionary"]
            for table in ("mapping", "location", "function", "stack"):
                del dictionary[table][1:]
            for each, value in zip(dictionary["attribute"][4:], (0, 0, 0, 0, 0, 1, 99), strict=False):
                each["value"]["int_value"] = value
        message = timed()
        unsampled(message)
        broken = self.broken(base.increment(message)).splitlines()
        # Names and types of the frames that are gone.
        self.assertFalse([line for line in broken if "is used by nothing" not in line and "twice" not in line], broken)

    def test_samples(self):
        def broken(expected, change, number=0):
            with self.subTest(expected=expected):
                self.assertRegex(self.broken(base.changed(lambda message: change(times_of(message, number)), timed)), expected)

        def in_time(**fields):
            return lambda profile: profile["samples"][0].update(fields)
        broken("2 lengths and 1 begins", in_time(timestamps_unix_nano=[10**18]))
        broken("0 lengths and 0 begins", in_time(values=[], timestamps_unix_nano=[]))
        broken("65 lengths", in_time(values=[1] * 65, timestamps_unix_nano=[10**18] * 65))
        broken("out of order", in_time(timestamps_unix_nano=[10**18 + 9, 10**18]))
        broken("a stay of 0 ns", in_time(values=[0, 1]))
        broken("lies outside", in_time(timestamps_unix_nano=[10**18 - 1, 10**18]))
        broken("lies outside", in_time(values=[10**9 + 1]), number=1)
        broken("has no link", in_time(link_index=0))
        broken("has stack 1", in_time(stack_index=1))
        broken("outside the link table", in_time(link_index=9))
        broken("are of link 1", lambda profile: profile["samples"].append(profile["samples"][0]))
        broken("are of link 1", in_time(link_index=1), number=1)
        broken("period of span times is 2", lambda profile: profile.update(period=2))
        broken("period_type of span times", lambda profile: profile.update(period_type=None))
        broken("have the attributes", lambda profile: profile.update(attribute_indices=[]))
        broken("without a sample", lambda profile: profile.update(samples=[]))
        broken("used twice", lambda profile: profile.update(profile_id=b"\1" * 16), number=1)
        broken("have 2 windows", lambda profile: profile.update(duration_nano=5 * 10**8), number=1)

    def test_order(self):
        def reorder(message):
            message["resource_profiles"][0]["scope_profiles"][0]["profiles"].reverse()
        with self.subTest("reversed"):
            self.assertRegex(self.broken(base.changed(reorder, timed)), "has the profiles")

        def alike(message):
            times_of(message, 1)["attribute_indices"] = times_of(message)["attribute_indices"]
        self.assertRegex(self.broken(base.changed(alike, timed)), "that are alike")

        def moved(message):
            profile = base.profile_of(message)
            times_of(message)["attribute_indices"] += profile.pop("attribute_indices")
        self.assertRegex(self.broken(base.changed(moved, timed)), "not on the first on-CPU profile")


if __name__ == "__main__":
    unittest.main()
