#include "plugins/device/cuda/spans.h"

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/plugin/export.h"
#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/nvtx.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

constexpr int kPatience = 50;  // times a millisecond, for records of work that has ended

}  // namespace

Spans::Spans(Stamps& stamps, std::function<void(const std::string&)> say)
    : stamps_(stamps), say_(std::move(say)) {}

Spans::~Spans() {
  if (recording_) stop();
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  if (clock_ != nullptr) (void)cudaFreeHost(clock_);
}

/// Begins to record with the first span that wants times: steps without such spans cost nothing.
bool Spans::records() {
  if (recording_) return true;
  if (!problem_.empty()) return false;
  problem_ = Recorder::instance().start();
  if (!problem_.empty()) {
    say_("operations are timed by stamps on either side, which also count what they wait for (" + problem_ +
         ")");
    return false;
  }
  recording_ = true;
  take_samples();
  return true;
}

std::uint64_t Spans::add(const Place& place) {
  places_.push_back(place);
  return places_.size();
}

void Spans::begin(const char* name, cudaStream_t stream, double* begin, double* end) {
  Open open{0, nullptr};
  if (begin != nullptr && end != nullptr) {
    if (records()) {
      open.span = add({stream, begin, end});
      Recorder::instance().push(open.span);
    } else {
      stamps_.post(begin, stream);
      open.stamped_end = end;
    }
  }
  open_.push_back(open);
  push_name(name);
}

void Spans::end(cudaStream_t stream) {
  if (open_.empty()) throw std::invalid_argument("a span ends that did not begin");
  const Open open = open_.back();
  open_.pop_back();
  pop_name();
  if (open.span != 0) Recorder::instance().pop();
  if (open.stamped_end != nullptr) stamps_.post(open.stamped_end, stream);
}

void Spans::launch_graph(const GraphSpans& spans, cudaStream_t stream, double* times,
                         const std::function<void()>& launch) {
  if (spans.nodes == nullptr) return launch();  // no spans
  if (spans.nodes->empty())
    throw plugin::Failure(OCT_UNSUPPORTED, "nodes of this graph will not be known in records of what ran");
  if (!records()) throw plugin::Failure(OCT_UNSUPPORTED, problem_);
  const std::uint64_t whole = add({stream, nullptr, nullptr});
  launches_[whole] = spans.nodes;
  for (std::size_t k = 0; k < spans.streams.size(); ++k)
    add({spans.streams[k], times + 2 * k, times + 2 * k + 1});
  Recorder::instance().push(whole);
  launch();
  Recorder::instance().pop();
}

Spans::HostFunction Spans::counted(HostFunction wanted) {
  std::uint64_t span = 0;
  for (const Open& open : open_)
    if (open.span != 0) span = open.span;
  if (span == 0) return wanted;
  host_works_.push_back({wanted, span, {}});
  const auto run = [](void* argument) {
    auto& work = *static_cast<HostWork*>(argument);
    work.when.begin_ns = Recorder::instance().now_ns();
    work.wanted.function(work.wanted.argument);
    work.when.end_ns = Recorder::instance().now_ns();
  };
  return {run, &host_works_.back()};
}

/// Kernels that read the clock, on a stream of their own so as to delay nothing.
void Spans::take_samples() {
  if (stream_ == nullptr) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&clock_), 2 * kSamples * sizeof(double),
                        cudaHostAllocMapped | cudaHostAllocPortable),
          "places for readings of the clock");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  }
  for (int k = 0; k < kSamples; ++k) {
    double* place = clock_ + sample_spans_.size();
    sample_spans_.push_back(add({stream_, nullptr, nullptr}));
    Recorder::instance().push(sample_spans_.back());
    write_time(place, stream_, false);
    Recorder::instance().pop();
  }
}

std::vector<ClockSample> Spans::samples(const std::vector<Period>& periods, std::size_t lot) const {
  std::vector<ClockSample> result;
  for (std::size_t k = lot * kSamples; k < (lot + 1) * kSamples; ++k)
    if (const Period& kernel = periods[sample_spans_[k] - 1]; !kernel.empty())
      result.push_back({kernel, std::llround(clock_[k] * 1e9)});
  return result;
}

/// Records may come a little after the work has ended: until the last samples are there, which are the last
/// work.
std::vector<Period> Spans::collect() {
  Recorder& recorder = Recorder::instance();
  Records all;
  std::vector<Period> result;
  for (int trial = 0; trial <= kPatience; ++trial) {
    recorder.flush(trial == kPatience);
    Records more = recorder.take();
    all.works.insert(all.works.end(), more.works.begin(), more.works.end());
    all.links.insert(all.links.end(), more.links.begin(), more.links.end());
    result = periods(all.works, all.links, launches_, places_.size());
    if (samples(result, 1).size() == kSamples) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const HostWork& work : host_works_) result[work.span - 1].cover(work.when);
  return result;
}

void Spans::write(std::vector<Period> periods) {
  std::vector<ClockSample> early = samples(periods, 0), late = samples(periods, 1);
  if (early.empty() && late.empty()) {
    problem_ = "CUPTI handed over no records";
    say_("a step has no times (" + problem_ + "); those after it are timed by stamps");
    for (const Place& place : places_)
      if (place.begin != nullptr) *place.begin = *place.end = clock_[2 * kSamples - 1];
    return;
  }
  std::vector<const void*> lanes;
  for (const Place& place : places_) lanes.push_back(place.stream);
  fill_empty(periods, lanes);
  const ClockLine line(std::move(early), std::move(late));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].begin == nullptr) continue;
    *places_[i].begin = line.seconds(periods[i].begin_ns);
    *places_[i].end = line.seconds(periods[i].end_ns);
  }
}

void Spans::deliver() {
  if (!recording_) return;
  for (Open& open : open_) {  // left by an error: what they point to may be gone soon
    if (std::exchange(open.span, 0) != 0) Recorder::instance().pop();
  }
  try {
    take_samples();
    check(cudaStreamSynchronize(stream_), "reading the clock");
    write(collect());
  } catch (...) {
    stop();
    throw;
  }
  stop();
}

void Spans::stop() {
  Recorder::instance().stop();
  recording_ = false;
  places_.clear();
  launches_.clear();
  sample_spans_.clear();
  host_works_.clear();
}

}  // namespace octachoron::cuda
