// SPDX-License-Identifier: Apache-2.0
// What the proc tests share: a folder that goes away, compilers that may be missing, and child processes.
#pragma once

#include <doctest/doctest.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "unit/temporary_folder.h"

namespace spanfold::proc::test {

using spanfold::test::TemporaryFolder;

void write_text(const std::string& path, std::string_view text);

// Standard output of a shell command; the test fails where the command does.
std::string output_of(const std::string& command);
std::vector<std::string> lines_of(const std::string& command);

// False, after a loud message, where a program that the test needs is not installed.
bool have_program(const char* name);

// The path of a library that this program is linked to, by a part of its name; empty where there is none.
std::string library_of(const std::string& name);

// What the kernel side would say of a running process.
struct Seen {
  ProcessKey key;
  ImageTag image;
};
Seen look_at(pid_t pid);

// A child that runs until the object ends.
class Child {
 public:
  // Starts argv[0] with its standard output to a pipe, and waits for a first line, which `line()` returns.
  explicit Child(const std::vector<std::string>& argv, const std::vector<std::string>& environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& line() const { return line_; }
  // Reads one more line.
  std::string next_line();
  // Sends a signal, waits for its end and reaps it.
  void end();
  void send(int signal) const;

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string line_;
};

}  // namespace spanfold::proc::test
