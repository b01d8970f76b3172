// SPDX-License-Identifier: Apache-2.0
// The control groups and the environment of a process.
#include "proc/attributes.h"

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spanfold;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string id = proc::container_id(text);
  fuzz::check(id.empty() || (id.size() == 64 && fuzz::contains(text, id)), "a container's id stands in the file");
  fuzz::check(id.find_first_not_of("0123456789abcdef") == std::string::npos, "it is hexadecimal");
  const std::string service = proc::service_name(text);
  fuzz::check(service.size() <= text.size(), "no more is decoded than there is");
  const bool encoded = fuzz::contains(text, "%");
  fuzz::check(encoded || fuzz::contains(text, service), "a name that is not encoded stands in the environment");
  const std::string direct = "OTEL_SERVICE_NAME=x" + std::string(1, '\0') + std::string(text);
  fuzz::check(proc::service_name(direct) == "x", "the first variable counts");
  return 0;
}
