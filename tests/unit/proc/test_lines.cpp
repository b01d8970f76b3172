// SPDX-License-Identifier: Apache-2.0
// Lines of source and inlined functions: equal to what another reader of DWARF says, and out of a process that can do
// nothing else.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "fixture.h"
#include "proc/line_reader.h"
#include "proc/line_sandbox.h"
#include "proc/line_worker.h"
#include "proc/symbolizer.h"

namespace spanfold::proc {
namespace {

using test::have_program;

constexpr const char* kProgram = R"(
#include <algorithm>
#include <numeric>
#include <vector>
static inline int leaf(int x) { return x * 7 + 3; }
__attribute__((noinline)) int middle(std::vector<int>& v) {
  std::sort(v.begin(), v.end(), [](int a, int b) { return leaf(a) < leaf(b); });
  return std::accumulate(v.begin(), v.end(), 0);
}
int main(int count, char**) {
  std::vector<int> v(static_cast<unsigned>(count));
  return middle(v);
}
)";

using Answer = std::vector<RawLines>;

// "/folder/file:12 " each, innermost first.
std::string places_of(const RawLines& lines) {
  std::string places;
  for (const RawLine& line : lines) places += line.file + ":" + std::to_string(line.line) + " ";
  return places;
}

std::map<std::uint64_t, std::string> truth_of(const std::string& file, const std::vector<std::uint64_t>& addresses,
                                              const std::string& folder) {
  std::ofstream list(folder + "/addresses");
  for (const std::uint64_t address : addresses) list << "0x" << std::hex << address << '\n';
  list.close();
  std::map<std::uint64_t, std::string> truth;
  std::string* places = nullptr;
  bool is_place = false;
  const std::string command = fmt::format(
      "llvm-symbolizer --obj={} -a -i -f=linkage --no-demangle --output-style=GNU < {}/addresses", file, folder);
  for (const std::string& line : test::lines_of(command)) {
    if (line.starts_with("0x")) {
      places = &truth[std::stoull(line, nullptr, 16)];
      is_place = false;
      continue;
    }
    // What has no line there is named by symbols, which are no business of ours.
    if (is_place && places != nullptr && !line.ends_with(":0") && !line.ends_with(":?"))
      *places += line.substr(0, line.find(" (discriminator")) + " ";
    is_place = !is_place;
  }
  return truth;
}

std::pair<std::uint64_t, std::uint64_t> text_of(const std::string& file) {
  for (const std::string& line : test::lines_of("readelf -SW " + file + " | sed 's/\\[ */[/'")) {
    std::istringstream words(line);
    std::string number, name, type, address, offset, size;
    words >> number >> name >> type >> address >> offset >> size;
    if (name == ".text") return {std::stoull(address, nullptr, 16), std::stoull(size, nullptr, 16)};
  }
  return {};
}

std::string built(const test::TemporaryFolder& folder, const std::string& flags) {
  test::write_text(folder / "a.cpp", kProgram);
  test::output_of("g++ " + flags + " -o " + (folder / "a") + " " + (folder / "a.cpp"));
  return folder / "a";
}

// Waits for an answer, however long the machine takes.
LineWorker::State answer_of(LineWorker& worker, int fd, std::span<const std::uint64_t> addresses, Answer& answer) {
  REQUIRE(worker.ask(fd, addresses));
  LineWorker::State state = LineWorker::State::kWaiting;
  while (state == LineWorker::State::kWaiting) state = worker.wait(100, answer);
  if (state != LineWorker::State::kAskAgain) return state;
  REQUIRE(worker.ask(fd, addresses));
  for (state = LineWorker::State::kWaiting; state == LineWorker::State::kWaiting;) state = worker.wait(100, answer);
  return state;
}

std::vector<pid_t> workers_of(pid_t parent) {
  std::vector<pid_t> pids;
  for (const std::string& pid : test::lines_of("pgrep -P " + std::to_string(parent) + " -u nobody || true")) {
    pids.push_back(std::stoi(pid));
  }
  return pids;
}

bool runs(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  return stat && stat->find(") Z ") == std::string::npos;
}

Fd opened(const std::string& path) { return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

}  // namespace

TEST_CASE("lines equal those of another reader of DWARF") {
  if (!have_program("g++") || !have_program("llvm-symbolizer") || !have_program("readelf")) return;
  const test::TemporaryFolder folder;
  std::string flags;
  SUBCASE("DWARF 5") { flags = "-O2 -g -gdwarf-5"; }
  SUBCASE("DWARF 4") { flags = "-O2 -g -gdwarf-4"; }
  SUBCASE("not optimised") { flags = "-O0 -g"; }
  SUBCASE("packed sections, at fixed addresses") { flags = "-O3 -g -gz=zlib -no-pie"; }
  const std::string file = built(folder, flags);
  const auto [begin, bytes] = text_of(file);
  REQUIRE(bytes > 0);
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t at = 0; at < bytes; ++at) addresses.push_back(begin + at);
  const auto truth = truth_of(file, addresses, folder.path());
  const auto reader = LineReader::open(opened(file));
  REQUIRE(reader);
  std::size_t with_lines = 0;
  std::size_t inlined = 0;
  for (const std::uint64_t address : addresses) {
    const RawLines lines = reader->lines_at(address);
    CAPTURE(address);
    REQUIRE(places_of(lines) == truth.at(address));
    with_lines += lines.empty() ? 0 : 1;
    inlined += lines.size() > 1 ? 1 : 0;
  }
  CHECK(with_lines > addresses.size() / 2);
  if (flags.starts_with("-O0")) return;
  CHECK(inlined > 100);
}

