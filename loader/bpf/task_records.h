// SPDX-License-Identifier: Apache-2.0
// Records of perf events (perf_event_open(2)) about processes, in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/task_sink.h"

namespace spanfold::bpf {

// Hands one record to `sink`: a fork, an exit, an exec, an executable mapping, a loss; others are passed over. Each
// must end in its time, as sample_id_all with PERF_SAMPLE_TIME alone makes it. A loss is one since `before_ns`, the
// time of the record before it. False where the record is shorter than its kind must be.
[[nodiscard]] bool dispatch_record(std::span<const std::byte> record, std::uint64_t before_ns, TaskSink& sink);

}  // namespace spanfold::bpf
