#pragma once
/// Timelines with times that a test chose.
#include <string>
#include <vector>

#include "core/trace/reasons.h"

namespace octachoron::trace_test {

using Times = std::vector<Span>;  ///< milliseconds, one an operation in program order

/// Lanes compute, tp and dp on a grid of dp = 2, tp = 2; this is rank 0.
class Step {
 public:
  explicit Step(StepProgram program);
  Step(const Step&) = delete;  // the expansion refers to the program

  /// Peers start everything as this rank does, unless `peers` says otherwise for a rank.
  Timeline timeline(const Times& times, const std::vector<std::pair<int, Times>>& peers = {},
                    NetworkFacts network = {}, double step_ms = 100) const;
  int issue(const std::string& label) const;

  StepProgram program;
  Expansion expansion;
};

enum class Pattern { independent, wait_at_once, dependent };
/// Operations in program order: "first" (gemm), "gather" (all_gather over tp), then "free" (gemm), "consumer"
/// (gemm); with wait_at_once the consumer comes before. "free" reads the gathered rows where it is dependent.
StepProgram pattern(Pattern pattern);

const Verdict& verdict_of(const Step& step, const std::vector<Verdict>& verdicts, const std::string& label);

}  // namespace octachoron::trace_test
