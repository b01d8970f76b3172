// SPDX-License-Identifier: Apache-2.0
// Results, owners of descriptors, and the log.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/result.h"

using spanfold::Error;
using spanfold::Fd;
using spanfold::Result;
namespace logging = spanfold::log;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// What `action` writes to standard error.
template <typename Action>
std::string captured(Action action) {
  Fd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  REQUIRE(file);
  const Fd saved(::dup(STDERR_FILENO));
  ::dup2(file.get(), STDERR_FILENO);
  action();
  ::dup2(saved.get(), STDERR_FILENO);
  const auto text = spanfold::read_file("/proc/self/fd/" + std::to_string(file.get()), 100'000);
  REQUIRE(text);
  return *text;
}

}  // namespace

TEST_CASE("an error reads as one line") {
  CHECK(Error{.what = "open x"}.message() == "open x");
  CHECK(Error{.what = "open x", .code = ENOENT}.message() == "open x: No such file or directory");
  CHECK(Error{.what = "open x", .code = EACCES, .hint = "run as root"}.message() ==
        "open x: Permission denied (run as root)");
  CHECK(Error{.what = "bad", .hint = "write 10s"}.message() == "bad (write 10s)");
}

TEST_CASE("an error takes errno as it is") {
  errno = EBUSY;
  const Error error = spanfold::errno_error("attach", "try again");
  CHECK(error.code == EBUSY);
  CHECK(error.failure == spanfold::Failure::kFailed);
  CHECK(error.message() == "attach: Device or resource busy (try again)");
}

TEST_CASE("a result holds a value, also one that can only be moved, or an error") {
  Result<std::unique_ptr<int>> good(std::make_unique<int>(7));
  REQUIRE(good);
  CHECK(**good == 7);
  const std::unique_ptr<int> taken = *std::move(good);
  CHECK(*taken == 7);

  const Result<std::string> bad(Error{.what = "no"});
  CHECK_FALSE(bad);
  CHECK(bad.error().what == "no");
  CHECK(spanfold::ok());
}

TEST_CASE("a descriptor is closed once, by its last owner") {
  const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(number >= 0);
  {
    Fd first(number);
    Fd second(std::move(first));
    CHECK(second.get() == number);
    Fd third;
    CHECK_FALSE(third);
    third = std::move(second);
    CHECK(is_open(number));
    CHECK(third);
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("a descriptor that was released stays open, one that is replaced does not") {
  const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    Fd owner(number);
    CHECK(owner.release() == number);
    CHECK_FALSE(owner);
  }
  REQUIRE(is_open(number));
  Fd owner(number);
  owner.reset();
  CHECK_FALSE(is_open(number));
}

TEST_CASE("each level has its word, and what is not wanted is not shown") {
  const auto all = [] {
    logging::error("a {}", 1);
    logging::warning("b");
    logging::info("c");
    logging::debug("d");
  };
  CHECK(captured(all) == "spanfold: error: a 1\nspanfold: warning: b\nspanfold: c\n");
  logging::set_level(logging::Level::kDebug);
  CHECK(captured(all) == "spanfold: error: a 1\nspanfold: warning: b\nspanfold: c\nspanfold: debug: d\n");
  logging::set_level(logging::Level::kWarning);
  CHECK(captured(all) == "spanfold: error: a 1\nspanfold: warning: b\n");
  logging::set_level(logging::Level::kInfo);
}

TEST_CASE("control bytes in the log cannot drive a terminal") {
  CHECK(captured([] { logging::info("a\nb\x1b[31m\x7f\xc3\xa9"); }) == "spanfold: a\\x0ab\\x1b[31m\\x7f\xc3\xa9\n");
}
