// SPDX-License-Identifier: Apache-2.0
#include "profile/owner.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "profile/pending_stream.h"

namespace spanfold::profile {
namespace {

// Digits only. The largest number means "leave as it is" to chown, and is nobody's.
std::optional<std::uint32_t> id_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits = text;
  std::uint32_t id = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (id == std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return id;
}

}  // namespace

std::optional<Owner> sudo_owner() {
  if (::geteuid() != 0) return std::nullopt;
  const auto user = id_in("SUDO_UID");
  const auto group = id_in("SUDO_GID");
  if (!user || !group) return std::nullopt;
  return Owner{.user = *user, .group = *group};
}

Status give_away(int fd, const std::string& name) {
  const auto owner = sudo_owner();
  struct stat found {};
  if (!owner || ::fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return ok();
  if (found.st_uid == owner->user && found.st_gid == owner->group) return ok();
  if (::fchown(fd, owner->user, owner->group) == 0) return ok();
  return output_error(fmt::format("give {} to user {}", name, owner->user));
}

}  // namespace spanfold::profile
