#pragma once
/// From owned ranges to what stands in the file, in parts of bounded size.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace octachoron {

inline constexpr std::int64_t kPartElements = std::int64_t(1) << 22;  ///< 16 MiB of F32

/// Memory that a save needs on a rank whose largest range has that many elements: one part.
constexpr std::int64_t save_bytes(std::int64_t largest_elements) {
  return 4 * std::min(largest_elements, kPartElements);
}

/// The ranges cut into ranges of at most `limit` elements.
/// \throws Error(internal) if they are not ascending or have another type than `stored` allows
std::vector<OwnedRange> cut(const CheckpointTensor& tensor, std::int64_t limit);

struct StagedPart {
  std::vector<Piece> pieces;      ///< owned ones, in the order of `values`
  std::vector<std::byte> values;  ///< of the stored type
  std::int64_t count = 0;         ///< elements
  std::uint64_t checksum = 0;
};

StagedPart stage(const CheckpointTensor& tensor, const OwnedRange& range);

/// Elements of the range that this rank counts and stores.
std::int64_t owned_elements(const CheckpointTensor& tensor);

/// Partial checksum of one piece in the stored type.
std::uint64_t checksum_of(DType stored, const TensorLayout& layout, const Piece& piece, const void* values);

/// Element `index` from data of the type.
inline std::byte* element(void* data, DType type, std::int64_t index) {
  return static_cast<std::byte*>(data) + index * size_of(type);
}

}  // namespace octachoron
