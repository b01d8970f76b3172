// SPDX-License-Identifier: Apache-2.0
#include "profile/encoder.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "profile/accounting.h"
#include "profile/carrier.h"
#include "profile/dictionary.h"
#include "profile/otlp_fields.h"
#include "profile/span_times.h"
#include "profile/text.h"

namespace spanfold::profile {
namespace {

struct Row {
  std::uint32_t stack, link;
  std::uint64_t value;
};

template <typename T, typename Order>
std::strong_ordering content(const T* left, const T* right, Order order) {
  if (left == right) return std::strong_ordering::equal;
  if (left == nullptr || right == nullptr) return (left != nullptr) <=> (right != nullptr);
  return order(*left, *right);
}

template <typename T>
std::strong_ordering content(const T* left, const T* right) {
  return content(left, right, [](const T& a, const T& b) { return a <=> b; });
}

std::strong_ordering order(const std::vector<SourceLine>& left, const std::vector<SourceLine>& right) {
  return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end(),
                                                [](const SourceLine& a, const SourceLine& b) {
                                                  if (const auto by = a.line <=> b.line; by != 0) return by;
                                                  if (const auto by = content(a.function, b.function); by != 0)
                                                    return by;
                                                  return content(a.file, b.file);
                                                });
}

std::strong_ordering order(const Frame& left, const Frame& right) {
  if (const auto by = left.address <=> right.address; by != 0) return by;
  if (const auto by = left.type <=> right.type; by != 0) return by;
  if (const auto by = content(left.function, right.function); by != 0) return by;
  if (const auto by = content(left.mapping, right.mapping); by != 0) return by;
  return content(left.lines, right.lines, [](const auto& a, const auto& b) { return order(a, b); });
}

// By content alone, never by stack_key, which is random: equal windows give equal bytes.
bool before(const Sample* left, const Sample* right) {
  if (const auto by = left->span <=> right->span; by != 0) return by < 0;
  if (left->frames.data() == right->frames.data() && left->frames.size() == right->frames.size()) return false;
  return std::lexicographical_compare(left->frames.begin(), left->frames.end(), right->frames.begin(),
                                      right->frames.end(),
                                      [](const Frame& a, const Frame& b) { return order(a, b) < 0; });
}

Hash128 seed_of(const Window& window) {
  Hash128 seed;
  std::memcpy(&seed, window.id_seed.data(), sizeof(seed));
  return seed;
}

void write_resource(protozero::pbf_writer& parent, const Attributes& attributes) {
  protozero::pbf_writer resource(parent, otlp::resource_profiles::kResource);
  for (const auto& [key, value] : attributes) {
    protozero::pbf_writer pair(resource, otlp::resource::kAttributes);
    pair.add_string(otlp::key_value::kKey, to_valid_utf8(key));
    protozero::pbf_writer any(pair, otlp::key_value::kValue);
    if (const auto* text = std::get_if<std::string>(&value)) {
      any.add_string(otlp::any_value::kString, to_valid_utf8(*text));
    } else {
      any.add_int64(otlp::any_value::kInt, std::get<std::int64_t>(value));
    }
  }
}

}  // namespace

std::int64_t sample_period_ns(std::uint32_t frequency_hz) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  const std::int64_t frequency = std::max<std::int64_t>(frequency_hz, 1);
  return std::max<std::int64_t>((kNanoseconds + frequency / 2) / frequency, 1);
}

class Encoder::Impl {
 public:
  explicit Impl(EncoderOptions options)
      : options_(std::move(options)), dictionary_(options_.mode == EncoderOptions::Mode::kIncrements) {}

  void encode(const Window& window, std::string& out) {
    if (!started_ || options_.mode == EncoderOptions::Mode::kMessages) dictionary_.start(seed_of(window));
    started_ = true;
    dictionary_.start_batch();
    profiles_.clear();
    written_ = 0;
    accounted_ = false;
    write_processes(window);
    // First in each increment: a reader that stops at a torn tail has all rows that whole profiles need.
    protozero::pbf_writer data(out);
    data.add_message(otlp::profiles_data::kDictionary, dictionary_.take_rows());
    out += profiles_;
  }

