#pragma once
/// Random numbers that depend on seed, name and global index only, so that no grid and no device changes them
/// (contract 1.1). Philox4x32-10 of Random123 with key = seed and counter = (global element index / 4,
/// hash64(name)).
#include <array>
#include <cstdint>
#include <string_view>

#include "core/numerics/tensor_layout.h"

namespace octachoron {

/// FNV-1a of 64 bits over the bytes of the name, then the finaliser of splitmix64 (checksum.h).
std::uint64_t hash64(std::string_view name);

/// One block: counter words 0, 1 are the low and high half of `block`, words 2, 3 those of `stream`; key
/// words 0, 1 are the low and high half of `seed`.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t block);

/// The standard normal number of one global element. Words (0, 1) of a block give elements 0 and 1, words (2,
/// 3) elements 2 and 3: with u = (a + 1) / 2^32 and v = b / 2^32, sqrt(-2 ln u) times cos(2 pi v) and sin(2
/// pi v), in double.
double normal(std::uint64_t seed, std::uint64_t hash, std::int64_t global_index);

/// Normal numbers of deviation `deviation` for the local flat range [flat_begin, flat_end); padding becomes
/// 0. \param data the element flat_begin; T is float or double
template <class T>
void fill_normal(std::uint64_t seed, std::uint64_t hash, double deviation, const TensorLayout& layout,
                 std::int64_t flat_begin, std::int64_t flat_end, T* data);

extern template void fill_normal(std::uint64_t, std::uint64_t, double, const TensorLayout&, std::int64_t,
                                 std::int64_t, float*);
extern template void fill_normal(std::uint64_t, std::uint64_t, double, const TensorLayout&, std::int64_t,
                                 std::int64_t, double*);

}  // namespace octachoron
