// SPDX-License-Identifier: Apache-2.0
// Stays of one thread, told step by step: what is called exact, what is called gone, and what is not.
#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

#include "tests/bpf/steps.hpp"

using bodytest::Sizes;
using bodytest::Stay;
using bodytest::Steps;

namespace {

constexpr std::uint64_t kThread = 1ULL << 32 | 1;
constexpr std::uint64_t kStart = 7;
constexpr std::uint32_t kExact = SF_STAY_BEGIN_SEEN | SF_STAY_END_SEEN;
constexpr sf_span kNone{};
constexpr sf_span kParent{.trace_id = {1, 1}, .span_id = 1};
constexpr sf_span kChild{.trace_id = {1, 1}, .span_id = 2};
constexpr sf_span kOther{.trace_id = {2, 1}, .span_id = 3};

// A thread whose life is told in the order of the calls.
class Life {
 public:
  explicit Life(Sizes sizes = {.buckets = 1, .span_times = true}) : bpf_(sizes) {}

  Life& hook(std::uint64_t now_ns, const sf_span& span) { return step(STEP_HOOK, now_ns, span); }
  Life& map(std::uint64_t now_ns, const sf_span& span) { return step(STEP_MAP, now_ns, span); }
  Life& set(std::uint64_t now_ns, const sf_span& span) { return hook(now_ns, span).map(now_ns, span); }
  Life& set_by_other(std::uint64_t now_ns, const sf_span& span) {
    return step(STEP_NOTE, now_ns, span).map(now_ns, span);
  }
  Life& sample(std::uint64_t now_ns, std::uint64_t stack = 5) {
    stack_ = stack;
    return step(STEP_SAMPLE, now_ns, kNone);
  }
  // A tick that hits the thread in the kernel, where it also is between a hook and its change.
  Life& sample_in_kernel(std::uint64_t now_ns) {
    in_kernel_ = 1;
    step(STEP_SAMPLE, now_ns, kNone);
    in_kernel_ = 0;
    return *this;
  }
  Life& sweep(std::uint64_t now_ns) { return step(STEP_SWEEP, now_ns, kNone); }
  Life& exit(std::uint64_t now_ns) { return step(STEP_EXIT, now_ns, kNone); }
  Life& flush(std::uint64_t now_ns) {
    ++epoch_;
    return sweep(now_ns);
  }
  Life& switched() {
    ++switches_;
    return *this;
  }

  // All that was told of the span until here.
  std::vector<Stay> stays(const sf_span& span) {
    bpf_.drain();
    std::vector<Stay> all;
    for (const auto& [whose, list] : bpf_.told.stays) {
      if (whose.span == span.span_id) all.insert(all.end(), list.begin(), list.end());
    }
    return all;
  }
  [[nodiscard]] std::uint64_t count(sf_count what) { return bpf_.counters().count[what]; }
  [[nodiscard]] std::uint32_t records() const { return bpf_.records_in_use(); }
  // Other threads of the bucket, each in as many spans.
  Life& crowd(std::uint64_t now_ns, std::initializer_list<int> spans_of_each) {
    std::uint64_t thread = 100;
    for (const int spans : spans_of_each) {
      ++thread;
      thread_ = thread << 32 | thread;
      for (int span = 1; span <= spans; ++span) {
        set(now_ns++, {.trace_id = {thread, 1}, .span_id = thread * 10 + static_cast<std::uint64_t>(span)});
      }
    }
    thread_ = kThread;
    return *this;
  }

 private:
  Life& step(sf_step_op op, std::uint64_t now_ns, const sf_span& span) {
    std::vector<sf_step> steps{{.pid_tgid = thread_,
                                .now_ns = now_ns,
                                .stack_id = stack_,
                                .process = {.start_ns = kStart, .tgid = 1, .exec_id = 1},
                                .span = span,
                                .op = static_cast<std::uint32_t>(op),
                                .epoch = epoch_,
                                .switches = switches_,
                                .places = bpf_.places(),
                                .in_kernel = in_kernel_}};
    bpf_.run(steps);
    return *this;
  }

  Steps bpf_;
  std::uint64_t thread_ = kThread;
  std::uint64_t stack_ = 0;
  std::uint32_t epoch_ = 0;
  std::uint32_t switches_ = 0;
  std::uint32_t in_kernel_ = 0;
};

using Stays = std::vector<Stay>;

}  // namespace

TEST_CASE("a span that hooks see come and go is exact to the nanosecond") {
  Life life;
  life.set(1000, kParent).sample(1500).set(2000, kNone).set(3000, kOther);
  CHECK(life.stays(kParent) == Stays{{1000, 2000, 1000, kExact | SF_STAY_GONE}});
  CHECK(life.count(SF_COUNT_UNSEEN_ENDS) == 0);
}

