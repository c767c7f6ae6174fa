#pragma once
/// Spans of a device: names for profilers, and the times of what was enqueued in them, from the records of
/// what really ran. Where nothing is recorded, stamps on either side.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "plugins/device/cuda/graphs.h"
#include "plugins/device/cuda/recorder.h"
#include "plugins/device/cuda/span_times.h"
#include "plugins/device/cuda/stamps.h"

namespace octachoron::cuda {

class Spans {
 public:
  /// \param say gets one line if times are those of stamps, and why
  Spans(Stamps& stamps, std::function<void(const std::string&)> say);
  ~Spans();
  Spans(const Spans&) = delete;

  /// \param begin, end null: a name only; \p stream may be null then
  void begin(const char* name, cudaStream_t stream, double* begin, double* end);
  /// Of the innermost span. \throws std::invalid_argument if none is open
  void end(cudaStream_t stream);
  /// Calls `launch`, which launches a graph on the stream, with times for its spans.
  /// \throws plugin::Failure(OCT_UNSUPPORTED), with nothing launched, where they cannot be had
  void launch_graph(const GraphSpans& spans, cudaStream_t stream, double* times,
                    const std::function<void()>& launch);

  struct HostFunction {
    void (*function)(void*);
    void* argument;
  };
  /// What to enqueue instead of a host function, so that it counts as work of the innermost span with times.
  HostFunction counted(HostFunction wanted);

  /// Writes the times of all spans. \pre the streams that they are on are empty
  void deliver();

 private:
  static constexpr int kSamples = 5;
  struct Place {  // of a span with times
    cudaStream_t stream;
    double *begin, *end;
  };
  struct Open {
    std::uint64_t span;  // 0: without times, or stamped
    double* stamped_end;
  };
  struct HostWork {
    HostFunction wanted;
    std::uint64_t span;
    Period when;
  };

  bool records();
  std::uint64_t add(const Place& place);
  void take_samples();
  std::vector<ClockSample> samples(const std::vector<Period>& periods, std::size_t lot) const;
  std::vector<Period> collect();
  void write(std::vector<Period> periods);
  void stop();

  Stamps& stamps_;
  std::function<void(const std::string&)> say_;
  std::string problem_;  // why nothing can be recorded
  bool recording_ = false;
  std::vector<Open> open_;
  std::vector<Place> places_;  // span n is n - 1
  Launches launches_;
  std::deque<HostWork> host_works_;
  cudaStream_t stream_ = nullptr;  // of the samples
  double* clock_ = nullptr;        // pinned: what the samples read, two lots
  std::vector<std::uint64_t> sample_spans_;
};

}  // namespace octachoron::cuda
