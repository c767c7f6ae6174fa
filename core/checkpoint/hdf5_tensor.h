#pragma once
/// Global tensors as HDF5 sees them: types, dataspaces, boxes.
#include <cstddef>

#include "core/numerics/tensor_layout.h"
#include "core/storage/hdf5_handle.h"

namespace octachoron {

hid_t file_type(DType stored);    ///< type in the file: little-endian F32, U32, U64
hid_t memory_type(DType stored);  ///< type in memory

/// Dataspace of the global tensor: 1-D for vectors, else 2-D.
Hdf5Handle global_space(const TensorLayout& layout);
/// Selects a box in the dataspace of the global tensor.
void select(hid_t space, const TensorLayout& layout, const Piece& piece);

}  // namespace octachoron