TEST_CASE("lines: a worker answers, also after it was killed, and for files that say nothing") {
  if (!have_program("g++")) return;
  const test::TemporaryFolder folder;
  const std::string file = built(folder, "-O2 -g");
  const auto [begin, bytes] = text_of(file);
  const Fd fd = opened(file);
  const auto reader = LineReader::open(opened(file));
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t at = 0; at < std::min<std::uint64_t>(bytes, kMostLineAddresses); ++at)
    addresses.push_back(begin + at);
  Answer truth;
  for (const std::uint64_t address : addresses) truth.push_back(reader->lines_at(address));
  LineWorker worker;
  Answer answer;
  CHECK(answer_of(worker, fd.get(), addresses, answer) == LineWorker::State::kAnswered);
  CHECK(answer == truth);

  const std::string stripped = folder / "stripped";
  test::output_of("strip -o " + stripped + " " + file);
  const Answer nothing(1);
  CHECK(answer_of(worker, opened(stripped).get(), std::span(addresses).first(1), answer) ==
        LineWorker::State::kAnswered);
  CHECK(answer == nothing);
  test::write_text(folder / "text", "this is no ELF file");
  CHECK(answer_of(worker, opened(folder / "text").get(), std::span(addresses).first(1), answer) ==
        LineWorker::State::kAnswered);
  CHECK(answer == nothing);

  for (const std::string& pid : test::lines_of("pgrep -P " + std::to_string(::getpid()) + " -u nobody")) {
    ::kill(std::stoi(pid), SIGKILL);
    ::usleep(50'000);
  }
  CHECK(answer_of(worker, fd.get(), addresses, answer) == LineWorker::State::kAnswered);
  CHECK(answer == truth);
}

