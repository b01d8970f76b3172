// SPDX-License-Identifier: Apache-2.0
// One self-contained file for each message: spanfold-<UTC time of the window>-<16 hex digits>.otlp. Names sort by
// time; the digits are random, so runs that share a folder never meet.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <utility>
#include <vector>

#include "base/log.h"
#include "profile/carrier.h"
#include "profile/encoder.h"
#include "profile/hash.h"
#include "profile/output_kinds.h"
#include "profile/owner.h"
#include "profile/pending_stream.h"

namespace spanfold::profile {
namespace {

constexpr std::string_view kPrefix = "spanfold-";
constexpr std::string_view kSuffix = ".otlp";
constexpr std::string_view kPartSuffix = ".otlp.part";
constexpr std::size_t kStemBytes = std::string_view("spanfold-20000101T000000.000000000Z-0123456789abcdef").size();

std::string name_of(const Window& window, std::uint64_t sequence) {
  constexpr std::uint64_t kNanoseconds = 1'000'000'000;
  const auto seconds = static_cast<std::time_t>(window.start_unix_nano / kNanoseconds);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  Hash128 seed;
  std::memcpy(&seed, window.id_seed.data(), sizeof(seed));
  return fmt::format("{}{:04}{:02}{:02}T{:02}{:02}{:02}.{:09}Z-{:016x}{}", kPrefix, utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, window.start_unix_nano % kNanoseconds,
                     Hasher(seed).word(sequence).result().low, kSuffix);
}

// Only names that this program makes: --max-disk removes nothing else.
bool is_ours(std::string_view name) {
  return name.starts_with(kPrefix) && name.size() >= kStemBytes && name[kStemBytes - 17] == '-' &&
         (name.substr(kStemBytes) == kSuffix || name.substr(kStemBytes) == kPartSuffix);
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

struct Found {
  std::string name;
  std::uint64_t bytes;
};

// Our files in the folder, oldest first.
Result<std::vector<Found>> list_ours(int folder, const std::string& path) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseFolder> entries(copy < 0 ? nullptr : ::fdopendir(copy));
  if (!entries) return output_error(fmt::format("list {}", path));
  std::vector<Found> found;
  while (const dirent* entry = ::readdir(entries.get())) {
    struct stat info {};
    if (!is_ours(entry->d_name) || ::fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) found.push_back({entry->d_name, static_cast<std::uint64_t>(info.st_size)});
  }
  std::sort(found.begin(), found.end(), [](const Found& left, const Found& right) { return left.name < right.name; });
  return found;
}

class FolderOutput final : public Output {
 public:
  FolderOutput(Fd folder, const OutputOptions& options)
      : folder_(std::move(folder)),
        options_(options),
        encoder_({.mode = EncoderOptions::Mode::kMessages, .version = options.version}) {}

  Status write(Window window) override {
    if (const auto complete = carrier_.admit(std::move(window))) add(*complete);
    return write_pending();
  }

  Result<OutputSummary> close() override {
    if (const auto last = carrier_.take_last()) add(*last);
    if (Status written = write_pending(); !written) return written.error();
    if (lost_files_ != 0) {
      return Error{.what = fmt::format("{} files for {} were lost to earlier failures", lost_files_, options_.path),
                   .hint = "free some space or choose another -o"};
    }
    if (too_large_ != 0 && summary_.files == 0) {
      return Error{.what = fmt::format("nothing was written to {}: each of {} flushes is larger than --max-disk allows",
                                       options_.path, too_large_),
                   .hint = "raise --max-disk or flush more often"};
    }
    if (too_large_ > 1) log::warning("{} flushes were larger than --max-disk and are left out", too_large_);
    return summary_;
  }

 private:
  struct Message {
    std::string name, bytes;
  };

  void add(const Window& window) {
    Message message{.name = name_of(window, sequence_++), .bytes = {}};
    encoder_.encode(window, message.bytes);
    pending_bytes_ += message.bytes.size();
    pending_.push_back(std::move(message));
  }

