// SPDX-License-Identifier: Apache-2.0
#include "proc/line_sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file.h"

namespace spanfold::proc {
namespace {

constexpr rlim_t kMostMemoryBytes = 1UL << 30;
constexpr unsigned kNobody = 65534;

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // no call is allowed
#endif

// What reading a file that is open, memory and an answer take.
constexpr std::array kAllowed = {
    SYS_read,      SYS_pread64, SYS_write,        SYS_sendmsg,     SYS_sendto, SYS_recvmsg,       SYS_recvfrom,
    SYS_close,     SYS_fstat,   SYS_newfstatat,   SYS_lseek,       SYS_mmap,   SYS_munmap,        SYS_mremap,
    SYS_mprotect,  SYS_brk,     SYS_madvise,      SYS_futex,       SYS_ppoll,  SYS_exit,          SYS_exit_group,
    SYS_getrandom, SYS_gettid,  SYS_rt_sigreturn, SYS_sched_yield, SYS_getpid, SYS_clock_gettime,
#if defined(SYS_poll)
    SYS_poll,
#endif
};

sock_filter load(std::size_t offset) {
  return {.code = BPF_LD | BPF_W | BPF_ABS, .k = static_cast<std::uint32_t>(offset)};
}
sock_filter skip_if(std::uint32_t value, std::uint8_t if_equal, std::uint8_t if_not) {
  return {.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = if_equal, .jf = if_not, .k = value};
}
sock_filter leave(std::uint32_t action) { return {.code = BPF_RET | BPF_K, .k = action}; }

bool refuse_system_calls() {
  std::vector<sock_filter> program = {load(offsetof(seccomp_data, arch)), skip_if(kArchitecture, 1, 0),
                                      leave(SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
  for (const auto call : kAllowed) {
    program.push_back(skip_if(static_cast<std::uint32_t>(call), 0, 1));
    program.push_back(leave(SECCOMP_RET_ALLOW));
  }
  program.push_back(leave(SECCOMP_RET_ERRNO | EPERM));
  const sock_fprog filter{.len = static_cast<decltype(sock_fprog::len)>(program.size()), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Memory that is shared with whoever forked us: the kernel's rings among others.
void leave_shared_memory() {
  constexpr std::size_t kMostBytes = 4UL << 20;
  const auto maps = read_file("/proc/self/maps", kMostBytes);
  std::istringstream lines(maps ? *maps : std::string());
  for (std::string line; std::getline(lines, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* stop = line.data() + line.size();
    const auto [dash, begin_error] = std::from_chars(line.data(), stop, begin, 16);
    if (begin_error != std::errc{} || dash == stop) continue;
    const auto [space, end_error] = std::from_chars(dash + 1, stop, end, 16);
    constexpr std::ptrdiff_t kSharedAt = 4;  // " rwxs"
    const bool shared = end_error == std::errc{} && stop - space > kSharedAt && space[kSharedAt] == 's';
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is told as a number
    if (shared) ::munmap(reinterpret_cast<void*>(begin), end - begin);
  }
}

// What they lead to may be the recording itself, or the terminal of root.
void leave_standard_streams(int keep) {
  Fd nowhere(::open("/dev/null", O_RDWR));
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kLast = 1;  // the sanitizer reports on the third
#else
  constexpr int kLast = 2;
#endif
  for (int fd = 0; fd <= kLast; ++fd) {
    if (fd == keep) continue;
    if (!nowhere || ::dup2(nowhere.get(), fd) < 0) ::close(fd);
  }
  if (nowhere.get() <= kLast) (void)nowhere.release();
}

void limit(__rlimit_resource resource, rlim_t most) {
  const rlimit value{most, most};
  (void)::setrlimit(resource, &value);
}

}  // namespace

bool enter_sandbox(int keep) {
  constexpr int kFirst = 3;
  leave_shared_memory();
  leave_standard_streams(keep);
  if (keep > kFirst) (void)::syscall(SYS_close_range, kFirst, keep - 1, 0);
  (void)::syscall(SYS_close_range, keep + 1, ~0U, 0);
#if !defined(__SANITIZE_ADDRESS__)
  limit(RLIMIT_AS, kMostMemoryBytes);  // the sanitizer's shadow alone takes terabytes
#endif
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  if (::geteuid() == 0) {
    const gid_t nobody = kNobody;
    const bool gone = ::setgroups(0, nullptr) == 0 && ::setresgid(nobody, nobody, nobody) == 0 &&
                      ::setresuid(kNobody, kNobody, kNobody) == 0;
    if (!gone) return false;
  }
  (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // After the identity: the kernel forgets it with each change of that.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return false;
  return refuse_system_calls();
}

}  // namespace spanfold::proc
