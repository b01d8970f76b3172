// SPDX-License-Identifier: Apache-2.0
#include "app/overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace spanfold::app {
namespace {

// A burst (start-up, the symbols of a large program) falls into one slice, or into two of which one is half empty.
constexpr std::uint32_t kHighSlices = 2;
// Rising is no hurry, and doubling what is below this share of the limit stays below the limit.
constexpr std::uint32_t kLowSlices = 6;
constexpr double kLowShare = 0.4;
// Half the rate should about halve the cost. Where four fifths are left, something else costs.
constexpr double kHelped = 0.8;
// Beyond what it was when halving did not help, the load is another one.
constexpr double kOtherLoad = 1.25;

double percent_of(std::uint64_t part_ns, std::uint64_t whole_ns) {
  return 100 * static_cast<double>(part_ns) / static_cast<double>(std::max<std::uint64_t>(whole_ns, 1));
}

double percent_of(const Cost& cost) { return percent_of(cost.bpf_ns + cost.loader_ns, cost.wall_ns); }

// Two digits that mean something: 0.031, 1.7, 12.
std::string figure(double percent) {
  constexpr double kWhole = 10;
  return percent < kWhole ? fmt::format("{:.2g}", percent) : fmt::format("{:.0f}", percent);
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  wall_ns += other.wall_ns;
  bpf_ns += other.bpf_ns;
  loader_ns += other.loader_ns;
  return *this;
}

std::uint32_t Overhead::wanted_hz() const { return std::max(1U, options_.frequency_hz >> halvings_); }

void Overhead::start_anew() {
  slice_ = {};
  high_ = 0;
  low_ = 0;
}

Overhead::Verdict Overhead::look(const Cost& cost, std::uint32_t frequency_hz) {
  Verdict same{.frequency_hz = wanted_hz()};
  if (options_.limit_percent == 0 || frequency_hz != wanted_hz()) return same;
  slice_ += cost;
  if (slice_.wall_ns < options_.slice_ns) return same;
  Verdict verdict = judge();
  previous_ = std::exchange(slice_, {});
  return verdict;
}

Overhead::Verdict Overhead::judge() {
  const double percent = percent_of(slice_);
  high_ = percent > options_.limit_percent ? high_ + 1 : 0;
  low_ = percent < kLowShare * options_.limit_percent ? low_ + 1 : 0;
  if (low_ >= kLowSlices && halvings_ > 0) return raise(percent);
  if (high_ < kHighSlices) return {.frequency_hz = wanted_hz()};
  // The lower of the two, so that the tail of a burst does not decide.
  const double lasting = std::min(percent, percent_of(previous_));
  if (no_use_from_ && lasting <= *no_use_from_) return {.frequency_hz = wanted_hz()};
  if (wanted_hz() == 1) return keep(lasting, "the rate cannot be lower");
  if (before_ && lasting > kHelped * *before_) return keep(lasting, "a lower rate does not help");
  return lower(lasting);
}

Overhead::Verdict Overhead::lower(double percent) {
  const std::uint32_t old_hz = wanted_hz();
  const Cost cost = slice_;
  before_ = percent;
  no_use_from_.reset();
  ++halvings_;
  start_anew();
  return {.frequency_hz = wanted_hz(),
          .words = fmt::format(
              "BPF and loader took {} % of a CPU ({} and {}), more than --max-overhead {}: sampling at "
              "{} Hz instead of {} from here on",
              figure(percent_of(cost)), figure(percent_of(cost.bpf_ns, cost.wall_ns)),
              figure(percent_of(cost.loader_ns, cost.wall_ns)), options_.limit_percent, wanted_hz(), old_hz)};
}

Overhead::Verdict Overhead::keep(double percent, const char* reason) {
  no_use_from_ = kOtherLoad * percent;
  before_.reset();
  return {.frequency_hz = wanted_hz(),
          .words = fmt::format(
              "BPF and loader take {} % of a CPU ({} and {}) at {} Hz, more than --max-overhead {}, but "
              "{}; what helps is a longer --flush, --symbols none or a higher limit",
              figure(percent_of(slice_)), figure(percent_of(slice_.bpf_ns, slice_.wall_ns)),
              figure(percent_of(slice_.loader_ns, slice_.wall_ns)), wanted_hz(), options_.limit_percent, reason)};
}

Overhead::Verdict Overhead::raise(double percent) {
  const std::uint32_t old_hz = wanted_hz();
  --halvings_;
  before_.reset();
  no_use_from_.reset();
  start_anew();
  return {.frequency_hz = wanted_hz(),
          .words = fmt::format("BPF and loader took {} % of a CPU, well below --max-overhead {}: sampling at {} Hz "
                               "instead of {} from here on",
                               figure(percent), options_.limit_percent, wanted_hz(), old_hz)};
}

}  // namespace spanfold::app
