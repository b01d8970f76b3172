// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "base/fd.h"
#include "profile/output.h"
#include "report/decode.h"
#include "unit/profile/windows.h"
#include "unit/temporary_folder.h"

namespace spanfold::profile {
namespace {

namespace fs = std::filesystem;

class Folder : public spanfold::test::TemporaryFolder {
 public:
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { keep(); }
  [[nodiscard]] std::vector<std::string> names(const std::string& below = "") const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path() / below)) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  // What was recorded goes to the validator of the OTLP rules (tests/otlp/test_unit_files.py), where it asks for it.
  // Stand-ins of the tests are text, and no message begins like one.
  void keep() const {
    const char* into = std::getenv("SPANFOLD_KEEP_FILES");
    if (into == nullptr) return;
    fs::create_directories(into);
    for (const auto& entry : fs::recursive_directory_iterator(path())) {
      constexpr char kFirstField = 0x0a;
      constexpr char kSecondField = 0x12;
      if (!entry.is_regular_file() || entry.is_symlink() || entry.file_size() == 0) continue;
      const int first = std::ifstream(entry.path(), std::ios::binary).get();
      if (first != kFirstField && first != kSecondField) continue;
      const std::string name = path().filename().string() + "-" + entry.path().filename().string();
      fs::copy_file(entry.path(), fs::path(into) / name, fs::copy_options::overwrite_existing);
    }
  }
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

// A window with one sample in a span, and as many bytes of names as asked for.
Window full_window(test::World& world, std::uint64_t number, std::size_t name_bytes = 10) {
  Window window = test::window(number, 1, 0);
  const std::string name = std::to_string(number) + std::string(name_bytes, 'n');
  window.processes.push_back(
      {.resource = test::process(1, "shop"),
       .on_cpu = {{.frames = world.stack({world.frame(name)}), .span = test::span_of(1), .value = 1}}});
  return window;
}

std::unique_ptr<Output> open(const std::string& path, std::uint64_t max_disk = 0, std::uint64_t max_pending = 1 << 20) {
  auto output =
      open_output({.path = path, .max_disk_bytes = max_disk, .version = "1", .max_pending_bytes = max_pending});
  REQUIRE_MESSAGE(output, (output ? "" : output.error().message()));
  return *std::move(output);
}

std::uint64_t samples_in(const std::string& path) {
  report::Recording recording;
  REQUIRE(report::decode(read(path), path, path.ends_with(".part"), recording));
  std::uint64_t samples = 0;
  for (const report::Entry& entry : recording.entries) samples += entry.cost.count;
  return samples;
}

}  // namespace

TEST_CASE("a file appears whole, and the one before is kept") {
  const Folder folder;
  test::World world;
  const std::string path = folder / "run.otlp";
  put(path, "before");
  auto output = open(path);
  CHECK(folder.names() == std::vector<std::string>{"run.otlp", "run.otlp.part"});
  for (std::uint64_t number = 0; number < 3; ++number) CHECK(output->write(full_window(world, number)));
  CHECK(output->write(test::window(3, 0, 0)));
  CHECK(read(path) == "before");
  CHECK(samples_in(path + ".part") == 3);
  const auto summary = output->close();
  REQUIRE(summary);
  CHECK(summary->files == 1);
  CHECK(summary->bytes == fs::file_size(path));
  CHECK(samples_in(path) == 3);
  CHECK(read(path + ".old") == "before");
  CHECK(folder.names() == std::vector<std::string>{"run.otlp", "run.otlp.old"});
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777 & ~0640) == 0);
}

TEST_CASE("any windows, with times of spans, as a file and as a folder") {
  std::mt19937 random(29);
  for (int round = 0; round < 8; ++round) {
    const Folder folder;
    test::World world;
    const std::string path = folder / (round % 2 == 0 ? "run.otlp" : "run/");
    auto output = open(path);
    std::uint64_t samples = 0;
    for (std::uint64_t number = 0; number < 5; ++number) {
      Window window = test::random_window(world, random, number);
      samples += window.accounting.in_span + window.accounting.background;
      REQUIRE(output->write(std::move(window)));
    }
    REQUIRE(output->close());
    std::uint64_t written = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (entry.is_regular_file()) written += samples_in(entry.path().string());
    }
    CHECK(written == samples);
  }
}

