// SPDX-License-Identifier: Apache-2.0
// A C++ program with stacks of many shapes, two threads, and a signal every 2 ms; runs until it is ended.
#include "mixed.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <thread>
volatile double sink;
volatile int signals;
static void on_signal(int) {
  for (int i = 0; i < 20000; ++i) signals = signals + 1;
  sink = sink + recurse(8, 2);
}
static void work(int id) {
  std::string text = "((1)(2(34))(5((6))))";
  for (unsigned i = id;; ++i) {
    std::unique_ptr<Shape> s(make_shape(int(i)));
    sink = sink + s->area(200) + double(s->name().size());
    sink = sink + sort_some(i, 300);
    std::size_t at = 0;
    sink = sink + parse(text, at);
    if (i % 16 == 0) {
      sink = sink + throws_sometimes(10);
      sink = sink + double(regex_some(5).size());
    }
    sink = sink + recurse(14, 1.5) + double(tail_a(2000, 1));
    if (i % 64 == 0) {
      char b[256];
      int fd = dup(0);
      sink = sink + double(read(-1, b, 1));
      close(fd);
    }
  }
}
int main() {
  struct sigaction a {};
  a.sa_handler = on_signal;
  sigaction(SIGALRM, &a, nullptr);
  itimerval t{{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &t, nullptr);
  std::thread other(work, 7);
  work(1);
}
