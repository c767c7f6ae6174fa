#include <algorithm>
#include <cstring>

#include "core/checkpoint/hdf5_tensor.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/stage.h"

namespace octachoron {
namespace {

// The same shape in a file: vectors of one row and of one column are the same.
bool same_shape(const TensorLayout& a, const TensorLayout& b) {
  if (a.vector || b.vector) return a.vector == b.vector && a.global_size() == b.global_size();
  return a.global_rows == b.global_rows && a.global_columns == b.global_columns;
}

// Parts of at most kPartElements elements, or single rows.
std::vector<Piece> parts(const Piece& piece) {
  std::vector<Piece> out;
  const std::int64_t rows =
      std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, piece.columns));
  for (std::int64_t row = 0; row < piece.rows; row += rows) {
    out.push_back(piece);
    out.back().row += row;
    out.back().rows = std::min(rows, piece.rows - row);
    out.back().offset += row * piece.columns;
  }
  return out;
}

void read_piece(hid_t dataset, const TensorLayout& layout, const Piece& piece, DType stored, void* out) {
  const Hdf5Handle space = global_space(layout);
  select(space, layout, piece);
  const hsize_t count = hsize_t(piece.size());
  const Hdf5Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose, "make a dataspace");
  hdf5_check(H5Dread(dataset, memory_type(stored), memory, space, H5P_DEFAULT, out), "read a dataset");
}

void deliver(const std::byte* from, DType stored, std::int64_t count, std::byte* to, DType type) {
  if (type == stored) {
    std::memcpy(to, from, std::size_t(count * size_of(stored)));
    return;
  }
  const auto* narrow = reinterpret_cast<const float*>(from);
  std::copy(narrow, narrow + count, reinterpret_cast<double*>(to));
}

}  // namespace

std::vector<Piece> blocks(const StoredTensor& tensor) {
  return parts({.row = 0,
                .column = 0,
                .rows = tensor.layout.global_rows,
                .columns = tensor.layout.global_columns,
                .offset = 0,
                .owned = true});
}

std::uint64_t CheckpointFile::read(const CheckpointTensor& tensor) const {
  const QuietHdf5 quiet;
  const TensorLayout& layout = tensor.tensor.layout;
  const StoredTensor* stored = find(tensor.path);
  if (!stored)
    fail(ExitStatus::data, "the checkpoint '", path_, "' has no ", tensor.path,
         " (it is of another model or recipe); use the parameters it was written with");
  if (!same_shape(stored->layout, layout))
    fail(ExitStatus::data, "the checkpoint '", path_, "' has another shape of ", tensor.path, " (",
         shape_text(stored->layout), " in the file, ", shape_text(layout),
         " in this run); use the parameters it was written with");
  if (stored->stored != tensor.stored)
    fail(ExitStatus::data, "the checkpoint '", path_, "' has another type of ", tensor.path, " (",
         name(stored->stored), " in the file, ", name(tensor.stored),
         " in this run); use the version that wrote it");
  cut(tensor, kPartElements);  // refuses wrong ranges and types
  const Hdf5Handle dataset(H5Dopen2(handle_, tensor.path.c_str(), H5P_DEFAULT), H5Dclose,
                           "open " + tensor.path);
  std::vector<std::byte> buffer;
  std::uint64_t sum = 0;
  for (const OwnedRange& range : tensor.ranges)
    for (const Piece& whole : pieces(layout, range.flat_begin, range.flat_end, Copies::all))
      for (const Piece& piece : parts(whole)) {
        buffer.resize(std::size_t(piece.size() * size_of(tensor.stored)));
        read_piece(dataset, layout, piece, tensor.stored, buffer.data());
        if (piece.owned) sum += checksum_of(tensor.stored, layout, piece, buffer.data());
        deliver(buffer.data(), tensor.stored, piece.size(),
                element(range.data, range.dtype, piece.offset - range.flat_begin), range.dtype);
      }
  return sum;
}

void CheckpointFile::read_block(const StoredTensor& tensor, const Piece& block, void* out) const {
  const QuietHdf5 quiet;
  const Hdf5Handle dataset(H5Dopen2(handle_, tensor.path.c_str(), H5P_DEFAULT), H5Dclose,
                           "open " + tensor.path);
  read_piece(dataset, tensor.layout, block, tensor.stored, out);
}

void CheckpointFile::verify(const StoredTensor& tensor) const {
  std::vector<std::byte> buffer;
  std::uint64_t sum = 0;
  for (const Piece& block : blocks(tensor)) {
    buffer.resize(std::size_t(block.size() * size_of(tensor.stored)));
    read_block(tensor, block, buffer.data());
    sum += checksum_of(tensor.stored, tensor.layout, block, buffer.data());
  }
  if (sum != tensor.checksum) refuse_checksum(path_, tensor.path);
}

}  // namespace octachoron
