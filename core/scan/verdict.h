#pragma once
/// How far splitting pays, and what of the step grew where it does not. Pure: knows no run.
#include <array>
#include <string>
#include <vector>

#include "core/scan/degree.h"

namespace octachoron {

enum class ScanReason : std::uint8_t {
  none,                   ///< every degree pays
  communication_exposed,  ///< transfers that lie beside no computation
  small_shapes,           ///< the same products are slower in smaller pieces
  same_shapes_slower,     ///< the same products are slower in the same pieces: the machine gave them less
  repeated_work,          ///< computation that is not divided among the ranks
  shared_cores,           ///< a rank has fewer cores than before
  late_ranks,             ///< ranks wait for the last of their group
  host_work               ///< the host between programs, copies
};
const char* name(ScanReason reason);

/// The terms of a step; they add up to it.
enum class StepTerm : std::uint8_t { gemm, other, exposed, skew, host };
inline constexpr int kStepTerms = 5;
const char* name(StepTerm term);
double term_ms(const StepSplit& split, StepTerm term);

struct ScanVerdict {
  std::size_t best = 0;  ///< place of the degree past which a further one does not pay
  std::size_t next = 0;  ///< the one that does not; best where every degree pays
  ScanReason reason = ScanReason::none;
  /// By StepTerm, milliseconds: what the term takes at `next` more than its fair share, that is what it took
  /// at `best` over the growth of the number of ranks. Zero where every degree pays.
  std::array<double, kStepTerms> lost_ms{};
  std::string answer;  ///< one sentence: the degree, and the two step times
  std::string why;     ///< one sentence with the numbers behind the reason; empty where every degree pays
};

/// The degree that no later one beats by more than the noise of both; the reason is the term that lost most.
/// \param axis "tp" \pre degrees ascend, and there are two at least
ScanVerdict judge_scan(const std::string& axis, const std::vector<Degree>& degrees);

}  // namespace octachoron