  Status write_pending() {
    while (!pending_.empty()) {
      if (options_.max_disk_bytes != 0 && pending_.front().bytes.size() > options_.max_disk_bytes) {
        drop_too_large();
        continue;
      }
      if (Status written = write_file(pending_.front()); !written) {
        drop_beyond_bound();
        return written;
      }
      summary_.files += 1;
      summary_.bytes += pending_.front().bytes.size();
      pop_oldest();
    }
    return ok();
  }

  // It never fits, and would keep all that follows from being written.
  void drop_too_large() {
    if (too_large_++ == 0) {
      log::warning("a flush of {} bytes is left out: --max-disk allows {} in all; raise it or flush more often",
                   pending_.front().bytes.size(), options_.max_disk_bytes);
    }
    pop_oldest();
  }

  void pop_oldest() {
    pending_bytes_ -= pending_.front().bytes.size();
    pending_.pop_front();
  }

  void drop_beyond_bound() {
    for (; pending_bytes_ > options_.max_pending_bytes; ++lost_files_) pop_oldest();
  }

  Status write_file(const Message& message) {
    if (Status room = make_room(message.bytes.size()); !room) return room;
    const std::string part = message.name + ".part";
    const std::string shown = fmt::format("{}{}{}", options_.path, options_.path.back() == '/' ? "" : "/", part);
    Fd fd(::openat(folder_.get(), part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
    if (!fd) return output_error(fmt::format("create {}", shown));
    if (Status given = give_away(fd.get(), shown); !given && !warned_owner_) {
      warned_owner_ = true;
      log::warning("{}", given.error().message());
    }
    PendingStream stream(std::move(fd), shown, 0);
    Status done = stream.push(message.bytes);
    if (done) done = stream.finish();
    if (done && ::renameat(folder_.get(), part.c_str(), folder_.get(), message.name.c_str()) != 0) {
      done = output_error(fmt::format("rename {}", shown));
    }
    if (!done) {
      ::unlinkat(folder_.get(), part.c_str(), 0);
      return done;
    }
    if (::fsync(folder_.get()) != 0 && errno != EINVAL) return output_error(fmt::format("fsync {}", options_.path));
    return ok();
  }

  // Removes our oldest files until `bytes` more fit under --max-disk.
  Status make_room(std::uint64_t bytes) {
    if (options_.max_disk_bytes == 0) return ok();
    Result<std::vector<Found>> found = list_ours(folder_.get(), options_.path);
    if (!found) return found.error();
    std::uint64_t held = 0;
    for (const Found& file : *found) held += file.bytes;
    for (const Found& file : *found) {
      if (held + bytes <= options_.max_disk_bytes) break;
      if (::unlinkat(folder_.get(), file.name.c_str(), 0) != 0 && errno != ENOENT) {
        return output_error(fmt::format("remove {} for --max-disk", file.name));
      }
      log::debug("removed {} for --max-disk", file.name);
      held -= file.bytes;
    }
    return ok();
  }

  Fd folder_;
  OutputOptions options_;
  WindowCarrier carrier_;
  Encoder encoder_;
  std::deque<Message> pending_;
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t lost_files_ = 0;
  bool warned_owner_ = false;
  std::uint64_t too_large_ = 0;  // flushes that --max-disk can never hold
  OutputSummary summary_;
};

}  // namespace

Result<std::unique_ptr<Output>> open_folder_output(const OutputOptions& options) {
  // Root's folder must let in who typed sudo, or the files in it are theirs in vain.
  const mode_t mode = sudo_owner() ? 0755 : 0750;
  if (::mkdir(options.path.c_str(), mode) != 0 && errno != EEXIST) {
    return output_error(fmt::format("make the folder {}", options.path));
  }
  Fd folder(::open(options.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return output_error(fmt::format("open the folder {}", options.path));
  if (::faccessat(folder.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return output_error(fmt::format("write to the folder {}", options.path));
  }
  return std::unique_ptr<Output>(std::make_unique<FolderOutput>(std::move(folder), options));
}

}  // namespace spanfold::profile
