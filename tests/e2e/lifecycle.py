# SPDX-License-Identifier: Apache-2.0
"""The log of the workloads `spans` and `foreign` beside what a report says: which spans, when, for how long, and on how many stays.

Times of the log are brackets: a stay began between the two looks at the clock around the call that began it. So what
a report says is off by how far it lies outside of what the brackets allow."""

import collections
import dataclasses
import re
import statistics
import struct

LINGER_NS = 100_000  # SF_LINGER_NS: stays of a span that are closer are one
ALLOWED_NS = 100_000
DELETED, OVERWRITTEN, THREAD_ENDED, EVICTED = range(4)
_LINE = struct.Struct("=16s8sIIIIQQQQ")


@dataclasses.dataclass(frozen=True)
class Stay:
    tid: int
    left: int
    depth: int
    begin: tuple  # earliest and latest, Unix time in ns
    end: tuple

    @property
    def length(self):
        return max(self.end[0] - self.begin[1], 0), self.end[1] - self.begin[0]


class Span:
    """The stays of one span, in order of their begins."""

    def __init__(self):
        self.stays = []

    def settle(self):
        self.stays.sort(key=lambda stay: stay.begin)
        bounds = list(zip(*(stay.length for stay in self.stays)))
        self.start = tuple(min(stay.begin[i] for stay in self.stays) for i in (0, 1))
        self.end = tuple(max(stay.end[i] for stay in self.stays) for i in (0, 1))
        self.on_thread = sum(bounds[0]), sum(bounds[1])
        self.count = self._counts()
        self.evicted = self.stays[-1].left == EVICTED
        return self

    def _counts(self):
        """How many stays it is, at least and at most, once the close ones are one."""
        least = most = 1
        for before, after in zip(self.stays, self.stays[1:]):
            gap = after.begin[0] - before.end[1], after.begin[1] - before.end[0]
            if gap[0] < 0:  # they may overlap, as stays on several threads do
                most += 1
                continue
            least += gap[0] > LINGER_NS
            most += gap[1] > LINGER_NS
        return least, most


def read_log(path):
    """Truth: {(trace id, span id): Span}."""
    spans = collections.defaultdict(Span)
    data = path.read_bytes()
    for trace, span, tid, left, depth, _, *times in _LINE.iter_unpack(data):
        stay = Stay(tid, left, depth, tuple(times[:2]), tuple(times[2:]))
        spans[trace.hex(), span.hex()].stays.append(stay)
    return {ids: span.settle() for ids, span in spans.items()}


def side(stderr):
    """Figures beside the fates, of all flushes, as `record -v` prints them."""
    figures = collections.Counter()
    for name, count in re.findall(r"debug: ([a-z_]+) (\d+)$", stderr, re.MULTILINE):
        figures[name] += int(count)
    return figures


def outside(value, bounds):
    return max(bounds[0] - value, value - bounds[1], 0)


def middle(bounds):
    return (bounds[0] + bounds[1]) / 2


class Comparison:
    """What a report says of the spans of a log, and how far it is from that log."""

    def __init__(self, truth, rows):
        rows = {(row["trace_id"], row["span_id"]): row for row in rows if "span_id" in row}
        self.truth, self.rows = truth, rows
        self.missing = sorted(truth.keys() - rows.keys())
        self.invented = sorted(rows.keys() - truth.keys())
        self.untimed = sorted(ids for ids in truth.keys() & rows.keys() if "on_thread_ns" not in rows[ids])
        self.errors = {}  # of each span with times: begin, end, time on threads, ns outside of what is allowed
        self.offsets = []  # of the time on threads, from the middle of what is allowed
        self.miscounted, self.unended, self.wrongly_ended = [], [], []
        for ids in truth.keys() & rows.keys() - set(self.untimed):
            self._compare(ids, truth[ids], rows[ids])

    def _compare(self, ids, span, row):
        start, end = int(row["start_unix_nano"]), int(row["end_unix_nano"])
        errors = outside(start, span.start), outside(end, span.end), outside(row["on_thread_ns"], span.on_thread)
        self.errors[ids] = errors
        self.offsets.append(abs(row["on_thread_ns"] - middle(span.on_thread)))
        if not span.count[0] <= row["stays"] <= span.count[1]:
            self.miscounted.append(ids)
        if not row["ended"]:
            self.unended.append(ids)
        elif errors[1] > ALLOWED_NS or span.evicted:
            self.wrongly_ended.append(ids)

    @property
    def calls(self):
        """How often the workload had the map changed, by the brackets of its log."""
        stays = [stay for span in self.truth.values() for stay in span.stays]
        ends = {(stay.tid, *stay.end) for stay in stays if stay.left != THREAD_ENDED}
        return len(ends | {(stay.tid, *stay.begin) for stay in stays})

    @property
    def inexact(self):
        return sorted(ids for ids, errors in self.errors.items() if max(errors) > ALLOWED_NS)

    @property
    def share_exact(self):
        """Of all spans of the log: within ALLOWED_NS in begin, end and time on threads."""
        return (len(self.errors) - len(self.inexact)) / max(len(self.truth), 1)

    def figures(self):
        worst = sorted(max(errors) for errors in self.errors.values()) or [0]
        return {
            "spans": len(self.truth),
            "missing": len(self.missing),
            "invented": len(self.invented),
            "untimed": len(self.untimed),
            "inexact": len(self.inexact),
            "exact_share": round(self.share_exact, 6),
            "error_us": [round(at / 1e3, 1) for at in (quantile(worst, 0.5), quantile(worst, 0.99), worst[-1])],
            "time_off_us": [
                round(at / 1e3, 1) for at in (statistics.median(self.offsets or [0]), quantile(sorted(self.offsets), 0.99))
            ],
            "miscounted": len(self.miscounted),
            "unended": len(self.unended),
            "wrongly_ended": len(self.wrongly_ended),
        }

    def explain(self, ids):
        """All that is known of one span, relative to its first begin, in µs."""
        span, row = self.truth.get(ids), self.rows.get(ids)
        zero = span.start[0] if span else int(row["start_unix_nano"])
        text = [f"span {ids[1]} of trace {ids[0]}:"]
        for stay in span.stays if span else []:
            times = [f"{(at - zero) / 1e3:.1f}" for at in (*stay.begin, *stay.end)]
            text.append(f"  thread {stay.tid}: begin {times[0]}…{times[1]} end {times[2]}…{times[3]} left {stay.left}")
        if span:
            low, high = (at / 1e3 for at in span.on_thread)
            text.append(f"  in all {low:.1f}…{high:.1f} on {span.count[0]}…{span.count[1]} stays")
        if row and "on_thread_ns" in row:
            start, end = (f"{(int(row[key]) - zero) / 1e3:.1f}" for key in ("start_unix_nano", "end_unix_nano"))
            said = f"begin {start} end {end} in all {row['on_thread_ns'] / 1e3:.1f} on {row['stays']} stays"
            text.append(f"  reported: {said}, ended {row['ended']}, {row.get('on_cpu', {}).get('samples', 0)} samples")
        return "\n".join(text)

    def explain_some(self, *lists, most=5):
        return "\n".join(self.explain(ids) for some in lists for ids in some[:most])


def quantile(ordered, share):
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0
