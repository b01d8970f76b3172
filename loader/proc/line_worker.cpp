// SPDX-License-Identifier: Apache-2.0
#include "proc/line_worker.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>

#include "base/clock.h"
#include "base/log.h"
#include "proc/line_reader.h"
#include "proc/line_sandbox.h"

namespace spanfold::proc {
namespace {

constexpr int kIdleMilliseconds = 60'000;
constexpr std::uint64_t kMostAnswerNs = 60'000'000'000;
constexpr std::size_t kMostReaders = 4;

bool send_all(int socket, const char* bytes, std::size_t count, int flags = 0) {
  while (count > 0) {
    const ssize_t sent = ::send(socket, bytes, count, MSG_NOSIGNAL | flags);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

// What goes with a number and one descriptor.
struct Envelope {
  explicit Envelope(std::uint32_t& number) : part{&number, sizeof number} {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  ~Envelope() = default;
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
};

// There is room for a question where the last one was read: who left it must not make us wait.
bool send_question(int socket, int fd, std::span<const std::uint64_t> addresses) {
  auto count = static_cast<std::uint32_t>(addresses.size());
  Envelope envelope(count);
  cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (::sendmsg(socket, &envelope.message, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof count) return false;
  return send_all(socket, reinterpret_cast<const char*>(addresses.data()), addresses.size_bytes(), MSG_DONTWAIT);
}

// The child's side.
struct Question {
  Fd file;
  std::vector<std::uint64_t> addresses;
};

std::optional<Question> receive_question(int socket) {
  pollfd ready{.fd = socket, .events = POLLIN};
  if (::poll(&ready, 1, kIdleMilliseconds) != 1) return {};
  std::uint32_t count = 0;
  Envelope envelope(count);
  if (::recvmsg(socket, &envelope.message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof count) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || count > kMostLineAddresses) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  Question question{Fd(fd), std::vector<std::uint64_t>(count)};
  const std::size_t bytes = count * sizeof(std::uint64_t);
  if (::recv(socket, question.addresses.data(), bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) return {};
  return question;
}

struct OpenReader {
  struct stat status {};
  std::unique_ptr<LineReader> reader;  // null: it has no debug information
};

bool is_of(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// The one used last comes first.
LineReader* reader_of(Fd file, std::list<OpenReader>& readers) {
  OpenReader opened;
  if (::fstat(file.get(), &opened.status) != 0) return nullptr;
  const auto known = std::find_if(readers.begin(), readers.end(),
                                  [&](const OpenReader& reader) { return is_of(reader.status, opened.status); });
  if (known != readers.end()) {
    readers.splice(readers.begin(), readers, known);
  } else {
    if (readers.size() >= kMostReaders) readers.pop_back();
    opened.reader = LineReader::open(std::move(file));
    readers.push_front(std::move(opened));
  }
  return readers.front().reader.get();
}

[[noreturn]] void serve(int socket) {
  if (!enter_sandbox(socket)) ::_exit(1);
  std::list<OpenReader> readers;
  while (auto question = receive_question(socket)) {
    LineReader* reader = reader_of(std::move(question->file), readers);
    std::vector<RawLines> answer(question->addresses.size());
    for (std::size_t i = 0; i < answer.size() && reader != nullptr; ++i) {
      answer[i] = reader->lines_at(question->addresses[i]);
    }
    const std::string bytes = encode_lines(answer);
    const auto size = static_cast<std::uint32_t>(bytes.size());
    if (!send_all(socket, reinterpret_cast<const char*>(&size), sizeof size)) break;
    if (!send_all(socket, bytes.data(), bytes.size())) break;
  }
  ::_exit(0);
}

}  // namespace

LineWorker::~LineWorker() { stop(); }

void LineWorker::stop() {
  socket_.reset();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  asked_ = 0;
  received_.clear();
  answers_ = 0;
}

bool LineWorker::start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return false;
  if (pid == 0) {
    ours.reset();
    serve(theirs.get());
  }
  pid_ = pid;
  socket_ = std::move(ours);
  return true;
}

bool LineWorker::ask(int fd, std::span<const std::uint64_t> addresses) {
  const bool left = pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_;
  if (left) {
    pid_ = -1;
    stop();
  }
  if (pid_ < 0 && !start()) return false;
  if (!send_question(socket_.get(), fd, addresses)) {
    stop();
    return false;
  }
  asked_ = addresses.size();
  asked_ns_ = boot_clock_ns();
  received_.clear();
  return true;
}

LineWorker::State LineWorker::take(std::vector<RawLines>& answer) {
  std::uint32_t size = 0;
  if (received_.size() < sizeof size) return State::kWaiting;
  std::memcpy(&size, received_.data(), sizeof size);
  if (size > kMostAnswerBytes) return State::kFailed;
  if (received_.size() - sizeof size < size) return State::kWaiting;
  auto lines = decode_lines(std::string_view(received_).substr(sizeof size), asked_);
  if (!lines) return State::kFailed;
  answer = *std::move(lines);
  ++answers_;
  asked_ = 0;
  received_.clear();
  return State::kAnswered;
}

LineWorker::State LineWorker::wait(int milliseconds, std::vector<RawLines>& answer) {
  pollfd ready{.fd = socket_.get(), .events = POLLIN};
  State state = State::kWaiting;
  if (::poll(&ready, 1, milliseconds) == 1) {
    std::array<char, 64UL * 1024> piece{};
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(piece.data(), static_cast<std::size_t>(got));
      state = take(answer);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      state = State::kFailed;
    }
  }
  if (state == State::kWaiting && boot_clock_ns() - asked_ns_ > kMostAnswerNs) {
    stop();
    return State::kFailed;
  }
  if (state != State::kFailed) return state;
  const bool other_cause = answers_ > 0;
  stop();
  return other_cause ? State::kAskAgain : State::kFailed;
}

}  // namespace spanfold::proc
