// SPDX-License-Identifier: Apache-2.0
// A C program for musl, whose libc has no call-frame information.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int cmp(const void* a, const void* b) { return *(int*)a - *(int*)b; }
int main() {
  int v[500];
  char b[200];
  unsigned s = 1;
  for (;;) {
    for (int i = 0; i < 500; i++) v[i] = (s = s * 1664525 + 1013904223) >> 8;
    qsort(v, 500, 4, cmp);
    for (int i = 0; i < 50; i++) {
      snprintf(b, 200, "%d %f %s", i, i * 1.5, "x");
      strtod(b, 0);
      free(strdup(b));
    }
  }
}
