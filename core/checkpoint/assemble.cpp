#include "core/checkpoint/assemble.h"

#include <algorithm>

namespace octachoron {

namespace {

constexpr std::int64_t kBlock = std::int64_t(1) << 26;  // elements of one reduction: counts of MPI are int

template <class T>
void copy_piece(const Piece& piece, const Assembled& shape, const T* from, double* values,
                std::uint8_t* owners) {
  for (std::int64_t row = 0; row < piece.rows; ++row)
    for (std::int64_t column = 0; column < piece.columns; ++column) {
      const std::int64_t at = (piece.row + row) * shape.columns + piece.column + column;
      values[at] = double(from[row * piece.columns + column]);
      ++owners[at];
    }
}

void copy_range(const CheckpointTensor& part, const OwnedRange& range, const Assembled& shape, double* values,
                std::uint8_t* owners) {
  for (const Piece& piece : pieces(part.tensor.layout, range.flat_begin, range.flat_end)) {
    const std::int64_t offset = piece.offset - range.flat_begin;
    if (range.dtype == OCT_F64)
      copy_piece(piece, shape, static_cast<const double*>(range.data) + offset, values, owners);
    else
      copy_piece(piece, shape, static_cast<const float*>(range.data) + offset, values, owners);
  }
}

template <class T>
void sum(std::vector<T>& values, MPI_Datatype type, MPI_Comm comm) {
  for (std::int64_t at = 0; at < std::int64_t(values.size()); at += kBlock) {
    const int count = int(std::min(kBlock, std::int64_t(values.size()) - at));
    MPI_Allreduce(MPI_IN_PLACE, values.data() + at, count, type, MPI_SUM, comm);
  }
}

}  // namespace

Tensors assemble(const std::vector<CheckpointTensor>& parts, const std::string& group, MPI_Comm comm,
                 Assembly where) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  Tensors tensors;
  for (const CheckpointTensor& part : parts) {
    if (!part.path.starts_with(group)) continue;
    const TensorLayout& layout = part.tensor.layout;
    Assembled tensor{layout.global_rows, layout.global_columns, {}};
    tensor.values.assign(std::size_t(layout.global_size()), 0.0);
    std::vector<std::uint8_t> owners(tensor.values.size(), 0);
    for (const OwnedRange& range : part.ranges)
      copy_range(part, range, tensor, tensor.values.data(), owners.data());
    sum(tensor.values, MPI_DOUBLE, comm);
    sum(owners, MPI_UINT8_T, comm);
    for (std::uint8_t owner : owners)
      ensure(owner == 1, part.path, " has an element with ", int(owner), " owners");
    if (where == Assembly::on_first_rank && rank != 0) tensor.values = {};
    tensors.emplace(part.path.substr(group.size()), std::move(tensor));
  }
  return tensors;
}

}  // namespace octachoron
