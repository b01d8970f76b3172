/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the churner's program and its loader agree on. Valid in C and C++. */
#ifndef CHURN_H
#define CHURN_H

#include <linux/types.h>

#define CHURN_STEPS 256 /* changes, or pairs of them, in one run */

/* NOLINTBEGIN(readability-identifier-naming): C names, as BPF programs have them */
enum churn_mode {
  CHURN_OWN = 0, /* sets and deletes the entry of the calling thread, each time with another span */
  CHURN_KEYS,    /* sets entries of threads that there are not */
  CHURN_FOREIGN, /* sets entries of another LRU map */
};
/* NOLINTEND(readability-identifier-naming) */

#endif
