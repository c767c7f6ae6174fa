#pragma once
/// From an observed step to its timeline on all ranks, its means and its files. Everything here is
/// collective.
#include <functional>

#include "core/parallel/world.h"
#include "core/engine/backend.h"
#include "core/trace/timeline.h"

namespace octachoron {

/// What of a run's plugins matters to a timeline.
NetworkFacts network_facts(Backend& backend);

class StepTracer {
 public:
  /// \param clock reads the device's clock now, in seconds; used where ranks are on several nodes
  StepTracer(const World& world, const ProcessGrid& grid, NetworkFacts network,
             std::function<double()> clock);

  /// \param records of run_observed() \param step_s length of the step on this rank, with what the executor
  /// spent on observing, which is taken off. The executor must outlive the result
  Timeline timeline(const Executor& executor, std::span<const OperationRecord> records, double step_s) const;

  /// Means over ranks, in which the identities of Accounting hold as well.
  Accounting mean(const Timeline& timeline) const;

  struct Written {
    std::string path, text;  ///< on rank 0: the file, and the table of rank 0
    std::string problem;     ///< on rank 0: why there is no file; empty if there is one
  };
  /// All ranks in `<folder>/step-<step>.json`, made if absent, written by rank 0.
  Written write(const std::string& folder, std::int64_t step, const Timeline& timeline) const;

 private:
  const World& world_;
  ProcessGrid grid_;
  NetworkFacts network_;
  std::vector<std::string> hosts_;
  std::function<double()> clock_;
};

}  // namespace octachoron
