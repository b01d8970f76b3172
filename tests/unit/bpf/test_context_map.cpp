// SPDX-License-Identifier: Apache-2.0
// A glimpse of a context map: changes with any entry, not with their order, and reads no more than it may.
#include <bpf/bpf.h>
#include <doctest/doctest.h>
#include <linux/bpf.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "base/fd.h"
#include "bpf/context_map.h"
#include "unit/temporary_folder.h"

using spanfold::Fd;
using spanfold::bpf::ContextGlimpse;
using spanfold::bpf::glimpse_context_map;
using spanfold::test::TemporaryFolder;

namespace {

// A BPF file system of the test's own, where this process may have one.
class BpfFolder {
 public:
  BpfFolder() : mounted_(mount("bpf", folder_.path().c_str(), "bpf", 0, nullptr) == 0) {}
  ~BpfFolder() {
    if (mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }
  BpfFolder(const BpfFolder&) = delete;
  BpfFolder& operator=(const BpfFolder&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string path(const char* name) const { return (folder_.path() / name).string(); }

 private:
  TemporaryFolder folder_;
  bool mounted_;
};

Fd make_map(const std::string& path, bpf_map_type type, std::uint32_t value_bytes, std::uint32_t entries) {
  Fd map(bpf_map_create(type, "traces_ctx_v1", 8, value_bytes, entries, nullptr));
  REQUIRE(map);
  REQUIRE(bpf_obj_pin(map.get(), path.c_str()) == 0);
  return map;
}

void set(const Fd& map, std::uint64_t key, std::uint8_t first, std::uint8_t last, std::uint8_t beyond = 0) {
  std::array<std::uint8_t, 32> value{};
  value[0] = first;
  value[23] = last;
  value[24] = beyond;
  REQUIRE(bpf_map_update_elem(map.get(), &key, value.data(), BPF_ANY) == 0);
}

}  // namespace

TEST_CASE("a glimpse of a context map changes with its entries") {
  const BpfFolder bpffs;
  if (!bpffs.mounted()) return;  // the end-to-end tests skip as well
  const std::string path = bpffs.path("map");
  CHECK(!glimpse_context_map(path));
  const Fd map = make_map(path, BPF_MAP_TYPE_LRU_HASH, 32, 16384);
  CHECK(glimpse_context_map(path) == ContextGlimpse{});
  for (std::uint64_t key = 1; key <= 3000; ++key) set(map, key, 1, 2);
  const auto before = glimpse_context_map(path);
  REQUIRE(before);
  CHECK(before->entries == 3000);
  CHECK(glimpse_context_map(path) == before);
  set(map, 7, 1, 2, 9);  // what was appended to the value is nobody's business
  CHECK(glimpse_context_map(path) == before);
  set(map, 7, 1, 3);
  const auto changed = glimpse_context_map(path);
  CHECK(changed->entries == 3000);
  CHECK(changed != before);
  set(map, 7, 1, 2);
  const std::uint64_t key = 8;
  REQUIRE(bpf_map_delete_elem(map.get(), &key) == 0);
  CHECK(glimpse_context_map(path)->entries == 2999);
  set(map, 8, 1, 2);  // in another place of its bucket, perhaps
  CHECK(glimpse_context_map(path) == before);
  CHECK(glimpse_context_map(path, 2000)->entries < 3000);
}

TEST_CASE("a glimpse takes a plain hash, and nothing of another shape") {
  const BpfFolder bpffs;
  if (!bpffs.mounted()) return;
  const Fd plain = make_map(bpffs.path("plain"), BPF_MAP_TYPE_HASH, 24, 10);
  set(plain, 1, 1, 1);
  CHECK(glimpse_context_map(bpffs.path("plain"))->entries == 1);
  const Fd narrow = make_map(bpffs.path("narrow"), BPF_MAP_TYPE_HASH, 16, 10);
  CHECK(!glimpse_context_map(bpffs.path("narrow")));
}
