// SPDX-License-Identifier: Apache-2.0
// Bytes out of the ring: whole messages come through, others are refused and never read past their end.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "bpf/abi.h"
#include "bpf/cpus.h"
#include "bpf/messages.h"

namespace {

class Kept : public spanfold::bpf::Sink {
 public:
  void on_stack(const spanfold::bpf::StackSeen& stack) override {
    kernel.assign(stack.kernel.begin(), stack.kernel.end());
    user.assign(stack.user.begin(), stack.user.end());
    ++stacks;
  }
  void on_fold(const spanfold::bpf::FoldDelta& fold) override { folds.push_back(fold); }

  std::vector<std::uint64_t> kernel;
  std::vector<std::uint64_t> user;
  std::vector<spanfold::bpf::FoldDelta> folds;
  int stacks = 0;
};

// In a buffer of just that size, so that a sanitizer sees a read beyond it.
bool dispatch(const void* data, std::size_t bytes, Kept& kept) {
  const auto exact = std::make_unique<std::uint64_t[]>((bytes + 7) / 8);
  std::memcpy(exact.get(), data, bytes);
  return spanfold::bpf::dispatch_message(exact.get(), bytes, kept);
}

}  // namespace

TEST_CASE("a stack divides into its halves") {
  sf_stack_msg msg{};
  msg.head = {.type = SF_MSG_STACK, .count = 5};
  msg.kernel_frames = 2;
  for (std::uint64_t i = 0; i < 5; ++i) msg.frames[i] = 100 + i;
  Kept kept;
  REQUIRE(dispatch(&msg, offsetof(sf_stack_msg, frames) + 40, kept));
  CHECK(kept.kernel == std::vector<std::uint64_t>{100, 101});
  CHECK(kept.user == std::vector<std::uint64_t>{102, 103, 104});
  CHECK(!dispatch(&msg, offsetof(sf_stack_msg, frames) + 32, kept));
  msg.kernel_frames = 6;
  CHECK(!dispatch(&msg, offsetof(sf_stack_msg, frames) + 40, kept));
}

TEST_CASE("a fold carries its span in the order of bytes that the map has") {
  auto msg = std::make_unique<sf_fold_msg>();
  msg->fold.head = {.type = SF_MSG_FOLD, .source = SF_SOURCE_MAP, .count = 2, .epoch = 9};
  const std::uint8_t ids[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26, 27, 28};
  std::memcpy(&msg->fold.span, ids, sizeof(ids));
  msg->fold.pid_tgid = (55ULL << 32) | 66;
  msg->fold.first_ns = 1000;
  msg->fold.last_ns = 4000;
  msg->slots[0] = {.stack_id = 7, .count = 4};
  msg->slots[1] = {.stack_id = 8, .count = 1};
  Kept kept;
  REQUIRE(dispatch(msg.get(), sizeof(sf_fold_head) + 2 * sizeof(sf_slot), kept));
  REQUIRE(kept.folds.size() == 1);
  const auto& fold = kept.folds[0];
  CHECK(std::memcmp(fold.span.trace_id.data(), ids, 16) == 0);
  CHECK(std::memcmp(fold.span.span_id.data(), ids + 16, 8) == 0);
  CHECK(fold.process.pid == 55);
  CHECK(fold.tid == 66);
  CHECK(fold.last_boottime_ns == 4000);
  CHECK(fold.epoch == 9);
  CHECK(fold.stacks.size() == 2);
  CHECK(!dispatch(msg.get(), sizeof(sf_fold_head) + sizeof(sf_slot), kept));
}

TEST_CASE("random bytes are refused or understood, within their length") {
  std::mt19937_64 random(4);
  Kept kept;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::uint64_t> words(1 + random() % 40);
    for (auto& word : words) word = random();
    reinterpret_cast<std::uint8_t*>(words.data())[0] = static_cast<std::uint8_t>(random() % 4);
    reinterpret_cast<std::uint16_t*>(words.data())[1] = static_cast<std::uint16_t>(random() % 40);
    (void)dispatch(words.data(), random() % (words.size() * 8 + 1), kept);
  }
  CHECK(!kept.folds.empty());
}

TEST_CASE("lists of CPUs as the kernel writes them") {
  using spanfold::bpf::parse_cpu_list;
  CHECK(parse_cpu_list("0-3,5\n") == std::vector<int>{0, 1, 2, 3, 5});
  CHECK(parse_cpu_list("7") == std::vector<int>{7});
  CHECK(parse_cpu_list("2,1,2") == std::vector<int>{1, 2});
  std::string again = "0-65535";
  for (int i = 0; i < 20'000; ++i) again += ",0-65535";
  CHECK(parse_cpu_list(again).size() == 65'536);  // and not 20,000 times as many on the way
  for (const char* bad : {"", "\n", "-1", "1-", "3-1", "1,", ",1", "1;2", "x", "0-99999999", "1 2"}) {
    CAPTURE(bad);
    CHECK(parse_cpu_list(bad).empty());
  }
}
