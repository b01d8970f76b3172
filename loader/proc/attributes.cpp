// SPDX-License-Identifier: Apache-2.0
#include "proc/attributes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <charconv>
#include <optional>

#include "proc/procfs.h"

namespace spanfold::proc {
namespace {

constexpr std::size_t kMaxEnvironmentBytes = 1UL << 20;  // half of what exec takes by default
constexpr std::size_t kMaxCgroupBytes = 64UL * 1024;
constexpr std::size_t kContainerIdDigits = 64;

// Calls `take` for each part of `text` between separators until it returns false.
template <typename Take>
void each_part(std::string_view text, char separator, Take take) {
  while (true) {
    const std::size_t end = text.find(separator);
    if (!take(text.substr(0, end)) || end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

std::string_view variable(std::string_view environment, std::string_view name) {
  std::string_view value;
  each_part(environment, '\0', [&](std::string_view entry) {
    const bool found = entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
    if (found) value = entry.substr(name.size() + 1);
    return !found;
  });
  return value;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2) return {};
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

std::string service_of_resource(std::string_view list) {
  std::string service;
  bool good = true;
  each_part(list, ',', [&](std::string_view entry) {
    if (trim(entry).empty()) return true;  // a trailing comma
    const std::size_t equals = entry.find('=');
    const auto key = percent_decoded(trim(entry.substr(0, equals)));
    if (equals == std::string_view::npos || !key || key->empty()) return good = false;
    const auto value = percent_decoded(trim(entry.substr(equals + 1)));
    if (!value) return good = false;
    if (*key == "service.name") service = *value;
    return true;
  });
  return good ? service : std::string();
}

// The id that one component of a cgroup path carries: "<id>", "docker-<id>.scope", "cri-containerd:<id>", …
std::string_view id_of_component(std::string_view component) {
  if (component.ends_with(".scope")) component.remove_suffix(std::string_view(".scope").size());
  const std::size_t separator = component.find_last_of("-:");
  const std::string_view id = component.substr(separator == std::string_view::npos ? 0 : separator + 1);
  if (id.size() != kContainerIdDigits || id.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  // conmon watches a container from outside; its own group carries the container's id.
  const std::string_view prefix = component.substr(0, component.size() - id.size());
  return prefix.ends_with("conmon-") ? std::string_view() : id;
}

}  // namespace

std::string service_name(std::string_view environment) {
  const std::string_view direct = variable(environment, "OTEL_SERVICE_NAME");
  if (!direct.empty()) return std::string(direct);
  return service_of_resource(variable(environment, "OTEL_RESOURCE_ATTRIBUTES"));
}

std::string container_id(std::string_view cgroup) {
  std::string_view found;
  each_part(cgroup, '\n', [&](std::string_view line) {
    // "hierarchy:controllers:path" (cgroups(7)); the path may hold colons.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) return true;
    std::string_view parent;
    each_part(line.substr(second + 1), '/', [&](std::string_view component) {
      const std::string_view id = id_of_component(component);
      // Podman, without systemd, keeps a pod there by its plain id, and in it containers, but conmon too.
      const bool is_pod = parent == "libpod_parent" && id == component;
      if (!id.empty() && !is_pod) found = id;
      parent = component;
      return true;
    });
    return found.empty();  // hierarchies agree: the first that names one is enough
  });
  return std::string(found);
}

ProcessAttributes read_attributes(int process_folder) {
  ProcessAttributes attributes;
  const auto add = [&](const char* key, std::string value) {
    if (!value.empty()) attributes.emplace_back(key, std::move(value));
  };
  add("container.id", container_id(read_at(process_folder, "cgroup", kMaxCgroupBytes).value_or("")));
  std::string path = read_link_at(process_folder, "exe");
  struct stat status {};
  const bool nameless = ::fstatat(process_folder, "exe", &status, 0) == 0 && status.st_nlink == 0;
  constexpr std::string_view kDeleted = " (deleted)";
  if (nameless && path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  add("process.executable.name", path.substr(path.rfind('/') + 1));
  add("process.executable.path", path);
  add("service.name", service_name(read_at(process_folder, "environ", kMaxEnvironmentBytes).value_or("")));
  return attributes;
}

ProcessAttributes host_attributes() {
  utsname names{};
  ProcessAttributes attributes;
  if (::uname(&names) == 0 && names.nodename[0] != '\0') attributes.emplace_back("host.name", names.nodename);
  attributes.emplace_back("os.type", "linux");
  return attributes;
}

}  // namespace spanfold::proc
