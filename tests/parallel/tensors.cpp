#include "tests/parallel/tensors.h"

#include <cmath>

namespace octachoron::parity {

namespace {

struct Range {
  std::int64_t begin = 0, end = 0;
};

bool is_qkv_bias(const std::string& name) {
  return name.ends_with(".attention.qkv.bias");
}

// The key rows of a qkv bias with as many key heads as query heads; nothing of any other tensor.
Range zero_rows(const std::string& name, const Assembled& tensor) {
  if (!is_qkv_bias(name)) return {};
  const std::int64_t third = std::int64_t(tensor.values.size()) / 3;
  return {third, 2 * third};
}

// "layers.3." of "layers.3.mlp.fc1.bias"
std::string layer_prefix(const std::string& name) {
  return name.substr(0, name.find('.', 7) + 1);
}

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

}  // namespace

Tensors assemble(const std::vector<CheckpointTensor>& parts, const std::string& group, MPI_Comm comm) {
  Tensors tensors;
  for (const CheckpointTensor& part : parts) {
    if (!part.path.starts_with(group)) continue;
    const TensorLayout& layout = part.tensor.layout;
    Assembled tensor{layout.global_rows, layout.global_columns, {}};
    tensor.values.assign(std::size_t(layout.global_size()), 0.0);
    std::vector<std::uint8_t> owners(tensor.values.size(), 0);
    for (const OwnedRange& range : part.ranges)
      copy_range(part, range, tensor, tensor.values.data(), owners.data());
    const int count = int(owners.size());
    MPI_Allreduce(MPI_IN_PLACE, tensor.values.data(), count, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Allreduce(MPI_IN_PLACE, owners.data(), count, MPI_UINT8_T, MPI_SUM, comm);
    for (std::uint8_t owner : owners)
      ensure(owner == 1, part.path, " has an element with ", int(owner), " owners");
    tensors.emplace(part.path.substr(group.size()), std::move(tensor));
  }
  return tensors;
}

double norm_of(const Tensors& tensors) {
  double sum = 0;
  for (const auto& [name, tensor] : tensors)
    for (double value : tensor.values) sum += value * value;
  return std::sqrt(sum);
}

void Deviation::note(double candidate, const std::string& name) {
  if (std::isnan(value) || candidate <= value) return;  // a NaN is noted and stays
  value = candidate, tensor = name;
}

Deviation relative_deviation(const Tensors& a, const Tensors& reference) {
  Deviation worst;
  ensure(a.size() == reference.size(), a.size(), " tensors against ", reference.size());
  for (const auto& [name, tensor] : reference) {
    const Assembled& other = a.at(name);
    ensure(other.rows == tensor.rows && other.columns == tensor.columns, name, " has another shape");
    const Range left_out = zero_rows(name, tensor);
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < std::int64_t(tensor.values.size()); ++i) {
      if (left_out.begin <= i && i < left_out.end) continue;
      difference += (other.values[i] - tensor.values[i]) * (other.values[i] - tensor.values[i]);
      norm += tensor.values[i] * tensor.values[i];
    }
    worst.note(difference == 0 ? 0 : std::sqrt(difference / norm), name);
  }
  return worst;
}

Deviation zero_deviation(const Tensors& gradients) {
  Deviation worst;
  for (const auto& [name, tensor] : gradients) {
    const Range rows = zero_rows(name, tensor);
    if (rows.begin == rows.end) continue;
    double zero = 0, layer = 0;
    for (std::int64_t i = rows.begin; i < rows.end; ++i) zero += tensor.values[i] * tensor.values[i];
    for (const auto& [other, values] : gradients)
      if (other.starts_with(layer_prefix(name)))
        for (double value : values.values) layer += value * value;
    worst.note(std::sqrt(zero / layer), name);
  }
  return worst;
}

}  // namespace octachoron::parity
