#include "core/data/sample_order.h"

#include <bit>

#include "core/base/error.h"
#include "core/numerics/checksum.h"
#include "core/numerics/random.h"

namespace octachoron {

SampleOrder::SampleOrder(std::int64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {
  ensure(samples >= 1, "an order of ", samples, " samples");
  half_bits_ = (std::bit_width(std::uint64_t(samples - 1)) + 1) / 2;
}

std::int64_t SampleOrder::at(std::int64_t position) const {
  ensure(position >= 0, "the sample position ", position, " is negative");
  if (half_bits_ == 0) return 0;  // a single sample
  const RoundKeys round_keys = keys(position / samples_);
  const std::uint64_t mask = (std::uint64_t(1) << half_bits_) - 1;
  auto value = std::uint64_t(position % samples_);
  do {  // a permutation of the power of two walks back inside, and inside it is a permutation again
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (const std::uint32_t key : round_keys) {
      const std::uint64_t mixed = splitmix64((std::uint64_t(key) << 32) ^ right) & mask;
      const std::uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= std::uint64_t(samples_));
  return std::int64_t(value);
}

SampleOrder::RoundKeys SampleOrder::keys(std::int64_t pass) const {
  static_assert(kRounds == 8, "two Philox blocks a pass");
  const std::uint64_t stream = hash64("data.order");
  const auto low = philox(seed_, stream, std::uint64_t(pass) * 2),
             high = philox(seed_, stream, std::uint64_t(pass) * 2 + 1);
  return {low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
}

}  // namespace octachoron
