// SPDX-License-Identifier: Apache-2.0
// Attaches the double of OBI's context writer to the workloads' binaries, on a context map that it adopts or creates.
#include "writer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "writer.skel.h"

namespace {

struct Arguments {
  std::string ctx_map = "/sys/fs/bpf/otel/traces_ctx_v1";
  std::vector<std::string> binaries;
  int pid = -1;
  writer_config config{};
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "writer: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

[[noreturn]] void usage() {
  std::fputs(
      "usage: writer --binary PATH [--binary PATH…] [--pid PID] [--ctx-map PATH] [--no-write] [--forget-delete] "
      "[--forget-parent]\n"
      "Prints `ready` once attached, and counts at its end (SIGTERM or SIGINT).\n",
      stderr);
  std::exit(2);
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--no-write") {
      arguments.config.write_nothing = 1;
    } else if (word == "--forget-delete") {
      arguments.config.forget_delete = 1;
    } else if (word == "--forget-parent") {
      arguments.config.forget_parent = 1;
    } else if (word == "--binary" && has_value) {
      arguments.binaries.emplace_back(words[++i]);
    } else if (word == "--ctx-map" && has_value) {
      arguments.ctx_map = words[++i];
    } else if (word == "--pid" && has_value) {
      arguments.pid = std::atoi(words[++i]);
    } else {
      usage();
    }
  }
  if (arguments.binaries.empty()) usage();
  return arguments;
}

// The pinned map, adopted or created; whoever comes second finds the pin of the first.
int context_map(const std::string& path) {
  int fd = bpf_obj_get(path.c_str());
  if (fd >= 0) return fd;
  if (errno != ENOENT) die("open " + path);
  const std::string folder = path.substr(0, path.rfind('/'));
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) die("create " + folder);
  fd = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "traces_ctx_v1", sizeof(__u64), 24, WRITER_CTX_ENTRIES, nullptr);
  if (fd < 0) die("create the context map");
  if (bpf_obj_pin(fd, path.c_str()) == 0) return fd;
  if (errno != EEXIST) die("pin " + path);
  fd = bpf_obj_get(path.c_str());
  if (fd < 0) die("open " + path);
  return fd;
}

void attach(bpf_program* program, const Arguments& arguments, const char* function) {
  for (const std::string& binary : arguments.binaries) {
    LIBBPF_OPTS(bpf_uprobe_opts, options);
    options.func_name = function;
    // The link lives as long as this process.
    if (bpf_program__attach_uprobe_opts(program, arguments.pid, binary.c_str(), 0, &options) == nullptr) {
      die("attach to " + std::string(function) + " of " + binary);
    }
  }
}

void print_counts(int fd) {
  const int cpus = libbpf_num_possible_cpus();
  std::vector<__u64> values(static_cast<std::size_t>(cpus));
  __u64 totals[WRITER_COUNT] = {};
  for (__u32 what = 0; what < WRITER_COUNT; ++what) {
    if (bpf_map_lookup_elem(fd, &what, values.data()) != 0) continue;
    for (const __u64 value : values) totals[what] += value;
  }
  std::printf("set %llu deleted %llu failed %llu\n", totals[WRITER_SET], totals[WRITER_DELETED], totals[WRITER_FAILED]);
}

}  // namespace

int main(int count, char** words) {
  const Arguments arguments = parse(count, words);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);

  writer_bpf* writer = writer_bpf__open();
  if (writer == nullptr) die("open the programs");
  std::memcpy(const_cast<writer_config*>(&writer->rodata->config), &arguments.config, sizeof(arguments.config));
  if (bpf_map__reuse_fd(writer->maps.traces_ctx_v1, context_map(arguments.ctx_map)) != 0) die("adopt the context map");
  if (writer_bpf__load(writer) != 0) die("load the programs");
  attach(writer->progs.on_span_begin, arguments, "span_begin");
  attach(writer->progs.on_span_end, arguments, "span_end");
  std::puts("ready");
  std::fflush(stdout);

  int signal = 0;
  sigwait(&signals, &signal);
  print_counts(bpf_map__fd(writer->maps.writer_counts));
  writer_bpf__destroy(writer);
  return 0;
}
