#pragma once
/// Which part of a logical (global) tensor the local tensor of a rank is. Plain data and pure functions:
/// whoever initialises, stores or loads a tensor speaks of global elements, and the grid enters here only.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/dtype.h"

namespace octachoron {

/// Rows [local, local + rows) of the local tensor are rows [global, global + rows) of the global one.
struct RowBlock {
  std::int64_t local = 0, global = 0, rows = 0;
  bool owned = true;  ///< false: another rank holds the same rows and counts and stores them

  bool operator==(const RowBlock&) const = default;
};

/// Blocks ascend in `local` and in `global` and do not overlap; local rows outside all blocks are padding.
/// Local columns are columns [first_column, first_column + local_columns) of the global tensor. A 1-D tensor
/// (`vector`) is a matrix of one column or of one row, stored 1-D in files. A rank that holds nothing has no
/// blocks, but knows the global shape.
struct TensorLayout {
  std::int64_t global_rows = 0, global_columns = 0;
  std::int64_t local_rows = 0, local_columns = 0;
  std::int64_t first_column = 0;
  bool vector = false;
  std::vector<RowBlock> blocks;

  std::int64_t global_size() const { return global_rows * global_columns; }
  std::int64_t local_size() const { return local_rows * local_columns; }
  std::int64_t global_index(std::int64_t row, std::int64_t column) const {
    return row * global_columns + column;
  }
  bool operator==(const TensorLayout&) const = default;
};

/// A box of the global tensor whose elements, row by row, lie one after another in the local flat tensor from
/// `offset` on: it has one row or whole local rows.
struct Piece {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  std::int64_t offset = 0;
  bool owned = true;  ///< as its block

  std::int64_t size() const { return rows * columns; }
  bool operator==(const Piece&) const = default;
};

enum class Copies {
  all,   ///< every element that is not padding: initialise, load
  owned  ///< each logical element on one rank only: store, count
};

/// The local flat range [flat_begin, flat_end) as boxes: at most 3 a block (a partial row, whole rows, a
/// partial row), in local order, which is also the row-major order of the global tensor. Padding is left out.
std::vector<Piece> pieces(const TensorLayout& layout, std::int64_t flat_begin, std::int64_t flat_end,
                          Copies copies = Copies::owned);

/// The whole tensor on this rank. \param owned true on the one rank of its group that counts and stores it
TensorLayout replicated(std::int64_t rows, std::int64_t columns, bool owned = true);

/// Equal row ranges. \param padded_rows rows of all parts together, >= rows, a multiple of parts; 0: rows
TensorLayout rows_split(std::int64_t rows, std::int64_t columns, int parts, int part,
                        std::int64_t padded_rows = 0);

/// Equal column ranges; columns must be a multiple of parts.
TensorLayout columns_split(std::int64_t rows, std::int64_t columns, int parts, int part);

/// Several matrices stacked by rows, each split equally, as gate and up: the local tensor stacks the parts in
/// order. \param stacked rows of each, multiples of parts
TensorLayout stacked_rows_split(const std::vector<std::int64_t>& stacked, std::int64_t columns, int parts,
                                int part);

/// Rows q, k, v, split by heads. With kv_heads < parts each key and value head lies on parts / kv_heads
/// neighbouring parts and is owned by the lowest.
TensorLayout qkv_split(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t columns,
                       int parts, int part);

/// The same rows as a 1-D tensor; for layouts of one column (biases of row-split weights) or one row.
TensorLayout as_vector(TensorLayout layout);

/// "[768]" or "[2304, 768]": the global shape.
std::string shape_text(const TensorLayout& layout);

struct LogicalTensor {
  std::string name;  ///< contract, section 4
  TensorLayout layout;
};

/// The part of a local tensor that this rank keeps: a shard of the optimiser, a reduced gradient.
struct OwnedRange {
  int tensor = 0;  ///< index into the caller's list of LogicalTensor
  std::int64_t flat_begin = 0, flat_end = 0;
  void* data = nullptr;  ///< the element flat_begin
  DType dtype = OCT_F32;
};

}  // namespace octachoron
