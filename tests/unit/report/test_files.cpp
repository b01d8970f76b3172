// SPDX-License-Identifier: Apache-2.0
// Folders with files that cannot be read.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "report/files.h"
#include "unit/profile/windows.h"
#include "unit/temporary_folder.h"

namespace spanfold::report {
namespace {

namespace fs = std::filesystem;

class Folder : public spanfold::test::TemporaryFolder {
 public:
  [[nodiscard]] std::string put(const std::string& name, const std::string& content) const {
    std::ofstream(path() / name, std::ios::binary) << content;
    return *this / name;
  }
};

std::string profile_of(std::uint64_t number, std::uint64_t samples) {
  profile::test::World world;
  profile::Window window = profile::test::window(number, samples, 0);
  window.processes.push_back(
      {.resource = profile::test::process(1, "shop"),
       .on_cpu = {{.frames = world.stack({world.frame("f")}), .span = profile::test::span_of(1), .value = samples}},
       .span_times = {profile::test::span_time(1, false, {{window.start_unix_nano, samples}})}});
  return profile::test::encode({window}, profile::EncoderOptions::Mode::kMessages);
}

std::uint64_t samples_in(const Recording& recording) {
  std::uint64_t samples = 0;
  for (const Entry& entry : recording.entries) samples += entry.cost.count;
  return samples;
}

// A dictionary and a resource that are whole, and then one that is not: some is read before the error shows.
std::string torn() {
  std::string bytes = profile_of(9, 100) + profile_of(9, 100);
  bytes.pop_back();
  return bytes;
}

// Whole fields, of which the last one's samples have a stack that is not there.
std::string wrong() { return profile_of(9, 100) + "\x0a\x0b\x12\x09\x12\x07\x12\x05\x08\x7f\x22\x01\x05"; }

}  // namespace

TEST_CASE("a bad file in a folder is left out, and nothing of it counts") {
  const Folder folder;
  (void)folder.put("a.otlp", profile_of(0, 3));
  const std::string bad = folder.put("b.otlp", wrong());
  (void)folder.put("c.otlp", torn());
  (void)folder.put("d.otlp", "");
  (void)folder.put("e.otlp", profile_of(1, 4));
  Recording recording;
  REQUIRE(read_paths({folder.path()}, recording));
  CHECK(samples_in(recording) == 7);
  CHECK(recording.accounting->in_span == 7);
  CHECK(recording.stays.size() == 2);
  CHECK(recording.end_unix_nano() - recording.start_unix_nano() == 2'000'000'000);
  Recording another;
  const Status named = read_paths({bad}, another);
  REQUIRE_FALSE(named);
  CHECK(named.error().what.find("b.otlp") != std::string::npos);
}

TEST_CASE("a folder of bad files only is an error") {
  const Folder folder;
  (void)folder.put("b.otlp", wrong());
  Recording recording;
  const Status read = read_paths({folder.path()}, recording);
  REQUIRE_FALSE(read);
  CHECK(read.error().what.find("nothing in") != std::string::npos);
  CHECK(recording.entries.empty());
  CHECK(recording.stays.empty());
  CHECK_FALSE(recording.accounting);
}

}  // namespace spanfold::report
