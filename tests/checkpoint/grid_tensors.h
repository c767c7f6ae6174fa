#pragma once
/// A small set of tensors split over tp x shards ranks, as a model with a sharded optimiser holds them.
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/checked.h"
#include "core/checkpoint/checkpoint.h"
#include "core/numerics/checksum.h"
#include "core/numerics/random.h"

namespace octachoron {

/// The value of one global element; any bits but NaN.
inline float value_of(const std::string& path, std::int64_t index) {
  return float(normal(4, hash64(path), index)) * (index % 3 == 0 ? 1e-20f : 1e3f);
}

/// All layouts of the set on tensor-parallel rank `part` of `parts`.
inline std::vector<LogicalTensor> layouts(int parts, int part) {
  return {{"embedding.token.weight", rows_split(13, 6, parts, part, round_up(13, parts))},
          {"layers.0.attention.qkv.weight", qkv_split(12, 12, 2, 6, parts, part)},
          {"layers.0.attention.qkv.bias", as_vector(qkv_split(12, 12, 2, 1, parts, part))},
          {"layers.0.attention.out.weight", columns_split(6, 24, parts, part)},
          {"layers.1.attention.qkv.weight", qkv_split(12, 1, 2, 6, parts, part)},
          {"layers.1.mlp.gate_up.weight", stacked_rows_split({24, 24}, 6, parts, part)},
          {"norm.weight", as_vector(replicated(1, 6, part == 0))}};
}

/// One rank's shards: tp fastest, then shards, as equal flat ranges of each local tensor (the last ones short
/// or empty).
struct GridTensors {
  std::vector<LogicalTensor> logical;
  std::vector<std::vector<double>> storage;  ///< room for F32 or F64
  std::vector<CheckpointTensor> tensors;

  GridTensors(int rank, int ranks, int tp, DType dtype, const std::string& group = "/master/") {
    const int shards = ranks / tp, shard = rank / tp;
    logical = layouts(tp, rank % tp);
    storage.resize(logical.size());
    for (std::size_t t = 0; t < logical.size(); ++t) {
      const std::int64_t size = logical[t].layout.local_size(), length = ceil_div(size, shards);
      const std::int64_t begin = std::min(size, shard * length), end = std::min(size, begin + length);
      storage[t].assign(std::size_t(end - begin + 1), -77.0);
      CheckpointTensor tensor{.path = group + logical[t].name, .tensor = logical[t], .ranges = {}};
      tensor.ranges.push_back({int(t), begin, end, storage[t].data(), dtype});
      tensors.push_back(tensor);
    }
  }
  GridTensors(const GridTensors&) = delete;

  /// Calls visit(path, global index, dtype, address) for every element held, replicas too.
  void each(const std::function<void(const std::string&, std::int64_t, DType, void*)>& visit) const {
    for (const CheckpointTensor& tensor : tensors)
      for (const OwnedRange& range : tensor.ranges)
        for (const Piece& piece : pieces(tensor.tensor.layout, range.flat_begin, range.flat_end, Copies::all))
          for (std::int64_t i = 0; i < piece.size(); ++i)
            visit(tensor.path,
                  tensor.tensor.layout.global_index(piece.row + i / piece.columns,
                                                    piece.column + i % piece.columns),
                  range.dtype,
                  static_cast<char*>(range.data) +
                      (piece.offset + i - range.flat_begin) * size_of(range.dtype));
  }

  void fill() const {
    each([](const std::string& path, std::int64_t index, DType dtype, void* at) {
      if (dtype == OCT_F32) *static_cast<float*>(at) = value_of(path, index);
      if (dtype == OCT_F64) *static_cast<double*>(at) = value_of(path, index);
    });
  }

  /// Elements that are not bit by bit what they should be.
  std::int64_t wrong() const {
    std::int64_t count = 0;
    each([&](const std::string& path, std::int64_t index, DType dtype, void* at) {
      const double value = dtype == OCT_F32 ? double(*static_cast<float*>(at)) : *static_cast<double*>(at);
      count +=
          std::bit_cast<std::uint64_t>(value) != std::bit_cast<std::uint64_t>(double(value_of(path, index)));
    });
    return count;
  }
};

inline CheckpointHeader header_of(std::int64_t step, const std::string& run_id = "run-1") {
  return {.step = step,
          .samples = step * 8,
          .tokens = step * 8 * 128,
          .skipped = 1,
          .seed = ~0ull - 3,
          .run_id = run_id,
          .parameters = "[run]\nsteps = 100\n",
          .versions = "octachoron 0.1.0"};
}

}  // namespace octachoron
