// SPDX-License-Identifier: Apache-2.0
// A small shop over HTTP on loopback: routes that spend known shares of CPU in known functions, inside nested spans,
// and wait a little too. Prints `listening PORT`; on SIGTERM it finishes, writes what is left and exits 0.
#include <httplib.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "telemetry.h"
#include "workload.h"

using workload::burn;
using workload::ScopedSpan;
using workload::SpanKind;

struct Order {
  std::string date;
  double total = 0;
};

namespace {

constexpr std::uint64_t kMs = 1'000'000;

// Byte 0 of a span id, so that a test knows what a span is without reading its name.
enum Kind : std::uint8_t {
  kCheckout = 1,
  kPriceLookup,
  kChargeCard,
  kFraudCheck,
  kSearch,
  kIndexScan,
  kExport,
};

}  // namespace

[[WORKLOAD_KEEP]] void parse_date(const std::string& text) {
  ScopedSpan::account("parse_date", burn(4 * kMs + text.size()));
}
[[WORKLOAD_KEEP]] void apply_discount(Order& order) {
  order.total *= 0.9;
  ScopedSpan::account("apply_discount", burn(2 * kMs));
}
[[WORKLOAD_KEEP]] void lookup_price(Order& order) {
  order.total += 29.95;
  ScopedSpan::account("lookup_price", burn(2 * kMs));
}
[[WORKLOAD_KEEP]] void sign_payment(const Order& order) {
  ScopedSpan::account("sign_payment",
                      burn(static_cast<std::uint64_t>(1.5 * kMs) + static_cast<std::uint64_t>(order.total)));
}
[[WORKLOAD_KEEP]] void score_risk(const Order& order) {
  ScopedSpan::account("score_risk", burn(kMs + static_cast<std::uint64_t>(order.total)));
}
[[WORKLOAD_KEEP]] void tokenize_query(const std::string& query) {
  ScopedSpan::account("tokenize_query", burn(kMs + query.size()));
}
[[WORKLOAD_KEEP]] void scan_index(const std::string& query) {
  ScopedSpan::account("scan_index", burn(2 * kMs + query.size()));
}
[[WORKLOAD_KEEP]] void rank_results(std::vector<int>& results) {
  results.push_back(static_cast<int>(results.size()));
  ScopedSpan::account("rank_results", burn(3 * kMs));
}
[[WORKLOAD_KEEP]] void render_csv(std::string& text) {
  text += "id,total\n";
  ScopedSpan::account("render_csv", burn(8 * kMs));
}
[[WORKLOAD_KEEP]] void compress_body(std::string& text) {
  text.resize(text.size() / 2);
  ScopedSpan::account("compress_body", burn(4 * kMs));
}

namespace {

class Shop {
 public:
  Shop(const std::string& traces_path, const std::string& truth_path) : log_("shop", traces_path, truth_path) {}

  std::string checkout() {
    const ScopedSpan span(log_, ids(kCheckout), "POST /checkout", SpanKind::kServer, "/checkout");
    Order order;
    order.date = "2024-02-29";
    parse_date(order.date);
    {
      const ScopedSpan inner(log_, ids(kPriceLookup), "price lookup", SpanKind::kClient);
      lookup_price(order);
    }
    apply_discount(order);
    charge(order);
    return "ok\n";
  }

  std::string search(const std::string& query) {
    const ScopedSpan span(log_, ids(kSearch), "GET /search/{id}", SpanKind::kServer, "/search/{id}");
    std::vector<int> results;
    tokenize_query(query);
    {
      const ScopedSpan inner(log_, ids(kIndexScan), "index scan", SpanKind::kInternal);
      scan_index(query);
    }
    rank_results(results);
    return std::to_string(results.size()) + "\n";
  }

  std::string export_orders() {
    const ScopedSpan span(log_, ids(kExport), "GET /export", SpanKind::kServer, "/export");
    std::string text;
    render_csv(text);
    workload::sleep_ns(2 * kMs);
    compress_body(text);
    return text;
  }

 private:
  void charge(const Order& order) {
    const ScopedSpan span(log_, ids(kChargeCard), "charge card", SpanKind::kClient);
    {
      const ScopedSpan inner(log_, ids(kFraudCheck), "fraud check", SpanKind::kInternal);
      score_risk(order);
    }
    sign_payment(order);
    workload::sleep_ns(5 * kMs);
  }

  workload::SpanIds ids(Kind kind) {
    const std::uint64_t serial = ++serial_;
    return workload::make_ids(kind, 0, serial, seed_, serial);
  }

  workload::SpanLog log_;
  std::atomic<std::uint64_t> serial_ = 0;
  std::uint64_t seed_ = workload::wall_ns();
};

void route(httplib::Server& server, Shop& shop) {
  server.Post("/checkout", [&shop](const httplib::Request&, httplib::Response& response) {
    response.set_content(shop.checkout(), "text/plain");
  });
  server.Get(R"(/search/(\w+))", [&shop](const httplib::Request& request, httplib::Response& response) {
    response.set_content(shop.search(request.matches[1].str()), "text/plain");
  });
  server.Get("/export", [&shop](const httplib::Request&, httplib::Response& response) {
    response.set_content(shop.export_orders(), "text/csv");
  });
}

}  // namespace

int main(int count, char** words) {
  const workload::Options options(count, words);
  options.allow("--port", "--threads", "--traces", "--truth");
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Shop shop(options.text("--traces"), options.text("--truth"));
  httplib::Server server;
  const unsigned threads = options.count("--threads", 4);
  server.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
  // Waits in short steps, so that idle connections do not hold up the end.
  server.set_keep_alive_timeout(1);
  server.set_tcp_nodelay(true);
  route(server, shop);
  int port = static_cast<int>(options.count("--port", 0));
  port = port == 0 ? server.bind_to_any_port("127.0.0.1") : (server.bind_to_port("127.0.0.1", port) ? port : -1);
  if (port < 0) {
    std::fputs("service: cannot bind to 127.0.0.1\n", stderr);
    return 1;
  }
  std::printf("listening %d\n", port);
  std::fflush(stdout);

  std::thread waiter([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    server.stop();
  });
  server.listen_after_bind();
  waiter.join();
  return 0;
}
