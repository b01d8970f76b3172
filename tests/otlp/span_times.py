# SPDX-License-Identifier: Apache-2.0
"""The rules of a profile of spans' times: one sample a span, the lengths of its stays on threads beside their begins."""

TYPE = ("span_thread_time", "nanoseconds")
MOST_STAYS = 64


def check(checker, profile, attributes, seen):
    """`seen`: links of the process's profiles of this type so far."""
    if checker.value_type(profile["period_type"], "period_type") != TYPE:
        checker.complain("period_type of span times is not theirs")
    if profile["period"] != 1:
        checker.complain(f"period of span times is {profile['period']}")
    if list(attributes) != ["spanfold.ended"] or attributes["spanfold.ended"] not in (0, 1):
        checker.complain(f"span times have the attributes {attributes}")
    if not profile["samples"]:
        checker.complain("span times without a sample")
    start = profile["time_unix_nano"]
    for sample in profile["samples"]:
        check_sample(checker, sample, start, start + profile["duration_nano"])
        if sample["link_index"] in seen:
            checker.complain(f"two span times of one process are of link {sample['link_index']}")
        seen.add(sample["link_index"])


def check_sample(checker, sample, start, end):
    where = "a span time"
    checker.use("link", sample["link_index"], where)
    if sample["link_index"] == 0:
        checker.complain(f"{where} has no link")
    if sample["stack_index"] != 0 or sample["attribute_indices"]:
        checker.complain(f"{where} has stack {sample['stack_index']} and attributes {sample['attribute_indices']}")
    lengths, begins = sample["values"], sample["timestamps_unix_nano"]
    if len(lengths) != len(begins) or not 1 <= len(lengths) <= MOST_STAYS:
        checker.complain(f"{where} has {len(lengths)} lengths and {len(begins)} begins")
        return
    if begins != sorted(begins):
        checker.complain(f"{where} has stays out of order: {begins}")
    for begin, length in zip(begins, lengths, strict=True):
        if length < 1:
            checker.complain(f"{where} has a stay of {length} ns")
        if begin < start or begin + length > end:
            checker.complain(f"{where}, {length} ns from {begin}, lies outside {start} to {end}")
