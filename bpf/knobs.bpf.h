/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the loader sets: once before loading (knobs), and while the programs run (control). */
#ifndef SPANFOLD_KNOBS_BPF_H
#define SPANFOLD_KNOBS_BPF_H

#include "compat.bpf.h"

/* Weak, because each object that is linked into the skeleton brings the same one. */
__weak const volatile struct sf_config knobs = {};

/*
 * The number of the flush that is being gathered. Read once at entry of a program, so that all that one event counts
 * goes into one bank. The loader steps it and then waits for a grace period.
 */
__weak volatile __u32 epoch;
/* The epoch at which the loader last forgot its stacks: ids sent before it count as not sent. */
__weak volatile __u32 sent_since;
/* Grows whenever the loader has told, or taken back, what some process has mapped. */
__weak volatile __u32 spaces_version;
/* The id of the context map: hooks run for every map of its type. */
__weak volatile __u32 context_id;
/* Not 0: some threads died and left entries in the context map. */
__weak volatile __u32 left_entries;
/* Not 0: some thread has changed another one's entry. */
__weak volatile __u32 notes_left;
/* When the last sweep began, by the programs' clock: what a time namespace moves ours against. */
__weak volatile __u64 sweep_ns;
/* What the last sweep could not emit: the ring was full, or the record was in use. The loader sets it to 0. */
__weak volatile __u64 sweep_left;

#endif
