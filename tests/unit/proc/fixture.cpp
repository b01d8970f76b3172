// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/fd.h"
#include "proc/identity.h"
#include "proc/procfs.h"

namespace spanfold::proc::test {

void write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  REQUIRE(file.flush().good());
}

std::string output_of(const std::string& command) {
  INFO(command);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), [](FILE*) { return 0; });
  REQUIRE(pipe != nullptr);
  std::string output;
  char buffer[65536];
  while (const std::size_t got = ::fread(buffer, 1, sizeof buffer, pipe.get())) output.append(buffer, got);
  REQUIRE(::pclose(pipe.get()) == 0);
  return output;
}

std::vector<std::string> lines_of(const std::string& command) {
  std::vector<std::string> lines;
  std::istringstream stream(output_of(command));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string library_of(const std::string& name) {
  const std::string self = std::filesystem::canonical("/proc/self/exe");
  const auto lines = lines_of("ldd " + self + " | awk '/" + name + "/ { print $3 }' | head -1");
  return lines.empty() ? std::string() : std::filesystem::canonical(lines[0]).string();
}

bool have_program(const char* name) {
  const bool have = ::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0;
  if (!have) MESSAGE("SKIPPED: ", std::string(name), " is not installed");
  return have;
}

Seen look_at(pid_t pid) {
  const Fd folder = open_process_folder(static_cast<std::uint32_t>(pid));
  const auto stat = read_stat(folder.get());
  REQUIRE(stat.has_value());
  constexpr std::uint64_t kTickNs = 10'000'000;
  return {{.start_boottime_ns = stat->start_ticks * kTickNs + kTickNs / 2, .pid = static_cast<std::uint32_t>(pid)},
          stat->image};
}

Child::Child(const std::vector<std::string>& argv, const std::vector<std::string>& environment) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  output_ = ends[0];
  line_ = next_line();
}

std::string Child::next_line() {
  std::string line;
  char byte = 0;
  while (::read(output_, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

void Child::send(int signal) const { ::kill(pid_, signal); }

void Child::end() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

Child::~Child() {
  end();
  ::close(output_);
}

}  // namespace spanfold::proc::test