TEST_CASE("no window, no file") {
  const Folder folder;
  put(folder / "run.otlp", "before");
  auto output = open(folder / "run.otlp");
  const auto summary = output->close();
  REQUIRE(summary);
  CHECK(summary->files == 0);
  CHECK(folder.names() == std::vector<std::string>{"run.otlp"});
}

TEST_CASE("a run without samples is written with its accounting") {
  const Folder folder;
  auto output = open(folder / "run.otlp");
  CHECK(output->write(test::window(0, 0, 0)));
  REQUIRE(output->close());
  report::Recording recording;
  REQUIRE(report::decode(read(folder / "run.otlp"), "run", false, recording));
  CHECK(recording.accounting->ticks == 7);
}

TEST_CASE("what a killed run left is kept, and a living one is left alone") {
  const Folder folder;
  test::World world;
  const std::string path = folder / "run.otlp";
  put(path + ".part", "leftover");
  auto output = open(path);
  CHECK(read(path + ".old.part") == "leftover");
  const auto second = open_output({.path = path});
  REQUIRE_FALSE(second);
  CHECK(second.error().what.find("another recorder") != std::string::npos);
  CHECK(output->write(full_window(world, 0)));
  CHECK(output->close());
}

TEST_CASE("a link in place of the temporary is not followed") {
  const Folder folder;
  put(folder / "victim", "precious");
  fs::create_symlink(folder / "victim", folder / "run.otlp.part");
  const auto output = open_output({.path = folder / "run.otlp"});
  REQUIRE_FALSE(output);
  CHECK(output.error().what.find("in the way") != std::string::npos);
  CHECK(read(folder / "victim") == "precious");
}

TEST_CASE("a link of one's own leads to the file") {
  const Folder folder;
  test::World world;
  put(folder / "real.otlp", "before");
  fs::create_symlink(folder / "real.otlp", folder / "link.otlp");
  auto output = open(folder / "link.otlp");
  CHECK(output->write(full_window(world, 0)));
  CHECK(output->close());
  CHECK(samples_in(folder / "real.otlp") == 1);
  CHECK(fs::is_symlink(folder / "link.otlp"));
}

TEST_CASE("devices are written to as they are") {
  test::World world;
  auto null = open("/dev/null");
  CHECK(null->write(full_window(world, 0)));
  CHECK(null->close());
  auto full = open("/dev/full");
  const Status written = full->write(full_window(world, 0));
  REQUIRE_FALSE(written);
  CHECK(written.error().code == ENOSPC);
  const auto closed = full->close();
  REQUIRE_FALSE(closed);
  CHECK(closed.error().message().find("/dev/full") != std::string::npos);
  CHECK(fs::is_character_file("/dev/full"));
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_FALSE(fs::exists("/dev/full.part"));
}

TEST_CASE("a link to nothing says so") {
  const Folder folder;
  fs::create_symlink(folder / "nothing.otlp", folder / "link.otlp");
  const auto output = open_output({.path = folder / "link.otlp"});
  REQUIRE_FALSE(output);
  CHECK(output.error().what.find("symbolic link to something that is not there") != std::string::npos);
  CHECK(output.error().hint.find("remove the link") != std::string::npos);
}

