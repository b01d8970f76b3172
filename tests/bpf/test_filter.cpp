// SPDX-License-Identifier: Apache-2.0
// Who passes the filter: numbers and groups, each combination of them against the rule in words.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/fd.h"
#include "bpf/targets.h"
#include "tests/bpf/bodies.hpp"
#include "tests/unit/temporary_folder.h"

using bodytest::Bodies;
using bodytest::Sizes;
using spanfold::Fd;
using spanfold::bpf::TargetKind;
using spanfold::bpf::Targets;

namespace {

constexpr std::uint32_t kSlots = 3;

// A mount of cgroup v2 of the test's own, a group in it that this process is in (the root), and one that it is not in.
class Groups {
 public:
  Groups() {
    if (::mount("none", folder_.path().c_str(), "cgroup2", 0, nullptr) != 0) {
      std::printf("SKIPPED: no cgroup2 here: %s\n", std::strerror(errno));
      return;
    }
    mounted_ = true;
    REQUIRE(::mkdir(empty_path().c_str(), 0755) == 0);
    inside_.reset(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    outside_.reset(::open(empty_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE((inside_ && outside_));
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  ~Groups() {
    if (!mounted_) return;
    inside_.reset();
    outside_.reset();
    ::rmdir(empty_path().c_str());
    ::umount(folder_.path().c_str());
  }

  explicit operator bool() const { return mounted_; }
  [[nodiscard]] int inside() const { return inside_.get(); }
  [[nodiscard]] int outside() const { return outside_.get(); }

 private:
  [[nodiscard]] std::string empty_path() const { return folder_ / "spanfold-" + std::to_string(::getpid()); }

  spanfold::test::TemporaryFolder folder_;
  bool mounted_ = false;
  Fd inside_;
  Fd outside_;
};

bool passes(Bodies& bodies) {
  sf_body_input input = {};
  bodies.call(bodies.progs().body_wanted, input);
  return input.result != 0;
}

Targets targets_of(Bodies& bodies) { return {bpf_map__fd(bodies.maps().targets), bpf_map__fd(bodies.maps().cgroups)}; }

void set(const Targets& targets, std::uint32_t id, TargetKind kind, bool is_in) {
  if (is_in)
    REQUIRE(targets.add(id, kind));
  else
    targets.remove(id, kind);
}

}  // namespace

TEST_CASE("who passes is named by number and in a group, as far as either is asked for") {
  const Groups groups;
  if (!groups) return;
  const auto pid = static_cast<std::uint32_t>(::getpid());
  const auto tid = static_cast<std::uint32_t>(::gettid());
  for (std::uint32_t filter = 0; filter < 8; ++filter) {
    Bodies bodies({.filter = filter, .cgroups = kSlots});
    const Targets targets = targets_of(bodies);
    REQUIRE(targets.set_group(0, groups.outside()));  // slot 1 stays empty
    for (unsigned state = 0; state < 16; ++state) {
      const bool process = (state & 1U) != 0;
      const bool thread = (state & 2U) != 0;
      const bool member = (state & 4U) != 0;
      const bool group = (state & 8U) != 0;
      set(targets, pid, TargetKind::kProcess, process);
      set(targets, tid, TargetKind::kThread, thread);
      set(targets, pid, TargetKind::kMember, member);
      REQUIRE(targets.set_group(2, group ? groups.inside() : groups.outside()));
      const bool by_number = (filter & SF_FILTER_TARGETS) == 0 || process || thread;
      const bool any_group = (filter & (SF_FILTER_CGROUPS | SF_FILTER_MEMBERS)) == 0;
      const bool in_group =
          ((filter & SF_FILTER_CGROUPS) != 0 && group) || ((filter & SF_FILTER_MEMBERS) != 0 && member);
      CAPTURE(filter);
      CAPTURE(state);
      CHECK(passes(bodies) == (by_number && (any_group || in_group)));
    }
  }
}

TEST_CASE("targets: each kind for itself, sorted, and full is an error") {
  Bodies bodies({.filter = SF_FILTER_MEMBERS});
  const Targets targets = targets_of(bodies);
  REQUIRE(targets.add(9, TargetKind::kMember));
  REQUIRE(targets.add(3, TargetKind::kMember));
  REQUIRE(targets.add(9, TargetKind::kProcess));
  REQUIRE(targets.add(9, TargetKind::kMember));  // twice is once
  CHECK(targets.all(TargetKind::kMember) == std::vector<std::uint32_t>{3, 9});
  CHECK(targets.all(TargetKind::kProcess) == std::vector<std::uint32_t>{9});
  CHECK(targets.all(TargetKind::kThread).empty());
  targets.remove(9, TargetKind::kMember);
  targets.remove(1, TargetKind::kMember);
  CHECK(targets.all(TargetKind::kMember) == std::vector<std::uint32_t>{3});
  CHECK(targets.all(TargetKind::kProcess) == std::vector<std::uint32_t>{9});
  for (std::uint32_t id = 100; id < 106; ++id) REQUIRE(targets.add(id, TargetKind::kMember));
  const auto full = targets.add(106, TargetKind::kMember);
  REQUIRE(!full);
  CHECK(!full.error().hint.empty());
}
