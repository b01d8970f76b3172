// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace spanfold {

std::string Error::message() const {
  std::string text = what;
  if (code != 0) text += fmt::format(": {}", std::strerror(code));
  if (!hint.empty()) text += fmt::format(" ({})", hint);
  return text;
}

Error errno_error(std::string what, std::string hint) {
  return Error{.what = std::move(what), .code = errno, .hint = std::move(hint)};
}

}  // namespace spanfold
