#pragma once
/// Which samples a data-parallel rank reads in a step, and the buffers the step is fed with.
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/sample_order.h"
#include "core/data/token_data.h"

namespace octachoron {

/// How a global batch falls apart: micro-batch m of data-parallel rank d holds, in row j, the sample at
/// position first + (m * dp + d) * micro + j. Every grid consumes the same set, so loss and gradients differ
/// by order of summation only.
struct BatchShape {
  std::int64_t global = 1, micro = 1;
  int dp = 1, rank = 0;  ///< data-parallel ranks, and which one this is

  std::int64_t micro_batches() const { return global / (micro * dp); }
  std::int64_t position(std::int64_t first, std::int64_t micro_batch, std::int64_t row) const {
    return first + (micro_batch * dp + rank) * micro + row;
  }
};

/// One rank's input of a step: row-major [micro_batches, micro, sequence].
struct RankBatch {
  std::vector<std::int32_t> ids, targets;
  std::int64_t valid_targets = 0;         ///< in `targets`
  std::int64_t global_valid_targets = 0;  ///< of the global batch, the same on all ranks
};

/// \param consumed samples consumed before this step
void training_batch(const TokenData& data, const SampleOrder& order, const BatchShape& shape,
                    std::int64_t consumed, RankBatch& out);

/// Global batches in the validation data, the short last one counted.
std::int64_t validation_batches(const TokenData& data, const BatchShape& shape);

/// Global batch `batch` of the samples in file order. A short last batch is filled up with ignored rows, a
/// short last sample with ignored targets.
void validation_batch(const TokenData& data, const BatchShape& shape, std::int64_t batch, RankBatch& out);

/// One line: tokens needed and available, passes.
/// \param consumed samples consumed before the first of the steps
/// \throws Error(data) with both numbers where `repeat` is off and the data does not suffice
std::string describe_passes(const TokenData& data, std::int64_t consumed, std::int64_t steps,
                            std::int64_t global_batch, bool repeat);

}  // namespace octachoron
