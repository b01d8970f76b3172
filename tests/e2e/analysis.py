# SPDX-License-Identifier: Apache-2.0
"""Which function belongs to which span, and how far counts may be from the truth."""

import collections
import math
import re

_NAME = re.compile(r"^(?:[\w:]+ )?([A-Za-z_]\w*)(?:<([^>]*)>)?\(?")

KNOWN = {1: {"parse_date", "parse_number"}, 2: {"apply_discount", "sum_cart"}, 3: {"render_page"}, 4: {"compress_body"}}
SERVICE = {
    1: {"parse_date", "apply_discount"},
    2: {"lookup_price"},
    3: {"sign_payment"},
    4: {"score_risk"},
    5: {"tokenize_query", "rank_results"},
    6: {"scan_index"},
    7: {"render_csv", "compress_body"},
}

# What the roots of stacks say that come before the loader knows the process, for some milliseconds.
TOO_EARLY = {"[mappings not known yet]", "[no unwind table]"}


def name_of(frame):
    """`parse_date(std::string const&)` → `parse_date`; `void work<2u, 3u>(unsigned long)` → `work<2,3>`."""
    match = _NAME.match(frame)
    if match is None:
        return frame
    name, arguments = match.groups()
    return name if arguments is None else f"{name}<{','.join(re.findall(r'[0-9]+', arguments))}>"


def kind_of(row):
    """Byte 0 of the span id: workloads put the kind of a span there."""
    return int(row["span_id"][:2], 16)


def span_rows(rows):
    return [row for row in rows if "span_id" in row]


def names_in(rows):
    """All functions on all stacks."""
    return {name_of(frame) for row in rows for stack in row["stacks"] for frame in stack["frames"]}


def work_counts(row, known):
    """Samples of a row by the work function nearest to the leaf; under None those with no function of `known`."""
    counts = collections.Counter()
    for stack in row["stacks"]:
        names = (name_of(frame) for frame in stack["frames"])
        counts[next((name for name in names if name in known), None)] += stack["count"]
    return counts


def check_right_spans(rows, functions_of_kind):
    """No sample of any span shows a work function of another kind. Gives the counts by kind, all of them checked."""
    known = set().union(*functions_of_kind.values())
    counts = collections.defaultdict(collections.Counter)
    for row in span_rows(rows):
        kind = kind_of(row)
        found = work_counts(row, known)
        wrong = set(filter(None, found)) - functions_of_kind[kind]
        if wrong:
            raise AssertionError(f"span {row['span_id']} of kind {kind} holds samples of {wrong}: {found}")
        counts[kind].update(found)
    return counts


def check_share(what, count, total, expected, sigmas=3.0, slack=0.0):
    """`count` of `total` samples is the share `expected`, but for chance (binomial) and what begin and end cost."""
    if total == 0:
        raise AssertionError(f"{what}: no samples")
    allowed = sigmas * math.sqrt(expected * (1 - expected) / total) + slack
    if abs(count / total - expected) > allowed:
        share = f"{count} of {total} samples is {count / total:.4f}"
        raise AssertionError(f"{what}: {share}, truth {expected:.4f} ± {allowed:.4f}")


def check_count(what, count, expected, missed=0, sigmas=3.0, slack=0.0):
    """Samples against CPU time × Hz. What the clock owed and no program saw may lie on either side of `count`."""
    allowed = sigmas * math.sqrt(max(expected, 1)) + slack * expected
    if not expected - allowed - missed <= count <= expected + allowed:
        found = f"{count} samples (and up to {missed} missed)"
        raise AssertionError(f"{what}: {found}, truth {expected:.1f} ± {allowed:.1f}")