TEST_CASE("a covered parent does not count, and what covered it is gone when it comes back") {
  Life life;
  life.set(1000, kParent).set(2000, kChild).set(5000, kParent).set(6000, kNone).exit(7000);
  CHECK(life.stays(kParent) == Stays{{1000, 6000, 2000, kExact | SF_STAY_GONE}});
  CHECK(life.stays(kChild) == Stays{{2000, 5000, 3000, kExact | SF_STAY_GONE}});
}

TEST_CASE("stays as far apart as the linger time are two, closer ones are one") {
  for (const std::uint64_t gap_ns : {SF_LINGER_NS - 1, SF_LINGER_NS}) {
    Life life;
    life.set(1000, kParent).set(2000, kNone).set(2000 + gap_ns, kParent).set(3000 + gap_ns, kNone).exit(900'000);
    CHECK(life.stays(kParent).size() == (gap_ns < SF_LINGER_NS ? 1 : 2));
  }
}

TEST_CASE("the gap between stays ends where another thread's note says, not at the sample that finds out") {
  Life life;
  life.set(1000, kParent)
      .set(2000, kNone)
      .set_by_other(5000, kParent)
      .sample(200'000)
      .set(300'000, kNone)
      .exit(900'000);
  CHECK(life.stays(kParent) == Stays{{1000, 300'000, 1000 + 295'000, kExact | SF_STAY_GONE}});
}

TEST_CASE("a flush cuts a stay, and only its first piece has a begin") {
  Life life;
  life.set(1000, kParent).flush(100'000).set(200'000, kNone).exit(300'000);
  CHECK(life.stays(kParent) == Stays{{1000, 100'000, 99'000, SF_STAY_BEGIN_SEEN},
                                     {100'000, 200'000, 100'000, SF_STAY_END_SEEN | SF_STAY_GONE}});
}

TEST_CASE("a record that rolls cuts the stay at the sample that did not fit") {
  Life life({.buckets = 1, .tables = 0, .span_times = true});
  life.set(1000, kParent);
  for (std::uint64_t stack = 0; stack <= SF_INLINE_SLOTS; ++stack) life.sample(2000 + stack, 1 + stack);
  CHECK(life.stays(kParent) == Stays{{1000, 2000 + SF_INLINE_SLOTS, 1000 + SF_INLINE_SLOTS, SF_STAY_BEGIN_SEEN}});
  life.set(9000, kNone).exit(900'000);
  CHECK(life.stays(kParent).size() == 2);
  CHECK(life.stays(kParent)[1] ==
        Stay{2000 + SF_INLINE_SLOTS, 9000, 7000 - SF_INLINE_SLOTS, SF_STAY_END_SEEN | SF_STAY_GONE});
}

TEST_CASE("a sample corrects what no hook has just done, also right after a flush") {
  Life life;
  life.set(1000, kParent).flush(100'000).map(100'500, kOther).sample(101'000).set(102'000, kNone).exit(300'000);
  CHECK(life.stays(kOther) == Stays{{101'000, 102'000, 1000, SF_STAY_END_SEEN | SF_STAY_GONE}});
}

TEST_CASE("a sample in the kernel does not correct a hook whose change is to come, however late that is") {
  Life life;
  life.set(1000, kParent).hook(200'000, kChild).sample_in_kernel(90'000'000).map(90'000'100, kChild);
  life.set(95'000'000, kNone).exit(96'000'000);
  CHECK(life.stays(kParent) == Stays{{1000, 200'000, 199'000, kExact | SF_STAY_GONE}});
  CHECK(life.stays(kChild) == Stays{{200'000, 95'000'000, 94'800'000, kExact | SF_STAY_GONE}});
}

TEST_CASE("a sample outside the kernel corrects a hook whose change failed at once, one in the kernel after a second") {
  Life life;
  life.set(1000, kParent).hook(200'000, kChild).sample(200'500).set(300'000, kNone).exit(400'000);
  CHECK(life.stays(kParent) == Stays{{1000, 300'000, 199'000 + 99'500, kExact | SF_STAY_GONE}});
  CHECK(life.stays(kChild) == Stays{{200'000, 200'001, 1, SF_STAY_BEGIN_SEEN | SF_STAY_GONE}});
  Life late;
  late.set(1000, kParent).hook(2000, kChild).sample_in_kernel(1'000'001'999).set(1'500'000'000, kNone);
  CHECK(late.exit(1'600'000'000).stays(kParent).back().on_thread_ns == 1);
  Life later;
  later.set(1000, kParent).hook(2000, kChild).sample_in_kernel(1'000'002'000).set(1'500'000'000, kNone);
  CHECK(later.exit(1'600'000'000).stays(kParent).back().on_thread_ns == 499'998'000);
}

TEST_CASE("a hook that finds its span in the map has not seen it come") {
  Life life;
  life.map(1000, kParent).set(5000, kParent).set(6000, kNone).exit(900'000);
  CHECK(life.stays(kParent) == Stays{{4999, 6000, 1001, SF_STAY_END_SEEN | SF_STAY_GONE}});
}

TEST_CASE("what a hook has just begun anew is believed, whoever saw the stay begin first") {
  Life cut;
  cut.set(1000, kParent).flush(100'000).set(150'000, kNone);
  cut.hook(200'000, kParent).sweep(200'100).map(200'200, kParent).set(300'000, kNone).exit(900'000);
  CHECK(cut.stays(kParent) == Stays{{1000, 100'000, 99'000, SF_STAY_BEGIN_SEEN},
                                    {100'000, 300'000, 150'000, SF_STAY_END_SEEN | SF_STAY_GONE}});
  Life missed;
  missed.map(1000, kParent).sample(2000).set(3000, kNone);
  missed.hook(60'000, kParent).sample_in_kernel(60'100).map(60'200, kParent).set(70'000, kNone).exit(900'000);
  CHECK(missed.stays(kParent) == Stays{{2000, 70'000, 11'000, SF_STAY_END_SEEN | SF_STAY_GONE}});
}

TEST_CASE("what a hook has just begun is believed, also when a flush comes in between") {
  Life life;
  life.hook(1000, kParent).flush(1100).sweep(1200).map(1300, kParent).set(70'000, kNone).exit(900'000);
  CHECK(life.stays(kParent) ==
        Stays{{1000, 1001, 1, SF_STAY_BEGIN_SEEN}, {1001, 70'000, 68'999, SF_STAY_END_SEEN | SF_STAY_GONE}});
}

TEST_CASE("another thread's note tells when a stay ended") {
  Life life;
  life.set(1000, kParent).set_by_other(5000, kNone).sample(100'000).exit(300'000);
  CHECK(life.stays(kParent) == Stays{{1000, 5000, 4000, kExact | SF_STAY_GONE}});
}

TEST_CASE("a note that tells of a span's begin does not end it") {
  Life life;
  life.set_by_other(1000, kParent).sample(60'000).map(100'000, kNone).sample(200'000).exit(300'000);
  CHECK(life.stays(kParent) == Stays{{1000, 60'000, 59'000, SF_STAY_BEGIN_SEEN | SF_STAY_GONE}});
  CHECK(life.count(SF_COUNT_UNSEEN_ENDS) == 1);
}

TEST_CASE("a note over another span than the known one tells of no end of that") {
  Life life;
  life.set(1000, kParent).map(100'000, kOther).set_by_other(200'000, kNone).sample(300'000).exit(400'000);
  CHECK(life.stays(kParent) == Stays{{1000, 1001, 1, SF_STAY_BEGIN_SEEN | SF_STAY_GONE}});
}

TEST_CASE("a note is no news after the thread's next event") {
  Life life;
  life.set_by_other(1000, kParent).sample(60'000).set(100'000, kNone).sweep(300'000);
  life.map(400'000, kParent).sample(500'000).exit(600'000);
  CHECK(life.stays(kParent) == Stays{{1000, 100'000, 99'000, kExact | SF_STAY_GONE},
                                     {500'000, 600'000, 100'000, SF_STAY_END_SEEN | SF_STAY_GONE}});
}

TEST_CASE("a note that a sample has overtaken still tells the end") {
  Life life;
  life.set(1000, kParent).sample(100'000);
  life.set_by_other(200'000, kNone);
  life.map(200'001, kParent).sample(200'010).map(200'020, kNone).sample(400'000).exit(500'000);
  CHECK(life.stays(kParent) == Stays{{1000, 200'000, 199'000, kExact | SF_STAY_GONE}});
}

TEST_CASE("an exit ends exactly what the map still shows, and nothing else") {
  Life life;
  life.set(1000, kParent).exit(5000);
  CHECK(life.stays(kParent) == Stays{{1000, 5000, 4000, kExact | SF_STAY_GONE}});
  Life missed;
  missed.set(1000, kParent).sample(2000).map(3000, kNone).exit(100'000);
  CHECK(missed.stays(kParent) == Stays{{1000, 2000, 1000, SF_STAY_BEGIN_SEEN | SF_STAY_GONE}});
  CHECK(missed.count(SF_COUNT_UNSEEN_ENDS) == 1);
}

TEST_CASE("the sweep that finds a span covered by a nested one does not call it gone") {
  Life life;
  life.set(1000, kParent).sweep(100'000).map(150'000, kChild).sweep(200'000);
  CHECK(life.stays(kParent).empty());
  life.set(210'000, kParent).set(220'000, kNone).exit(900'000);
  CHECK(life.stays(kParent) ==
        Stays{{1000, 100'000, 99'000, SF_STAY_BEGIN_SEEN}, {210'000, 220'000, 10'000, kExact | SF_STAY_GONE}});
}

TEST_CASE("a change that hooks missed shows at the next one, and is marked where the thread left its CPU") {
  Life life;
  life.set(1000, kParent).switched().map(5000, kChild).set(6000, kParent).set(7000, kNone).exit(900'000);
  CHECK(life.stays(kParent) == Stays{{1000, 7000, 1 + 1000, kExact | SF_STAY_GONE | SF_STAY_SWITCHED}});
  CHECK(life.stays(kChild) == Stays{{5999, 6000, 1, SF_STAY_END_SEEN | SF_STAY_GONE}});
}

TEST_CASE("a parent whose way back was missed was there until the hook that takes it away") {
  Life life;
  life.set(1000, kParent).set(2000, kChild).switched().map(5000, kParent).set(8000, kNone).exit(900'000);
  CHECK(life.stays(kParent) == Stays{{1000, 8000, 1000 + 1, kExact | SF_STAY_GONE}});
  CHECK(life.stays(kChild) == Stays{{2000, 2001, 1, SF_STAY_BEGIN_SEEN | SF_STAY_GONE | SF_STAY_SWITCHED}});
}

TEST_CASE("a parent of which a sample or the sweep finds that it is gone has no known end") {
  for (const bool by_sample : {true, false}) {
    Life life;
    life.set(1000, kParent).set(2000, kChild).map(5000, kNone);
    if (by_sample) life.sample(2'000'000'000);
    life.sweep(2'100'000'000).exit(2'200'000'000);
    CHECK(life.stays(kParent) == Stays{{1000, 2000, 1000, SF_STAY_BEGIN_SEEN | SF_STAY_GONE}});
  }
}

TEST_CASE("the sweep undoes no hook for a second, and takes a span that came back unseen for no end") {
  Life life;
  life.set(1000, kParent).hook(200'000, kOther).sweep(900'000'000).map(900'000'100, kOther);
  life.set(950'000'000, kNone).exit(960'000'000);
  CHECK(life.stays(kOther) == Stays{{200'000, 950'000'000, 949'800'000, kExact | SF_STAY_GONE}});
  Life back;
  back.set(1000, kParent).set(2000, kNone).map(3000, kParent).sweep(500'000'000);
  CHECK(back.stays(kParent).empty());
  back.sweep(1'500'000'000);
  CHECK(back.stays(kParent) == Stays{{1000, 2000, 1000, SF_STAY_BEGIN_SEEN | SF_STAY_GONE}});
}

TEST_CASE("what another thread set is known to the hook that takes it away") {
  Life life;
  life.set_by_other(1000, kParent).set(5000, kNone).exit(900'000);
  CHECK(life.stays(kParent) == Stays{{1000, 5000, 4000, kExact | SF_STAY_GONE}});
  Life exits;
  exits.set_by_other(1000, kParent).exit(5000);
  CHECK(exits.stays(kParent) == Stays{{1000, 5000, 4000, kExact | SF_STAY_GONE}});
}

TEST_CASE("a suspended span keeps its record, however many nested ones follow one another") {
  Life life;
  life.set(2000, kParent).set(3000, kChild);
  for (std::uint64_t call = 0; call < 10; ++call) {
    life.set(10'000 + call * 20, {.trace_id = {1, 1}, .span_id = 10 + call}).set(10'010 + call * 20, kChild);
  }
  CHECK(life.stays(kParent).empty());
  life.set(20'000, kParent).set(30'000, kNone).exit(900'000);
  CHECK(life.stays(kParent) == Stays{{2000, 30'000, 11'000, kExact | SF_STAY_GONE}});
}

TEST_CASE("a thread's own record that has left makes room in a full bucket") {
  Life life;
  // With the parent and the child that has left, the bucket is full.
  life.crowd(1000, {4, 2}).set(2000, kParent).set(3000, kChild).set(4000, kParent);
  REQUIRE(life.records() == 8);
  life.set(5000, {.trace_id = {1, 1}, .span_id = 9});
  CHECK(life.count(SF_COUNT_STAY_CROWD) == 0);
  CHECK(life.stays(kChild) == Stays{{3000, 4000, 1000, kExact | SF_STAY_GONE}});
}

TEST_CASE("work outside spans is closed with its thread") {
  Life life({.buckets = 1, .background_stacks = true});
  life.sample(1000).exit(2000);
  CHECK(life.records() == 0);
}