 private:
  // Processes in the order of their resources; those with equal resources are one.
  void write_processes(const Window& window) {
    std::vector<const ProcessSamples*> processes;
    for (const ProcessSamples& process : window.processes) processes.push_back(&process);
    std::stable_sort(processes.begin(), processes.end(),
                     [](const auto* left, const auto* right) { return left->resource < right->resource; });
    bool lacks_on_cpu = !has_on_cpu(window);
    for (std::size_t first = 0; first < processes.size();) {
      std::size_t next = first;
      for (; next < processes.size() && processes[next]->resource == processes[first]->resource; ++next) {
        gather(*processes[next]);
      }
      if (!samples_.empty() || !times_.empty()) {
        write_process(window, processes[first]->resource, lacks_on_cpu);
        lacks_on_cpu = false;
      }
      forget_process();
      first = next;
    }
    if (written_ == 0) write_process(window, processes.empty() ? Attributes{} : processes.front()->resource, true);
  }

  // Nothing may lead into a window that is gone.
  void forget_process() {
    samples_.clear();
    times_.clear();
    made_times_.clear();
  }

  void gather(const ProcessSamples& process) {
    for (const Sample& sample : process.on_cpu) {
      if (sample.value != 0) samples_.push_back(&sample);
    }
    for (const SpanTime& time : process.span_times) {
      if (has_stays(time)) times_.push_back(&time);
    }
  }

  // `always`: a profile of what ran on the CPU is needed, also without samples.
  void write_process(const Window& window, const Attributes& resource, bool always) {
    protozero::pbf_writer data(profiles_);
    protozero::pbf_writer process(data, otlp::profiles_data::kResourceProfiles);
    write_resource(process, resource);
    protozero::pbf_writer scoped(process, otlp::resource_profiles::kScopeProfiles);
    {
      protozero::pbf_writer scope(scoped, otlp::scope_profiles::kScope);
      scope.add_string(otlp::scope::kName, "spanfold");
      scope.add_string(otlp::scope::kVersion, options_.version);
    }
    if (always || !samples_.empty()) write_on_cpu(scoped, window);
    arrange(times_, made_times_);
    for (const bool ended : {true, false}) write_times(scoped, window, ended);
  }

  void write_on_cpu(protozero::pbf_writer& scoped, const Window& window) {
    protozero::pbf_writer profile(scoped, otlp::scope_profiles::kProfiles);
    write_type(profile, otlp::profile::kSampleType, "samples", "count");
    write_samples(profile);
    write_window(profile, window);
    write_type(profile, otlp::profile::kPeriodType, "cpu", "nanoseconds");
    profile.add_int64(otlp::profile::kPeriod, sample_period_ns(window.frequency_hz));
    write_id(profile, window);
    if (!accounted_) write_accounting(profile, window);
    accounted_ = true;
  }

  void write_times(protozero::pbf_writer& scoped, const Window& window, bool ended) {
    const auto belongs = [ended](const SpanTime* time) { return time->ended == ended; };
    if (std::none_of(times_.begin(), times_.end(), belongs)) return;
    protozero::pbf_writer profile(scoped, otlp::scope_profiles::kProfiles);
    write_type(profile, otlp::profile::kSampleType, kSpanTimeType, "nanoseconds");
    for (const SpanTime* time : times_) {
      if (belongs(time)) write_time(profile, *time, window);
    }
    write_window(profile, window);
    write_type(profile, otlp::profile::kPeriodType, kSpanTimeType, "nanoseconds");
    profile.add_int64(otlp::profile::kPeriod, 1);
    write_id(profile, window);
    const std::uint32_t row = dictionary_.attribute(kEndedKey, std::int64_t{ended ? 1 : 0});
    profile.add_packed_uint32(otlp::profile::kAttributeIndices, &row, &row + 1);
  }

  void write_time(protozero::pbf_writer& profile, const SpanTime& time, const Window& window) {
    begins_.clear();
    lengths_.clear();
    for (const Stay& stay : time.stays) {
      const Stay cut = cut_at(window, stay);
      begins_.push_back(cut.begin_unix_nano);
      lengths_.push_back(cut.length_ns);
    }
    protozero::pbf_writer sample(profile, otlp::profile::kSamples);
    sample.add_uint32(otlp::sample::kLinkIndex, dictionary_.link(time.span));
    sample.add_packed_uint64(otlp::sample::kValues, lengths_.begin(), lengths_.end());
    sample.add_packed_fixed64(otlp::sample::kTimestampsUnixNano, begins_.begin(), begins_.end());
  }

