/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the tests of the walk hand over: where it begins, and where it went. */
#ifndef SPANFOLD_TESTS_WALKS_H
#define SPANFOLD_TESTS_WALKS_H

#include "bpf/core.h"

struct sf_walk_io { /* NOLINT(readability-identifier-naming): shared with C */
  struct sf_process process;
  struct sf_registers at;
  __u64 registers[SF_REGISTERS];
  __u32 exact;
  __u32 end;    /* result */
  __u32 frames; /* result */
  __u32 switches;
  __u64 frame[256]; /* result */
};

#endif
