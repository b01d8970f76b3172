/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the tests hand to the wrapped bodies. */
#ifndef SPANFOLD_TESTS_BODIES_H
#define SPANFOLD_TESTS_BODIES_H

#include "bpf/abi.h"

/* One call; each thread of a test has its own, found by the number that it passes. */
struct sf_body_input { /* NOLINT(readability-identifier-naming): shared with C */
  __u64 pid_tgid;
  __u64 now_ns;
  __u64 stack_id;
  struct sf_process process;
  struct sf_span span;
  struct sf_span old; /* of a hook: what the map held until then */
  __u32 epoch;
  __u32 place; /* of the sweep */
  __u32 frames;
  __u32 teller; /* enum sf_teller */
  __u32 switches;
  __u32 pad;
  __s64 result;
};

#define BODY_INPUTS 8

/* One run of a storm: many folds in a row, of spans and stacks that follow from the step and the thread. */
#define STORM_STEPS 256
#define STORM_SPAN(i) (1 + (i) % 3)
#define STORM_STACK(thread, i) ((thread)*1000 + (i) % 7)

#endif
