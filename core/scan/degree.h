#pragma once
/// What is seen of a run at one degree of the scanned axis: plain data, complete on rank 0 only.
#include <cstdint>
#include <string>
#include <vector>

#include "core/parallel/process_grid.h"
#include "core/trace/intervals.h"

namespace octachoron {

/// Products of one kind and shape in a step of rank 0; layers that do the same share a row.
struct GemmRow {
  std::string label, formats;        ///< "layers.*.mlp.fc1.fprop", "e4m3 x e4m3"
  std::int64_t m = 0, n = 0, k = 0;  ///< of this rank
  std::int64_t count = 0;            ///< in a step, over layers and micro-batches
  double time_ms = 0;                ///< of all of them in the step looked at
  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(count); }
};

/// Communication of one kind over the same axes in a step; means over ranks.
struct CollectiveSum {
  std::string kind, axes;  ///< "all_gather", "tp"
  double count = 0;
  double bytes = 0;  ///< of the messages of a rank, as in the timeline
  double time_ms = 0, hidden_ms = 0;
  double exposed_ms() const { return time_ms - hidden_ms; }
};

/// Where the time of a step went; means over ranks. step = gemm + other + exposed + skew + host.
struct StepSplit {
  Accounting total;
  double gemm_ms = 0;  ///< length of the union of products, part of total.compute
  double skew_ms = 0;  ///< transfers that waited for the last of their group, part of total.idle
  double other_ms() const { return total.compute - gemm_ms; }
  double host_ms() const { return total.idle - skew_ms; }  ///< and copies from and to the host
  /// Share of the communication that lies beside computation; 1 without communication.
  double overlap_ratio() const { return total.comm > 0 ? total.overlap / total.comm : 1; }
  /// Share of the step for which lanes with products waited for others.
  double wait_share() const { return total.step > 0 ? total.stall / total.step : 0; }
};

/// What computes on the most crowded node.
struct Cores {
  int of_node = 0;                     ///< 0: ranks compute on devices of their own
  int ranks_of_node = 1, threads = 1;  ///< threads of a rank
  bool shared() const { return of_node > 0 && ranks_of_node * threads > of_node; }
  /// That a rank has to itself on average; a rank with more cores than threads leaves some idle.
  double per_rank() const;
};

struct Degree {
  int degree = 1;
  ProcessGrid grid;
  Cores cores;
  std::int64_t tokens = 0;       ///< of a step, over all ranks
  std::vector<double> steps_ms;  ///< all that were looked at, in order; means over ranks
  StepSplit split;               ///< of the step with the median time; so are the rows below
  std::vector<GemmRow> gemms;    ///< in the order of the program
  std::vector<CollectiveSum> collectives;

  double step_ms() const { return split.total.step; }
  double gemm_flops() const;         ///< of rank 0 in a step
  double gemm_flops_per_ms() const;  ///< of rank 0; 0 without products
  double noise_ms() const;  ///< two standard errors of the median, from the quartiles; 2 % of a step at least
};

/// One step of one degree.
struct ObservedStep {
  StepSplit split;
  std::vector<CollectiveSum> collectives;
  std::vector<GemmRow> gemms;
};
/// All steps of one degree, as they were observed.
struct Observations {
  ProcessGrid grid;
  Cores cores;
  std::int64_t tokens = 0;  ///< as in Degree
  std::vector<ObservedStep> steps;
};
/// \pre there are steps
Degree degree_of(const Observations& seen, Axis axis);

/// Place of the median in `values`, of an even number the upper. \pre not empty
std::size_t median_place(const std::vector<double>& values);

}  // namespace octachoron
