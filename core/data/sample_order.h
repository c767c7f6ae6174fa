#pragma once
/// The order in which training consumes samples.
#include <array>
#include <cstdint>

namespace octachoron {

/// A permutation of all samples for each pass, from (seed, pass) only and computed where asked: a Feistel
/// network of 8 rounds over the next even power of two, walked until it lands inside. Its round keys are
/// Philox numbers.
class SampleOrder {
 public:
  SampleOrder(std::int64_t samples, std::uint64_t seed);

  std::int64_t samples() const { return samples_; }
  /// Sample at a position counted over all passes: 0 .. samples-1 is the first pass.
  std::int64_t at(std::int64_t position) const;

 private:
  static constexpr int kRounds = 8;
  using RoundKeys = std::array<std::uint32_t, kRounds>;
  RoundKeys keys(std::int64_t pass) const;

  std::int64_t samples_;
  std::uint64_t seed_;
  int half_bits_;
};

}  // namespace octachoron
