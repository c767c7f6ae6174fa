#include "core/numerics/random.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/numerics/checksum.h"

namespace octachoron {
namespace {

constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

struct Pair {
  double first, second;
};

Pair box_muller(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((double(a) + 1.0) * kTwoToMinus32));
  const double angle = 2.0 * std::numbers::pi * (double(b) * kTwoToMinus32);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

std::array<double, 4> normal_block(std::uint64_t seed, std::uint64_t hash, std::uint64_t block) {
  const auto words = philox(seed, hash, block);
  const Pair low = box_muller(words[0], words[1]), high = box_muller(words[2], words[3]);
  return {low.first, low.second, high.first, high.second};
}

template <class T>
void fill_run(std::uint64_t seed, std::uint64_t hash, double deviation, std::int64_t first,
              std::int64_t count, T* out) {
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t index = first + i, lane = index % 4, take = std::min(4 - lane, count - i);
    const auto block = normal_block(seed, hash, std::uint64_t(index / 4));
    for (std::int64_t j = 0; j < take; ++j) out[i + j] = T(deviation * block[std::size_t(lane + j)]);
    i += take;
  }
}

}  // namespace

std::uint64_t hash64(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return splitmix64(hash);
}

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t block) {
  const r123::Philox4x32::ctr_type counter = {
      {std::uint32_t(block), std::uint32_t(block >> 32), std::uint32_t(stream), std::uint32_t(stream >> 32)}};
  const r123::Philox4x32::key_type key = {{std::uint32_t(seed), std::uint32_t(seed >> 32)}};
  const auto words = r123::Philox4x32()(counter, key);  // 10 rounds
  return {words[0], words[1], words[2], words[3]};
}

double normal(std::uint64_t seed, std::uint64_t hash, std::int64_t global_index) {
  return normal_block(seed, hash, std::uint64_t(global_index / 4))[std::size_t(global_index % 4)];
}

template <class T>
void fill_normal(std::uint64_t seed, std::uint64_t hash, double deviation, const TensorLayout& layout,
                 std::int64_t flat_begin, std::int64_t flat_end, T* data) {
  std::fill(data, data + (flat_end - flat_begin), T(0));
  for (const Piece& piece : pieces(layout, flat_begin, flat_end, Copies::all))
    for (std::int64_t row = 0; row < piece.rows; ++row)
      fill_run(seed, hash, deviation, layout.global_index(piece.row + row, piece.column), piece.columns,
               data + (piece.offset - flat_begin + row * layout.local_columns));
}

template void fill_normal(std::uint64_t, std::uint64_t, double, const TensorLayout&, std::int64_t,
                          std::int64_t, float*);
template void fill_normal(std::uint64_t, std::uint64_t, double, const TensorLayout&, std::int64_t,
                          std::int64_t, double*);

}  // namespace octachoron
