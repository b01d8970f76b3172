/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the writer's programs and their loader agree on. Valid in C and C++. */
#ifndef WRITER_H
#define WRITER_H

#include <linux/types.h>

#define WRITER_CTX_ENTRIES 16384 /* OBI's size of the context map */
#define WRITER_MAX_DEPTH 8       /* spans of one thread; a power of two */

/* NOLINTBEGIN(readability-identifier-naming): C names, as BPF programs have them */
enum writer_count { WRITER_SET = 0, WRITER_DELETED, WRITER_FAILED, WRITER_COUNT };

/* The faults that it acts; all zero: a writer without fault. */
struct writer_config {
  __u32 write_nothing; /* the map stays as it was found */
  __u32 forget_delete; /* an entry outlives its span */
  __u32 forget_parent; /* the end of a nested span deletes the entry */
  __u32 pad;
};
/* NOLINTEND(readability-identifier-naming) */

#endif
