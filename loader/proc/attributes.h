// SPDX-License-Identifier: Apache-2.0
// Resource attributes of a process, out of its environment, its executable and its control groups.
#pragma once

#include <string>
#include <string_view>

#include "proc/symbolizer.h"

namespace spanfold::proc {

// service.name out of /proc/PID/environ ("NAME=value\0…"): OTEL_SERVICE_NAME, else service.name of
// OTEL_RESOURCE_ATTRIBUTES ("key=value,…", both percent-encoded; wholly void where any part of it is malformed), as the
// OpenTelemetry specification for SDKs has it. Where a variable stands twice, the first counts, as for getenv. Empty:
// not said.
[[nodiscard]] std::string service_name(std::string_view environment);

// The container that /proc/PID/cgroup names, by the ids of 64 hex digits that docker, containerd, CRI-O and podman put
// there, under cgroup v1, v2 and both, plain or as systemd scopes; the innermost where they nest. Empty: none.
[[nodiscard]] std::string container_id(std::string_view cgroup);

// Everything above and process.executable.name and .path, read through an open folder /proc/PID; sorted by key. The
// caller makes sure that it is the right process.
[[nodiscard]] ProcessAttributes read_attributes(int process_folder);

}  // namespace spanfold::proc
