/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What bench/truth's program hands over. */
#ifndef SPANFOLD_BENCH_TRUTH_H
#define SPANFOLD_BENCH_TRUTH_H

#include "bpf/core.h"

#define TRUTH_PIECE_BYTES 1024
#define TRUTH_PIECES 65

/* NOLINTBEGIN(readability-identifier-naming,modernize-avoid-c-arrays): shared with C */

/* A stack as it was, and what our walk made of it. */
struct truth_sample {
  struct sf_process process;
  struct sf_image image;
  __u64 registers[SF_REGISTERS]; /* in DWARF's order */
  __u64 pc;
  __u64 stack_at; /* where the copy begins: the stack pointer, rounded down to a piece */
  __u32 stack_bytes;
  __u32 end; /* enum sf_end */
  __u32 frames;
  __u32 in_kernel; /* 1: user space was left for the kernel before */
  __u64 frame[SF_USER_FRAMES + 1];
  __u8 stack[TRUTH_PIECES * TRUTH_PIECE_BYTES];
};

/* Of all samples, also those for which the ring had no room. */
struct truth_sums {
  __u64 runs;
  __u64 ends[16]; /* by enum sf_end */
};

/* NOLINTEND(readability-identifier-naming,modernize-avoid-c-arrays) */

#endif
