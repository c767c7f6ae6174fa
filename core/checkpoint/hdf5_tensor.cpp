#include "core/checkpoint/hdf5_tensor.h"

#include "core/base/error.h"

namespace octachoron {

hid_t file_type(DType stored) {
  switch (stored) {
    case OCT_F32:
      return H5T_IEEE_F32LE;
    case OCT_U32:
      return H5T_STD_U32LE;
    case OCT_U64:
      return H5T_STD_U64LE;
    default:
      fail(ExitStatus::internal, "a checkpoint does not store ", name(stored));
  }
}

hid_t memory_type(DType stored) {
  switch (stored) {
    case OCT_F32:
      return H5T_NATIVE_FLOAT;
    case OCT_U32:
      return H5T_NATIVE_UINT32;
    case OCT_U64:
      return H5T_NATIVE_UINT64;
    default:
      fail(ExitStatus::internal, "a checkpoint does not store ", name(stored));
  }
}

Hdf5Handle global_space(const TensorLayout& layout) {
  const hsize_t matrix[2] = {hsize_t(layout.global_rows), hsize_t(layout.global_columns)};
  const hsize_t length = hsize_t(layout.global_size());
  return {layout.vector ? H5Screate_simple(1, &length, nullptr) : H5Screate_simple(2, matrix, nullptr),
          H5Sclose, "make a dataspace"};
}

void select(hid_t space, const TensorLayout& layout, const Piece& piece) {
  hsize_t start[2] = {hsize_t(piece.row), hsize_t(piece.column)};
  hsize_t size[2] = {hsize_t(piece.rows), hsize_t(piece.columns)};
  if (layout.vector) {
    start[0] = hsize_t(layout.global_index(piece.row, piece.column));
    size[0] = hsize_t(piece.size());
  }
  hdf5_check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, size, nullptr),
             "select a part of a dataset");
}

}  // namespace octachoron
