#include "core/checkpoint/stage.h"

#include <algorithm>
#include <cstring>

#include "core/numerics/checksum.h"

namespace octachoron {
namespace {

bool storable(DType from, DType stored) {
  return from == stored || (from == OCT_F64 && stored == OCT_F32);
}

void convert(const std::byte* from, DType from_type, std::int64_t count, std::byte* to, DType stored) {
  if (from_type == stored) {
    std::memcpy(to, from, std::size_t(count * size_of(stored)));
    return;
  }
  const auto* wide = reinterpret_cast<const double*>(from);
  std::transform(wide, wide + count, reinterpret_cast<float*>(to), [](double value) { return float(value); });
}

}  // namespace

std::vector<OwnedRange> cut(const CheckpointTensor& tensor, std::int64_t limit) {
  std::vector<OwnedRange> out;
  std::int64_t past = 0;
  for (const OwnedRange& range : tensor.ranges) {
    ensure(range.flat_begin >= past && range.flat_begin <= range.flat_end, "the ranges of ", tensor.path,
           " do not ascend");
    ensure(storable(range.dtype, tensor.stored), "a range of ", tensor.path, " is ", name(range.dtype),
           " and cannot be stored as ", name(tensor.stored));
    past = range.flat_end;
    for (std::int64_t begin = range.flat_begin; begin < range.flat_end; begin += limit) {
      OwnedRange part = range;
      part.flat_begin = begin;
      part.flat_end = std::min(range.flat_end, begin + limit);
      part.data = element(range.data, range.dtype, begin - range.flat_begin);
      out.push_back(part);
    }
  }
  return out;
}

StagedPart stage(const CheckpointTensor& tensor, const OwnedRange& range) {
  StagedPart part;
  part.pieces = pieces(tensor.tensor.layout, range.flat_begin, range.flat_end);
  for (const Piece& piece : part.pieces) part.count += piece.size();
  part.values.resize(std::size_t(part.count * size_of(tensor.stored)));
  std::byte* to = part.values.data();
  for (const Piece& piece : part.pieces) {
    convert(element(range.data, range.dtype, piece.offset - range.flat_begin), range.dtype, piece.size(), to,
            tensor.stored);
    part.checksum += checksum_of(tensor.stored, tensor.tensor.layout, piece, to);
    to += piece.size() * size_of(tensor.stored);
  }
  return part;
}

std::uint64_t checksum_of(DType stored, const TensorLayout& layout, const Piece& piece, const void* values) {
  switch (stored) {
    case OCT_F32:
      return checksum(layout, piece, static_cast<const float*>(values));
    case OCT_U32:
      return checksum(layout, piece, static_cast<const std::uint32_t*>(values));
    case OCT_U64:
      return checksum(layout, piece, static_cast<const std::uint64_t*>(values));
    default:
      fail(ExitStatus::internal, "a checkpoint does not store ", name(stored));
  }
}

std::int64_t owned_elements(const CheckpointTensor& tensor) {
  std::int64_t count = 0;
  for (const OwnedRange& range : tensor.ranges)
    for (const Piece& piece : pieces(tensor.tensor.layout, range.flat_begin, range.flat_end))
      count += piece.size();
  return count;
}

}  // namespace octachoron