TEST_CASE("a reader that stalls blocks nothing, and gets all once it reads") {
  const Folder folder;
  test::World world;
  const std::string path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto output = open(path);
  for (std::uint64_t number = 0; number < 30; ++number) REQUIRE(output->write(full_window(world, number, 9000)));
  REQUIRE(::fcntl(reader.get(), F_SETFL, 0) == 0);
  auto taken = std::async(std::launch::async, [&] {
    std::string all, some(5000, '\0');
    for (ssize_t got = 0; (got = ::read(reader.get(), some.data(), some.size())) > 0;)
      all.append(some, 0, static_cast<std::size_t>(got));
    return all;
  });
  const auto summary = output->close();
  output.reset();
  put(folder / "all.otlp", taken.get());
  REQUIRE(summary);
  CHECK(summary->bytes > 100'000);
  CHECK(summary->bytes == fs::file_size(folder / "all.otlp"));
  CHECK(samples_in(folder / "all.otlp") == 30);
}

TEST_CASE("a reader that never reads is given up") {
  const Folder folder;
  test::World world;
  const std::string path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto output = open_output({.path = path, .patience_ms = 50});
  REQUIRE(output);
  for (std::uint64_t number = 0; number < 10; ++number) CHECK((*output)->write(full_window(world, number, 9000)));
  const auto closed = (*output)->close();
  REQUIRE_FALSE(closed);
  CHECK(closed.error().what.find("took nothing for 50 ms") != std::string::npos);

  auto bounded = open(path, 0, 20'000);
  Status written = ok();
  for (std::uint64_t number = 0; written && number < 20; ++number)
    written = bounded->write(full_window(world, number, 9000));
  REQUIRE_FALSE(written);
  CHECK(written.error().code == EPIPE);
  CHECK(written.error().hint.find("read faster") != std::string::npos);
}

TEST_CASE("a reader that is gone ends the stream, with samples and without") {
  const Folder folder;
  test::World world;
  const std::string path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  for (const bool samples : {true, false}) {
    Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    auto output = open(path);
    reader.reset();
    const Status written = output->write(samples ? full_window(world, 0) : test::window(0, 0, 0));
    REQUIRE_FALSE(written);
    CHECK(written.error().code == EPIPE);
    CHECK(written.error().what.find("pipe") != std::string::npos);
  }
}

TEST_CASE("paths that cannot be written say so at once") {
  const Folder folder;
  for (const std::string& path : {folder / "no/such/run.otlp", folder / "no/such/", std::string("/proc/run.otlp")}) {
    const auto output = open_output({.path = path});
    REQUIRE_FALSE(output);
    CHECK(output.error().failure == Failure::kFailed);
  }
  CHECK(open_output({.path = ""}).error().failure == Failure::kUsage);
}

TEST_CASE("a folder gets a file for each message, names sort by time") {
  const Folder folder;
  test::World world;
  auto output = open(folder / "out/");
  for (std::uint64_t number = 0; number < 3; ++number) {
    CHECK(output->write(full_window(world, number)));
    CHECK(folder.names("out").size() == number + 1);
  }
  CHECK(output->write(test::window(3, 0, 0)));
  CHECK(folder.names("out").size() == 3);
  const auto summary = output->close();
  REQUIRE(summary);
  CHECK(summary->files == 4);
  const auto names = folder.names("out");
  REQUIRE(names.size() == 4);
  CHECK(names[0].starts_with("spanfold-20231114T221320.000000000Z-"));
  for (const std::string& name : names) CHECK(name.ends_with(".otlp"));
  CHECK(samples_in(folder / ("out/" + names[0])) == 1);
  CHECK(samples_in(folder / ("out/" + names[3])) == 0);
}

TEST_CASE("--max-disk removes our oldest files and no others") {
  const Folder folder;
  test::World world;
  fs::create_directory(folder / "out");
  put(folder / "out/a-notes.otlp", std::string(100'000, 'x'));
  put(folder / "out/spanfold-mine.otlp", std::string(100'000, 'x'));
  auto output = open(folder / "out", 4000);
  for (std::uint64_t number = 0; number < 12; ++number) CHECK(output->write(full_window(world, number, 500)));
  const auto summary = output->close();
  REQUIRE(summary);
  CHECK(summary->files == 12);
  std::uint64_t bytes = 0, ours = 0;
  for (const std::string& name : folder.names("out")) {
    if (name.starts_with("spanfold-2023")) {
      bytes += fs::file_size(folder / ("out/" + name));
      ++ours;
      CHECK(name > "spanfold-20231114T221328");
    }
  }
  CHECK(ours >= 2);
  CHECK(bytes <= 4000);
  CHECK(fs::exists(folder / "out/a-notes.otlp"));
  CHECK(fs::exists(folder / "out/spanfold-mine.otlp"));

  auto tiny = open(folder / "out", 10);
  CHECK(tiny->write(full_window(world, 20)));
  const auto closed = tiny->close();
  REQUIRE_FALSE(closed);
  CHECK(closed.error().hint.find("--max-disk") != std::string::npos);
}

TEST_CASE("a flush that --max-disk can never hold keeps no other back") {
  const Folder folder;
  test::World world;
  auto output = open(folder / "out/", 3000);
  CHECK(output->write(full_window(world, 0, 9000)));
  CHECK(output->write(full_window(world, 1)));
  CHECK(output->write(full_window(world, 2, 9000)));
  CHECK(output->write(full_window(world, 3)));
  const auto summary = output->close();
  REQUIRE(summary);
  CHECK(summary->files == 2);
  CHECK(folder.names("out").size() == 2);
}

TEST_CASE("a folder in the way of the previous file shows at once") {
  const Folder folder;
  fs::create_directory(folder / "run.otlp.old");
  const auto output = open_output({.path = folder / "run.otlp"});
  REQUIRE_FALSE(output);
  CHECK(output.error().what.find("run.otlp.old is a folder") != std::string::npos);
  CHECK(folder.names() == std::vector<std::string>{"run.otlp.old"});
}

TEST_CASE("when the last step fails, the recording is kept and the error says where") {
  const Folder folder;
  test::World world;
  const std::string path = folder / "run.otlp";
  put(path, "before");
  auto output = open(path);
  CHECK(output->write(full_window(world, 0)));
  fs::create_directory(path + ".old");
  const auto closed = output->close();
  REQUIRE_FALSE(closed);
  CHECK(closed.error().hint.find("run.otlp.part") != std::string::npos);
  CHECK(read(path) == "before");
  CHECK(samples_in(path + ".part") == 1);
}

TEST_CASE("a temporary that is no longer ours is not put in place") {
  const Folder folder;
  test::World world;
  const std::string path = folder / "run.otlp";
  auto output = open(path);
  CHECK(output->write(full_window(world, 0)));
  fs::rename(path + ".part", path + ".away");
  put(path + ".part", "somebody else's");
  const auto closed = output->close();
  REQUIRE_FALSE(closed);
  CHECK(closed.error().what.find("moved or replaced") != std::string::npos);
  CHECK(read(path + ".part") == "somebody else's");
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("recorders that start at once never take each other's file") {
  const Folder folder;
  const std::string path = folder / "run.otlp";
  constexpr int kRounds = 200;
  std::atomic<int> alive = 0;
  const auto start = [&] {
    for (int round = 0; round < kRounds; ++round) {
      test::World world;
      auto output = open_output({.path = path});
      if (!output) continue;
      if (alive.fetch_add(1) != 0) return false;
      const bool good = static_cast<bool>((*output)->write(full_window(world, 0)));
      alive.fetch_sub(1);
      if (!good || !(*output)->close()) return false;
    }
    return true;
  };
  auto first = std::async(std::launch::async, start);
  auto second = std::async(std::launch::async, start);
  CHECK(first.get());
  CHECK(second.get());
  CHECK(samples_in(path) == 1);
  CHECK_FALSE(fs::exists(path + ".old.part"));
}

TEST_CASE("a full disk: kept for later, then lost with an error, the file before stays") {
  const Folder folder;
  fs::create_directory(folder / "disk");
  if (::mount("tmpfs", (folder / "disk").c_str(), "tmpfs", 0, "size=64k") != 0) {
    MESSAGE("SKIPPED: mounting a tmpfs needs root");
    return;
  }
  {
    test::World world;
    const std::string path = folder / "disk/run.otlp";
    put(path, std::string(20'000, 'b'));
    put(folder / "disk/filler", std::string(28'000, 'f'));
    auto output = open(path);
    bool failed = false;
    for (std::uint64_t number = 0; number < 10; ++number) failed |= !output->write(full_window(world, number, 3900));
    CHECK(failed);
    fs::remove(folder / "disk/filler");
    CHECK(output->write(full_window(world, 10)));
    REQUIRE(output->close());
    CHECK(samples_in(path) == 11);

    fs::remove(path + ".old");
    const std::string before = read(path);
    output = open(path, 0, 1000);
    for (std::uint64_t number = 0; number < 30; ++number) (void)!output->write(full_window(world, number, 3900));
    const auto closed = output->close();
    REQUIRE_FALSE(closed);
    CHECK(read(path) == before);
    CHECK(closed.error().hint.find("run.otlp.part") != std::string::npos);
    CHECK(samples_in(path + ".part") >= 1);
    fs::remove(path + ".part");
    output.reset();

    for (int page = 0; page < 16; ++page) put(folder / ("disk/filler" + std::to_string(page)), std::string(4096, 'f'));
    output = open(path);
    CHECK_FALSE(output->write(full_window(world, 0, 3900)));
    CHECK_FALSE(output->close());
    CHECK_FALSE(fs::exists(path + ".part"));
    for (int page = 0; page < 16; ++page) fs::remove(folder / ("disk/filler" + std::to_string(page)));

    fs::create_directory(folder / "disk/out");
    output = open(folder / "disk/out/", 0, 20'000);
    for (std::uint64_t number = 0; number < 30; ++number) (void)!output->write(full_window(world, number, 3900));
    CHECK_FALSE(output->close());
    for (const std::string& name : folder.names("disk/out")) CHECK(name.ends_with(".otlp"));
  }
  ::umount((folder / "disk").c_str());
}

}  // namespace spanfold::profile
