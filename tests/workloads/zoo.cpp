// SPDX-License-Identifier: Apache-2.0
// Stacks of every shape that a walk has to get through, one after the other: usage: zoo SHAPE SECONDS. Built without
// frame pointers. What is around `spin` is what the test expects to see around it.
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {
double seconds = 1;
volatile std::uint64_t sink;
volatile int* volatile nowhere = nullptr;
}  // namespace

// clang, which lints, does not know all of these.
#if defined(__clang__)
#define PLAIN extern "C" __attribute__((noinline))
#else
#define PLAIN extern "C" __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls", "omit-frame-pointer")))
#endif

PLAIN void spin() {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double end = now() + seconds;
  while (now() < end) {
    for (int i = 0; i < 100'000; ++i) sink = sink + 1;
  }
}

PLAIN void calls_plainly() {
  spin();
  sink = sink + 1;
}

PLAIN void with_alloca(std::size_t bytes) {
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  memory[0] = 1;
  calls_plainly();
  sink = sink + memory[0];
}

PLAIN void realigned() {
  alignas(64) volatile char wide[192];
  wide[5] = 2;
  calls_plainly();
  sink = sink + wide[5];
}

// Realigned and of a size that is not known: the frame is told from a third register.
PLAIN void realigned_with_alloca(std::size_t bytes) {
  alignas(64) volatile char wide[192];
  auto* memory = static_cast<volatile char*>(alloca(bytes));
  wide[5] = 2;
  memory[0] = 2;
  calls_plainly();
  sink = sink + wide[5] + memory[0];
}

PLAIN int compare(const void* a, const void* b) {
  static bool spun = false;
  if (!spun) {
    spun = true;
    spin();
  }
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

PLAIN void through_libc() {
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof(int), compare);
  sink = sink + static_cast<std::uint64_t>(numbers[0]);
}

PLAIN void odd(int depth);
PLAIN void even(int depth) {
  if (depth > 0)
    odd(depth - 1);
  else
    spin();
  sink = sink + 1;
}
PLAIN void odd(int depth) {
  if (depth > 0)
    even(depth - 1);
  else
    spin();
  sink = sink + 1;
}

PLAIN void on_signal(int) { calls_plainly(); }

PLAIN void raises() {
  raise(SIGUSR1);
  sink = sink + 1;
}

PLAIN void faults() {
  *nowhere = 1;
  sink = sink + 1;
}

PLAIN void on_fault(int) {
  calls_plainly();
  _exit(0);
}

void handle(int number, void (*handler)(int), bool own_stack) {
  static stack_t stack{};
  stack.ss_sp = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = 65536;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = own_stack ? SA_ONSTACK : 0;
  if (own_stack) sigaltstack(&stack, nullptr);
  sigaction(number, &action, nullptr);
}

ucontext_t main_context, coroutine_context;

PLAIN void coroutine() { calls_plainly(); }

PLAIN void switches() {
  static char stack[65536];
  getcontext(&coroutine_context);
  coroutine_context.uc_stack.ss_sp = stack;
  coroutine_context.uc_stack.ss_size = sizeof stack;
  coroutine_context.uc_link = &main_context;
  makecontext(&coroutine_context, coroutine, 0);
  swapcontext(&main_context, &coroutine_context);
  sink = sink + 1;
}

// The stack ends where its last page does.
PLAIN void* on_edge(void*) {
  calls_plainly();
  return nullptr;
}

// A frame of more than a window of the walk.
PLAIN void large_frame() {
  volatile char memory[20'000];
  memory[7] = 1;
  calls_plainly();
  sink = sink + memory[7];
}

PLAIN void in_child() {
  // The parent waits in vfork, the child is on its stack.
  if (vfork() == 0) {
    spin();
    _exit(0);
  }
  sink = sink + 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string shape = argv[1];
  seconds = std::atof(argv[2]);
  if (shape == "plain") calls_plainly();
  if (shape == "alloca") with_alloca(static_cast<std::size_t>(argc) * 1000);
  if (shape == "realigned") realigned();
  if (shape == "realigned_alloca") realigned_with_alloca(static_cast<std::size_t>(argc) * 1000);
  if (shape == "qsort") through_libc();
  if (shape == "mutual") even(40);
  if (shape == "deep") even(100);
  if (shape == "too_deep") even(500);
  if (shape == "signal" || shape == "signal_stack") {
    handle(SIGUSR1, on_signal, shape == "signal_stack");
    raises();
  }
  if (shape == "fault") {
    handle(SIGSEGV, on_fault, false);
    faults();
  }
  if (shape == "makecontext") switches();
  if (shape == "large") large_frame();
  if (shape == "vfork") in_child();
  if (shape == "thread") {
    pthread_t thread;
    pthread_create(&thread, nullptr, on_edge, nullptr);
    pthread_join(thread, nullptr);
  }
  return 0;
}