  static void write_window(protozero::pbf_writer& profile, const Window& window) {
    profile.add_fixed64(otlp::profile::kTimeUnixNano, window.start_unix_nano);
    profile.add_uint64(otlp::profile::kDurationNano, written_duration_ns(window));
  }

  void write_type(protozero::pbf_writer& profile, otlp::Field field, std::string_view type, std::string_view unit) {
    protozero::pbf_writer value_type(profile, field);
    value_type.add_uint32(otlp::value_type::kType, dictionary_.string(type));
    value_type.add_uint32(otlp::value_type::kUnit, dictionary_.string(unit));
  }

  void write_samples(protozero::pbf_writer& profile) {
    std::sort(samples_.begin(), samples_.end(), before);
    Row row{};
    const SpanContext* span = nullptr;
    for (const Sample* sample : samples_) {
      const bool same_span = span != nullptr && *span == sample->span;
      span = &sample->span;
      const Row next = {dictionary_.stack(sample->frames, sample->stack_key),
                        same_span ? row.link : dictionary_.link(sample->span), sample->value};
      // Equal stacks of one span are neighbours, whatever their keys.
      if (row.value != 0 && row.stack == next.stack && row.link == next.link) {
        row.value += next.value;
        continue;
      }
      write_sample(profile, row);
      row = next;
    }
    write_sample(profile, row);
  }

  static void write_sample(protozero::pbf_writer& profile, const Row& row) {
    if (row.value == 0) return;
    protozero::pbf_writer sample(profile, otlp::profile::kSamples);
    if (row.stack != 0) sample.add_uint32(otlp::sample::kStackIndex, row.stack);
    if (row.link != 0) sample.add_uint32(otlp::sample::kLinkIndex, row.link);
    sample.add_packed_uint64(otlp::sample::kValues, &row.value, &row.value + 1);
  }

  // Random enough: a hash of the window's random seed and the number of the profile.
  void write_id(protozero::pbf_writer& profile, const Window& window) {
    const Hash128 id = Hasher(seed_of(window)).word(window.start_unix_nano).word(written_++).result();
    profile.add_bytes(otlp::profile::kProfileId, reinterpret_cast<const char*>(&id), sizeof(id));
  }

  void write_accounting(protozero::pbf_writer& profile, const Window& window) {
    const Accounting& accounting = window.accounting;
    std::vector<std::uint32_t> rows;
    const auto add = [&](std::string_view key, std::uint64_t value) {
      rows.push_back(dictionary_.attribute(key, static_cast<std::int64_t>(value)));
    };
    add(kTicksKey, accounting.ticks);
    add(kInSpanKey, accounting.in_span);
    add(kBackgroundKey, accounting.background);
    add(kIdleKey, accounting.idle);
    add(kFilteredKey, accounting.filtered);
    for (const auto& [reason, count] : accounting.dropped) {
      if (count != 0) add(std::string(kDroppedPrefix) + reason, count);
    }
    add(kMissedKey, accounting.missed);
    if (accounting.recursion_misses) add(kRecursionMissesKey, *accounting.recursion_misses);
    if (accounting.unsampled != 0) add(kUnsampledKey, accounting.unsampled);
    add(kFrequencyKey, window.frequency_hz);
    profile.add_packed_uint32(otlp::profile::kAttributeIndices, rows.begin(), rows.end());
  }

  EncoderOptions options_;
  Dictionary dictionary_;
  std::vector<const Sample*> samples_;  // of the process being written
  std::vector<const SpanTime*> times_;  // of the process being written
  std::deque<SpanTime> made_times_;     // behind some of them
  std::vector<std::uint64_t> begins_, lengths_;
  std::string profiles_;
  std::uint64_t written_ = 0;  // profiles of this message
  bool accounted_ = false;     // by a profile of this message
  bool started_ = false;
};

Encoder::Encoder(EncoderOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Encoder::~Encoder() = default;
void Encoder::encode(const Window& window, std::string& out) { impl_->encode(window, out); }

}  // namespace spanfold::profile
