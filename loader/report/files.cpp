// SPDX-License-Identifier: Apache-2.0
#include "report/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "report/decode.h"

namespace spanfold::report {
namespace {

// Protobuf messages end at 2 GiB.
constexpr std::size_t kMaxFileBytes = (std::size_t{1} << 31) - 1;
constexpr std::array<std::string_view, 3> kEndings = {".otlp", ".pb", ".binpb"};

bool is_profile_name(std::string_view name) {
  return !name.starts_with('.') &&
         std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

Status read_one(const std::string& path, Recording& into) {
  const Result<std::string> bytes = read_file(path, kMaxFileBytes);
  if (!bytes) {
    Error error = bytes.error();
    if (error.code == ENOENT) error.hint = "`spanfold record` writes spanfold.otlp, or what its -o names";
    if (error.code == EAGAIN) error.hint = "name a file or a folder";
    return error;
  }
  const bool part = path.ends_with(".part");
  const Result<Decoded> decoded = decode(*bytes, path, part, into);
  if (!decoded) return decoded.error();
  if (part) {
    log::warning("{} is of a recorder that did not end: read up to its last whole flush, {} bytes left out", path,
                 decoded->torn_bytes);
  }
  return ok();
}

Status read_folder(const std::string& path, Recording& into) {
  std::error_code code;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator entry(path, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;  // a file that went away meanwhile is no file of ours
    if (is_profile_name(name) && entry->is_regular_file(ignored)) files.push_back(entry->path().string());
  }
  if (code) return Error{.what = fmt::format("list {}", path), .code = code.value(), .hint = {}};
  if (files.empty()) {
    return Error{.what = fmt::format("{} holds no profiles", path),
                 .hint = "expected files that end in .otlp, .pb or .binpb"};
  }
  std::sort(files.begin(), files.end());
  std::size_t good = 0;
  for (const std::string& file : files) {
    Recording::Mark before = into.mark();
    const Status read = read_one(file, into);
    if (read) {
      ++good;
      continue;
    }
    into.take_back(std::move(before));
    // Gone since it was listed: a recorder with --max-disk removes its oldest files at any time.
    if (read.error().code != ENOENT) log::warning("left out of {}: {}", path, read.error().message());
  }
  if (good != 0) return ok();
  return Error{.what = fmt::format("nothing in {} can be read", path), .hint = "name other files or another folder"};
}

}  // namespace

Status read_paths(const std::vector<std::string>& paths, Recording& into) {
  for (const std::string& path : paths) {
    std::error_code ignored;  // what cannot be looked at is reported by the attempt to read it
    const bool folder = std::filesystem::is_directory(path, ignored);
    if (Status read = folder ? read_folder(path, into) : read_one(path, into); !read) return read;
  }
  for (const std::string& type : into.skipped_types)
    log::warning("left out profiles of \"{}\": not CPU or waiting time", type);
  return ok();
}

}  // namespace spanfold::report
