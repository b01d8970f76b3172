// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value, or an Error that says what was tried, on what, why it failed and what the user can do.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace spanfold {

// How a failure ends the program: the values are exit codes.
enum class Failure : std::uint8_t {
  kFailed = 1,  // tried and did not work
  kUsage = 2,   // the command line makes no sense
  kHost = 3,    // this host cannot record
};

struct Error {
  std::string what;                    // "open /proc/1/maps"
  int code = 0;                        // errno, 0 where there is none
  std::string hint;                    // "run as root"; empty where the user cannot act
  Failure failure = Failure::kFailed;  // decides the exit code

  // One line: "what: reason (hint)".
  [[nodiscard]] std::string message() const;
};

// An Error from the current errno.
[[nodiscard]] Error errno_error(std::string what, std::string hint = {});

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor): `return value;`
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor): `return error;`

  explicit operator bool() const { return std::holds_alternative<T>(state_); }
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  [[nodiscard]] const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

// The outcome of something that gives no value: `return ok();`
using Status = Result<std::monostate>;
inline Status ok() { return std::monostate{}; }

}  // namespace spanfold
