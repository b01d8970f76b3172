/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the tests hand to long runs through the bodies. */
#ifndef SPANFOLD_TESTS_STEPS_H
#define SPANFOLD_TESTS_STEPS_H

#include "bpf/abi.h"

/* NOLINTBEGIN(readability-identifier-naming): shared with C */

/* What one step of a long run does. Steps lie in an array that both sides see, and a call runs many of them. */
enum sf_step_op {
  STEP_HOOK = 0, /* the thread's entry is about to hold `span` (zeros: to go), and the hook sees that */
  STEP_MAP,      /* now it does */
  STEP_NOTE,     /* another thread, or an eviction, is about to change the entry */
  STEP_SAMPLE,
  STEP_EXIT,
  STEP_SWEEP, /* over `places` records */
};

struct sf_step {
  __u64 pid_tgid;
  __u64 now_ns; /* 0: the real time, which is left here; of a change to the map, when it was done */
  __u64 stack_id;
  struct sf_process process;
  struct sf_span span;
  __u32 op;
  __u32 epoch;
  __u32 switches;
  __u32 places;
  __u32 evicted;
  __u32 in_kernel; /* of a sample */
  __u32 own;       /* result: 1 + the way of the thread's record, 0: none */
  __u32 caught_up; /* result: the same, of what the map had shown until then, where that was not known */
  __u32 busy;      /* result: records that were in use, or had no place */
  __s64 result;    /* of a sample: 1 unless lost; of a sweep: what it left behind */
};

/* NOLINTEND(readability-identifier-naming) */

#define STEPS_AT_ONCE 256
/* Threads of a test that run steps at the same time. */
#define STEPS_RUNNERS 4
/* Records that a step can sweep. */
#define MOST_PLACES 512

#endif
