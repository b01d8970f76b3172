// SPDX-License-Identifier: Apache-2.0
// Whole files in and out, and every way in which that fails.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/file.h"
#include "unit/temporary_folder.h"

using spanfold::Fd;
using spanfold::read_file;
using spanfold::write_all;
using spanfold::test::TemporaryFolder;

namespace {

void create(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  Fd read;
  Fd write;
};

}  // namespace

TEST_CASE("a file is read whole, up to the limit and not beyond") {
  const TemporaryFolder folder;
  for (const std::size_t size : {0UL, 1UL, 65'535UL, 65'536UL, 65'537UL, 200'000UL}) {
    CAPTURE(size);
    const std::string path = folder / "data";
    const std::string text(size, 'x');
    create(path, text);
    const auto all = read_file(path, size);
    REQUIRE(all);
    CHECK(*all == text);
    if (size == 0) continue;
    const auto cut = read_file(path, size - 1);
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code == EFBIG);
    CHECK(cut.error().message().find(path) != std::string::npos);
  }
}

TEST_CASE("a file of /proc, whose size is unknown, is read whole") {
  const auto maps = read_file("/proc/self/maps", 10'000'000);
  REQUIRE(maps);
  CHECK(maps->find("[stack]") != std::string::npos);
}

TEST_CASE("a device without an end is stopped by the limit") {
  const auto zeros = read_file("/dev/zero", 100'000);
  REQUIRE_FALSE(zeros);
  CHECK(zeros.error().code == EFBIG);
}

TEST_CASE("failures to read say what was tried, on what and why") {
  const TemporaryFolder folder;
  const auto missing = read_file(folder / "missing", 10);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ENOENT);
  CHECK(missing.error().message() == "open " + (folder / "missing") + ": No such file or directory");

  const auto directory = read_file(folder / "", 10);
  REQUIRE_FALSE(directory);
  CHECK(directory.error().code == EISDIR);
}

TEST_CASE("a FIFO without a writer does not block") {
  const TemporaryFolder folder;
  const std::string path = folder / "fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto empty = read_file(path, 10);
  REQUIRE(empty);
  CHECK(empty->empty());
}

TEST_CASE("a file that may not be read hints at root") {
  const TemporaryFolder folder;
  const std::string path = folder / "secret";
  create(path, "x");
  REQUIRE(::chmod(path.c_str(), 0) == 0);
  const auto secret = read_file(path, 10);
  if (secret) return;  // root reads it all the same
  CHECK(secret.error().code == EACCES);
  CHECK(secret.error().hint == "run as root");
}

TEST_CASE("descriptors are not inherited by exec") {
  const auto fd = spanfold::open_read("/dev/null");
  REQUIRE(fd);
  CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a buffer larger than the pipe is written whole") {
  Pipe pipe;
  std::string received;
  std::thread reader([&] {
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::read(pipe.read.get(), buffer.data(), buffer.size())) > 0) {
      received.append(buffer.data(), static_cast<std::size_t>(got));
    }
  });
  const std::string sent(1'000'000, 'y');
  const auto written = write_all(pipe.write.get(), sent, "the pipe");
  pipe.write.reset();
  reader.join();
  CHECK(written);
  CHECK(received == sent);
}

TEST_CASE("a full disk and a closed pipe are errors") {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  const auto refused = write_all(full.get(), "x", "/dev/full");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ENOSPC);
  CHECK(refused.error().message() == "write /dev/full: No space left on device");
  CHECK(write_all(full.get(), "", "/dev/full"));

  Pipe pipe;
  pipe.read.reset();
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const auto broken = write_all(pipe.write.get(), "x", "standard output");
  std::signal(SIGPIPE, before);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().code == EPIPE);
}
