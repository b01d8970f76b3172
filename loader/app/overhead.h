// SPDX-License-Identifier: Apache-2.0
// Keeps what recording costs below a limit by sampling less often. Holds no clock and logs nothing: costs come in, a
// rate and the words for it go out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spanfold::app {

// What one window took.
struct Cost {
  std::uint64_t wall_ns = 0;
  std::uint64_t bpf_ns = 0;     // CPU time of our programs, on all CPUs together
  std::uint64_t loader_ns = 0;  // CPU time of this process
  Cost& operator+=(const Cost& other);
};

class Overhead {
 public:
  struct Options {
    double limit_percent = 1;                // of one CPU; 0: no limit
    std::uint32_t frequency_hz = 99;         // what was asked for: never exceeded
    std::uint64_t slice_ns = 5'000'000'000;  // what is judged at once: two in a row decide
  };
  struct Verdict {
    std::uint32_t frequency_hz = 0;  // for what comes next
    std::string words;               // for the user; empty: nothing new
  };

  explicit Overhead(const Options& options) : options_(options) {}

  // A window is over that was sampled at `frequency_hz`. Windows at a rate that is no longer wanted are not judged.
  [[nodiscard]] Verdict look(const Cost& cost, std::uint32_t frequency_hz);
  [[nodiscard]] std::uint32_t wanted_hz() const;

 private:
  Verdict judge();
  Verdict lower(double percent);
  Verdict keep(double percent, const char* reason);
  Verdict raise(double percent);
  void start_anew();

  Options options_;
  std::uint32_t halvings_ = 0;
  Cost slice_;                         // of the present slice
  Cost previous_;                      // the slice before it
  std::uint32_t high_ = 0;             // slices above the limit, in a row
  std::uint32_t low_ = 0;              // slices well below it, in a row
  std::optional<double> before_;       // percent, before the rate was halved last
  std::optional<double> no_use_from_;  // percent from which on another halving is worth a try
};

}  // namespace spanfold::app
