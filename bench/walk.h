/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What bench/walk's program hands over. */
#ifndef SPANFOLD_BENCH_WALK_H
#define SPANFOLD_BENCH_WALK_H

#include <linux/types.h>

struct walk_sums { /* NOLINT(readability-identifier-naming): shared with C */
  __u64 runs;
  __u64 helper_ns;
  __u64 ours_ns;
  __u64 helper_frames;
  __u64 ours_frames;
  __u64 ends[16]; /* by enum sf_end; NOLINT(modernize-avoid-c-arrays) */
};

struct walk_frames { /* NOLINT(readability-identifier-naming): shared with C */
  __u64 frame[127];  /* NOLINT(modernize-avoid-c-arrays) */
};

#endif
