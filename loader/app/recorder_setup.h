// SPDX-License-Identifier: Apache-2.0
// From the options of a recording to what the kernel side is asked for.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "app/cgroup_filter.h"
#include "app/options.h"
#include "base/fd.h"
#include "base/result.h"
#include "bpf/recorder.h"

namespace spanfold::app {

// A size or time for tests alone, which make stores tiny and waits short to see what overflows and what is said.
[[nodiscard]] std::uint64_t test_value(const char* name, std::uint64_t normal);

// Fails where this process may not record, or not what was asked for. Says what the recording will lack.
[[nodiscard]] Status check_host(const RecordOptions& options);

// `command`: the process that is recorded with its descendants.
[[nodiscard]] bpf::RecorderOptions recorder_options(const RecordOptions& options, std::optional<pid_t> command,
                                                    const CgroupFilter& cgroups);

// The groups of --cgroup. Fails where one is not there, or cannot be followed from here.
[[nodiscard]] Result<CgroupFilter> open_cgroups(const RecordOptions& options);

// Descriptors of the processes of --pid, readable once they have ended. Fails where one of them, or a thread of --tid,
// is not there.
[[nodiscard]] Result<std::vector<Fd>> open_targets(const RecordOptions& options);

}  // namespace spanfold::app
