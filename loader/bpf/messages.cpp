// SPDX-License-Identifier: Apache-2.0
#include "bpf/messages.h"

#include <cstring>

namespace spanfold::bpf {
namespace {

static_assert(kMostKernelFrames == SF_KERNEL_FRAMES, "app marks what the walk cut");
static_assert(kMostUserFrames == SF_USER_FRAMES);
static_assert(static_cast<int>(WalkEnd::kZero) + 1 == SF_END_COUNT);

bool dispatch_stack(const void* data, std::size_t bytes, Sink& sink) {
  constexpr std::size_t kHead = offsetof(sf_stack_msg, frames);
  // The ring aligns messages to 8 bytes, as the kernel side's own struct is.
  const auto& msg = *static_cast<const sf_stack_msg*>(data);
  if (bytes < kHead || bytes < kHead + msg.head.count * sizeof(__u64) || msg.kernel_frames > msg.head.count ||
      msg.end >= SF_END_COUNT)
    return false;
  static_assert(sizeof(__u64) == sizeof(std::uint64_t));
  const auto* frames = reinterpret_cast<const std::uint64_t*>(msg.frames);
  StackSeen seen;
  seen.stack_id = msg.stack_id;
  seen.process = {.start_boottime_ns = msg.process.start_ns, .pid = msg.process.tgid, .exec_id = msg.process.exec_id};
  seen.image = {
      .start_code = msg.image.start_code, .end_code = msg.image.end_code, .start_stack = msg.image.start_stack};
  seen.boottime_ns = msg.seen_ns;
  seen.kernel = {frames, msg.kernel_frames};
  seen.user = {frames + msg.kernel_frames, msg.head.count - msg.kernel_frames};
  seen.end = static_cast<WalkEnd>(msg.end);
  sink.on_stack(seen);
  return true;
}

bool dispatch_fold(const void* data, std::size_t bytes, Sink& sink) {
  const auto& msg = *static_cast<const sf_fold_msg*>(data);
  const sf_fold_head& head = msg.fold;
  if (bytes < sizeof(head) || bytes < sizeof(head) + head.head.count * sizeof(sf_slot)) return false;
  FoldDelta fold;
  fold.epoch = head.head.epoch;
  fold.source = static_cast<ContextSource>(head.head.source);
  fold.span = context_of(head.span);
  fold.process = {.start_boottime_ns = head.process_start_ns,
                  .pid = static_cast<std::uint32_t>(head.pid_tgid >> 32),
                  .exec_id = head.exec_id};
  fold.tid = static_cast<std::uint32_t>(head.pid_tgid);
  fold.first_boottime_ns = head.first_ns;
  fold.last_boottime_ns = head.last_ns;
  fold.on_thread_ns = head.on_thread_ns;
  fold.begin_seen = (head.stay & SF_STAY_BEGIN_SEEN) != 0;
  fold.end_seen = (head.stay & SF_STAY_END_SEEN) != 0;
  fold.gone = (head.stay & SF_STAY_GONE) != 0;
  fold.switched = (head.stay & SF_STAY_SWITCHED) != 0;
  fold.stacks.reserve(head.head.count);
  for (std::size_t i = 0; i < head.head.count; ++i) {
    fold.stacks.push_back({.stack_id = msg.slots[i].stack_id, .samples = msg.slots[i].count});
  }
  sink.on_fold(fold);
  return true;
}

}  // namespace

SpanContext context_of(const sf_span& span) {
  SpanContext context;
  static_assert(sizeof(span.trace_id) == sizeof(context.trace_id) && sizeof(span.span_id) == sizeof(context.span_id));
  std::memcpy(context.trace_id.data(), span.trace_id, sizeof(span.trace_id));
  std::memcpy(context.span_id.data(), &span.span_id, sizeof(span.span_id));
  return context;
}

bool dispatch_message(const void* data, std::size_t bytes, Sink& sink) {
  if (bytes < sizeof(sf_msg)) return false;
  switch (static_cast<const sf_msg*>(data)->type) {
    case SF_MSG_STACK: return dispatch_stack(data, bytes, sink);
    case SF_MSG_FOLD: return dispatch_fold(data, bytes, sink);
    default: return false;
  }
}

}  // namespace spanfold::bpf
