#pragma once
/// From records of what ran to the times of spans. Pure: knows no CUDA.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace octachoron::cuda {

/// Nanoseconds of the recorder's clock.
struct Period {
  std::int64_t begin_ns = 0, end_ns = 0;
  bool empty() const { return end_ns == 0; }
  /// Grows to cover both.
  void cover(const Period& other);
};

/// A kernel, copy or fill, and the call that put it on its stream. A copy may be known by the number of a
/// call of the runtime alone. 0: there is none.
struct Work {
  std::uint32_t call = 0, runtime_call = 0;
  std::uint64_t node = 0;  ///< of the graph that was launched
  Period when;
};

/// A call was made within a span; spans count from 1.
struct Link {
  std::uint32_t call = 0;
  std::uint64_t span = 0;
};

/// For each node of a graph that was captured within a span: which of the graph's spans, from 0.
using NodeSpans = std::unordered_map<std::uint64_t, std::size_t>;
/// By the span of a launch, whose graph's own spans are those that follow it.
using Launches = std::unordered_map<std::uint64_t, std::shared_ptr<const NodeSpans>>;

/// From the first begin to the last end of the work of each of `spans` spans; empty for those without.
/// Records come in any order, links also after the work they are about.
std::vector<Period> periods(std::span<const Work> works, std::span<const Link> links,
                            const Launches& launches, std::size_t spans);

/// Gives empty periods the end of their lane's period before (the first begin of the lane, or of all, where
/// there is none). \param lanes one a period, in the order in which the spans began
void fill_empty(std::vector<Period>& periods, std::span<const void* const> lanes);

/// The device's clock, read while a kernel ran that the recorder saw.
struct ClockSample {
  Period kernel;
  std::int64_t device_ns = 0;
};

/// From the recorder's clock to the device's. They drift, so samples are taken before and after: what one is
/// ahead of the other is the median of each lot, and a straight line between.
class ClockLine {
 public:
  /// \pre a sample at least, in either lot
  ClockLine(std::vector<ClockSample> early, std::vector<ClockSample> late);
  double seconds(std::int64_t recorder_ns) const;

 private:
  struct Anchor {
    std::int64_t at_ns = 0, ahead_ns = 0;
  };
  static Anchor anchor(std::vector<ClockSample> samples);

  Anchor early_, late_;
};

}  // namespace octachoron::cuda
