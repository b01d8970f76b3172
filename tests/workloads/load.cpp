// SPDX-License-Identifier: Apache-2.0
// Asks the service on loopback at a bounded rate, for a bounded time, and prints how it went.
#include <httplib.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "workload.h"

namespace {

struct Outcome {
  std::vector<std::uint64_t> latency_ns;  // of the requests that were answered
  std::uint64_t errors = 0;
};

struct Plan {
  int port = 0;
  std::uint64_t interval_ns = 0;  // between the requests of one client
  std::uint64_t end_ns = 0;       // on the steady clock
};

bool ask(httplib::Client& client, std::uint64_t number) {
  httplib::Result result = number % 3 == 0   ? client.Post("/checkout", "{}", "application/json")
                           : number % 3 == 1 ? client.Get(("/search/" + std::to_string(number)).c_str())
                                             : client.Get("/export");
  return result && result->status == 200;
}

void run_client(const Plan& plan, std::uint64_t first, Outcome& outcome) {
  httplib::Client client("127.0.0.1", plan.port);
  client.set_keep_alive(true);
  client.set_tcp_nodelay(true);
  std::uint64_t due_ns = workload::steady_ns();
  for (std::uint64_t number = first; due_ns < plan.end_ns; ++number) {
    const std::uint64_t start_ns = workload::steady_ns();
    if (ask(client, number)) {
      outcome.latency_ns.push_back(workload::steady_ns() - start_ns);
    } else {
      outcome.errors++;
    }
    // A client that is late does not hurry: the service would only be measured against its own queue.
    due_ns = std::max(due_ns + plan.interval_ns, workload::steady_ns());
    const std::uint64_t now_ns = workload::steady_ns();
    if (due_ns > now_ns) workload::sleep_ns(due_ns - now_ns);
  }
}

void print(std::vector<Outcome>& outcomes) {
  Outcome all;
  for (const Outcome& outcome : outcomes) {
    all.latency_ns.insert(all.latency_ns.end(), outcome.latency_ns.begin(), outcome.latency_ns.end());
    all.errors += outcome.errors;
  }
  std::sort(all.latency_ns.begin(), all.latency_ns.end());
  const auto at = [&](double share) {
    if (all.latency_ns.empty()) return 0ULL;
    const auto index = static_cast<std::size_t>(share * static_cast<double>(all.latency_ns.size() - 1));
    return static_cast<unsigned long long>(all.latency_ns[index] / 1000);
  };
  std::printf("requests %zu errors %llu p50_us %llu p99_us %llu\n", all.latency_ns.size(),
              static_cast<unsigned long long>(all.errors), at(0.50), at(0.99));
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--port", "--rate", "--seconds", "--clients");
  const unsigned clients = std::clamp(options.count("--clients", 3), 1U, 32U);
  const double rate = std::clamp(options.number("--rate", 60), 0.1, 2000.0);  // requests a second, all clients together
  Plan plan;
  plan.port = static_cast<int>(options.count("--port", 0));
  plan.interval_ns = static_cast<std::uint64_t>(1e9 * clients / rate);
  plan.end_ns =
      workload::steady_ns() + static_cast<std::uint64_t>(std::min(options.number("--seconds", 5), 600.0) * 1e9);

  std::vector<Outcome> outcomes(clients);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < clients; ++i) threads.emplace_back([&, i] { run_client(plan, i, outcomes[i]); });
  for (std::thread& thread : threads) thread.join();
  print(outcomes);
  return 0;
}
