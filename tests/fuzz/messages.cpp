// SPDX-License-Identifier: Apache-2.0
// Messages out of the ring of the BPF programs, and lists of CPUs.
#include "bpf/messages.h"

#include <memory>

#include "bpf/cpus.h"
#include "fuzz/fuzz.h"

namespace {

class Checked final : public spanfold::bpf::Sink {
 public:
  void on_stack(const spanfold::bpf::StackSeen& stack) override {
    for (const auto half : {stack.kernel, stack.user}) {
      for (const std::uint64_t frame : half) sum_ += frame;
    }
    bytes = (stack.kernel.size() + stack.user.size()) * sizeof(std::uint64_t);
  }
  void on_fold(const spanfold::bpf::FoldDelta& fold) override {
    for (const auto& stack : fold.stacks) sum_ += stack.stack_id + stack.samples;
    bytes = fold.stacks.size() * sizeof(sf_slot);
  }
  std::size_t bytes = 0;

 private:
  std::uint64_t sum_ = 0;  // reads all
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  // Aligned as the ring aligns, and no longer, so that a read beyond it is seen.
  const auto exact = std::make_unique<std::uint64_t[]>((size + 7) / 8);
  if (size != 0) std::memcpy(exact.get(), data, size);
  Checked sink;
  if (bpf::dispatch_message(exact.get(), size, sink)) fuzz::check(sink.bytes <= size, "nothing comes from beyond");
  const auto cpus = bpf::parse_cpu_list(std::string(reinterpret_cast<const char*>(data), size));
  for (std::size_t i = 1; i < cpus.size(); ++i) fuzz::check(cpus[i - 1] < cpus[i], "CPUs are in order");
  return 0;
}