TEST_CASE("lines: who answered before and then fails is asked again, once") {
  if (!have_program("g++") || ::geteuid() != 0) return;
  const test::TemporaryFolder folder;
  const Fd fd = opened(built(folder, "-O2 -g"));
  const std::array<std::uint64_t, 1> address = {0x1000};
  LineWorker worker;
  Answer answer;
  REQUIRE(answer_of(worker, fd.get(), address, answer) == LineWorker::State::kAnswered);
  const std::vector<pid_t> pids = workers_of(::getpid());
  REQUIRE(pids.size() == 1);
  ::kill(pids[0], SIGSTOP);
  REQUIRE(worker.ask(fd.get(), address));
  ::kill(pids[0], SIGKILL);
  CHECK(worker.wait(10'000, answer) == LineWorker::State::kAskAgain);
  CHECK(!worker.is_asked());
  CHECK(answer_of(worker, fd.get(), address, answer) == LineWorker::State::kAnswered);
}

TEST_CASE("lines: a worker ends with whoever started it, also one that hangs") {
  if (!have_program("g++") || ::geteuid() != 0) return;
  const test::TemporaryFolder folder;
  const Fd fd = opened(built(folder, "-O2 -g"));
  const pid_t parent = ::fork();
  if (parent == 0) {
    LineWorker worker;
    Answer answer;
    const std::array<std::uint64_t, 1> address = {0x1000};
    if (!worker.ask(fd.get(), address)) ::_exit(1);
    while (worker.wait(100, answer) == LineWorker::State::kWaiting) continue;
    for (;;) ::pause();
  }
  std::vector<pid_t> pids;
  for (int tries = 0; pids.empty() && tries < 300; ++tries, ::usleep(20'000)) pids = workers_of(parent);
  REQUIRE(pids.size() == 1);
  ::kill(pids[0], SIGSTOP);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  for (int tries = 0; runs(pids[0]) && tries < 300; ++tries) ::usleep(20'000);
  CHECK(!runs(pids[0]));
  ::kill(pids[0], SIGKILL);
}

TEST_CASE("lines: files that were damaged end in no lines at the worst") {
  if (!have_program("g++")) return;
  const test::TemporaryFolder folder;
  const std::string file = built(folder, "-O1 -g");
  const auto [begin, bytes] = text_of(file);
  std::ifstream stream(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  std::mt19937 random(5);
  LineWorker worker;
  for (int round = 0; round < 60; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 200; ++i) damaged[64 + random() % (damaged.size() - 64)] = static_cast<char>(random());
    if (round % 3 == 0) damaged.resize(random() % damaged.size());
    test::write_text(folder / "damaged", damaged);
    std::vector<std::uint64_t> addresses(20);
    for (std::uint64_t& address : addresses) address = begin + random() % bytes;
    Answer answer;
    const auto state = answer_of(worker, opened(folder / "damaged").get(), addresses, answer);
    CHECK((state == LineWorker::State::kAnswered || state == LineWorker::State::kFailed));
  }
}

TEST_CASE("lines: the sandbox leaves nothing but reading, memory and an answer") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::string said;
    const int other = ::open("/proc/self/status", O_RDONLY);
    if (!enter_sandbox(ends[1])) ::_exit(1);
    const auto refused = [&](const char* what, long result) { said += result < 0 ? "" : std::string(what) + " "; };
    refused("descriptor", ::fcntl(other, F_GETFD) < 0 ? -1 : 0);
    refused("read", ::read(other, said.data(), 0));
    refused("open", ::open("/etc/passwd", O_RDONLY));
    refused("socket", ::socket(AF_INET, SOCK_STREAM, 0));
    refused("fork", ::fork());
    refused("exec", ::execl("/bin/true", "true", nullptr));
    refused("kill", ::kill(::getppid(), 0));
    if (::geteuid() == 0) said += "root ";
    struct stat stream {};
    if (::fstat(STDOUT_FILENO, &stream) != 0 || stream.st_rdev != makedev(1, 3)) said += "stream ";
    said += "done";
    if (::write(ends[1], said.data(), said.size()) < 0) ::_exit(2);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::array<char, 200> said{};
  const ssize_t got = ::read(ends[0], said.data(), said.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(std::string(said.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))) == "done");
}

TEST_CASE("lines: what the worker says is checked like a file") {
  const Answer answer = {{{"f", "/a.c", 3}, {"", "", 0}}, {}, {{"g", "/b.c", 4'000'000'000}}};
  const std::string bytes = encode_lines(answer);
  CHECK(decode_lines(bytes, 3) == answer);
  CHECK(!decode_lines(bytes, 2));
  CHECK(!decode_lines(bytes, 4));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) CHECK(!decode_lines(std::string_view(bytes).substr(0, cut), 3));
  std::mt19937 random(6);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto decoded = decode_lines(damaged, 3);
    if (decoded) REQUIRE(encode_lines(*decoded) == damaged);
  }
  // What does not fit is left out, and the answer stays one.
  RawLines many(kMostInlined + 9, {std::string(kMostLineTextBytes + 9, 'f'), std::string(kMostLineTextBytes, 'p'), 1});
  const Answer large(kMostLineAddresses, many);
  const std::string most = encode_lines(large);
  CHECK(most.size() <= kMostAnswerBytes);
  const auto decoded = decode_lines(most, kMostLineAddresses);
  REQUIRE(decoded);
  CHECK(decoded->front().size() == kMostInlined);
  CHECK(decoded->front().front().function.size() == kMostLineTextBytes);
  CHECK(decoded->back().empty());
}

TEST_CASE("lines: frames of a process get those of its file, or of its debug file, and no others") {
  if (!have_program("g++")) return;
  const test::TemporaryFolder folder;
  test::write_text(folder / "b.cpp", R"(
#include <cstdio>
#include <unistd.h>
static volatile long sink;
inline __attribute__((always_inline)) void inner() { sink = sink + 1; }
__attribute__((noinline)) void outer() { inner(); }
int main() { std::printf("%lx\n", (unsigned long)(void*)&outer); std::fflush(stdout); for (;;) { outer(); usleep(1000); } }
)");
  test::output_of("g++ -O2 -g -o " + (folder / "b") + " " + (folder / "b.cpp"));
  bool lines = true;
  SUBCASE("in the file") {}
  SUBCASE("in a debug file, symbols in both") {
    const std::string file = folder / "b";
    test::output_of("objcopy --only-keep-debug " + file + " " + file + ".debug && strip --strip-debug " + file +
                    " && objcopy --add-gnu-debuglink=" + file + ".debug " + file);
  }
  SUBCASE("nowhere") {
    test::output_of("strip --strip-debug " + (folder / "b"));
    lines = false;
  }
  const test::Child child({folder / "b"});
  const test::Seen seen = test::look_at(child.pid());
  Symbolizer symbolizer({.lines = true});
  const std::array<std::uint64_t, 1> stack = {std::stoull(child.line(), nullptr, 16)};
  std::vector<Frame> frames;
  symbolizer.resolve(seen.key, seen.image, {}, stack, frames);
  REQUIRE(frames.size() == 1);
  symbolizer.want_lines(frames);
  std::uint64_t version = 0;
  CHECK(!symbolizer.fill_lines(version, frames));
  int busy = 0;
  symbolizer.find_lines(60'000, [&] { return ++busy > 0; });
  CHECK(symbolizer.fill_lines(version, frames) == lines);
  CHECK(!symbolizer.fill_lines(version, frames));
  CHECK((frames[0].lines != nullptr) == lines);
  if (!lines) return;
  const std::vector<SourceLine>& found = *frames[0].lines;
  REQUIRE(found.size() == 2);
  CHECK(*found[0].function == "inner()");
  CHECK(found[0].line == 5);
  CHECK(*found[1].function == "outer()");
  CHECK(found[1].line == 6);
  CHECK(*found[1].file == folder / "b.cpp");
  CHECK(busy > 0);
}

}  // namespace spanfold::proc
