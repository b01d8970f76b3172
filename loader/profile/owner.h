// SPDX-License-Identifier: Apache-2.0
// Whose the files are that root makes under sudo.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace spanfold::profile {

struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};

// Who typed sudo, by SUDO_UID and SUDO_GID; nothing where we are not root or these are no two plain numbers.
[[nodiscard]] std::optional<Owner> sudo_owner();

// Gives a file that we have just made to who typed sudo, so that `report` needs no root. `name` is for the error.
[[nodiscard]] Status give_away(int fd, const std::string& name);

}  // namespace spanfold::profile
