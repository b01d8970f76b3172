# SPDX-License-Identifier: Apache-2.0
"""Entries that others change: another thread sets and deletes them while their thread works or sleeps, and other keys
push them out. What hooks leave as a note is told at the thread's next event, or by the sweep."""

import os

import kernel
import lifecycle
import test_lifecycle

TOLD, SILENT, END_LOST = 1, 2, 3  # tests/workloads/foreign.cpp


def of_kind(found, kind):
    """What was found of the spans of this kind."""
    truth = {ids: span for ids, span in found.truth.items() if ids[1].startswith(f"{kind:02x}")}
    return lifecycle.Comparison(truth, [row for ids, row in found.rows.items() if ids in truth])


class Published:
    """By another thread, in all ways to begin and to end a span."""

    def published(self):
        recording, found = self.spans("--ctx-map", self.stage.ctx_map, workload="foreign")
        self.assertEqual(found.wrongly_ended, [], found.explain_some(found.wrongly_ended))
        # Nobody but its own thread opens a record: of a span in which the thread never ran there is nothing to tell.
        silent = of_kind(found, SILENT)
        self.assertGreater(len(silent.truth), 10)
        self.assertEqual(silent.rows, {}, silent.explain_some(sorted(silent.rows)))
        return recording, found


class PublishedUnderSweep(Published, test_lifecycle.LifecycleCase):
    def test_published(self):
        _, found = self.published()
        self.check_within(found)
        self.assertEqual(len(found.unended), len(found.errors), "an end is claimed that nobody saw")


class PublishedUnderHooks(Published, test_lifecycle.HookedCase):
    def test_published(self):
        recording, found = self.published()
        self.check_exact(recording, of_kind(found, TOLD))
        # A note is overwritten by the next one, and with it goes the end that it told.
        self.check_within(of_kind(found, END_LOST), share=1)

    def check_exact(self, recording, found, share=0.95):
        """But for spans in which an overloaded host left their thread without a sample, or gave one the wrong time."""
        most = round((1 - share) * len(found.truth))
        self.assertLessEqual(len(found.missing), most, found.explain_some(found.missing))
        self.assertLessEqual(len(found.inexact), most, found.explain_some(found.inexact))
        self.assertLessEqual(len(found.miscounted), most, found.explain_some(found.miscounted))
        if lifecycle.side(recording.stderr)["busy"] == 0:  # else a flush claims no end at all
            self.assertLessEqual(len(found.unended), most, found.explain_some(found.unended))


class Evicted:
    """By other keys: the stay ends when the entry goes, and its span has not ended."""

    @classmethod
    def set_up_stage(cls):
        # Small, so that others get through it between two samples, each of which makes the entry young again.
        cls.stage.ctx_map.parent.mkdir()
        fd = kernel.create_map(entries=256)
        kernel.pin(fd, cls.stage.ctx_map)
        os.close(fd)
        super().set_up_stage()

    def evicted(self, freq):
        options = ("--pattern", "evicted", "--spans", "20", "--ctx-map", self.stage.ctx_map)
        recording, found = self.spans(*options, workload="foreign", freq=freq)
        self.assertTrue(all(span.evicted for span in found.truth.values()))
        self.assertEqual(found.wrongly_ended, [], found.explain_some(found.wrongly_ended))
        return recording, found


class EvictedUnderSweep(Evicted, test_lifecycle.LifecycleCase):
    def test_evicted(self):
        _, found = self.evicted(freq=49)
        self.assertGreater(len(found.errors), 0)
        self.check_within(found)


class EvictedUnderHooks(Evicted, test_lifecycle.HookedCase):
    def test_evicted(self):
        recording, found = self.evicted(freq=9)  # a record needs no sample
        self.assertGreater(lifecycle.side(recording.stderr)["evicted"], 20)
        self.assertEqual(found.missing, [], found.explain_some(found.missing))
        self.assertEqual(found.inexact, [], found.explain_some(found.inexact))
        self.assertEqual(found.miscounted, [], found.explain_some(found.miscounted))
