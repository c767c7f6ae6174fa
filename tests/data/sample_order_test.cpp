#include "core/data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace octachoron {
namespace {

std::vector<std::int64_t> pass_of(const SampleOrder& order, std::int64_t pass) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(order.samples()));
  for (std::int64_t i = 0; i < order.samples(); ++i)
    out[std::size_t(i)] = order.at(pass * order.samples() + i);
  return out;
}

TEST(SampleOrder, EveryPassIsAPermutation) {
  for (const std::int64_t samples : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    const SampleOrder order(samples, 3);
    std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
    std::iota(all.begin(), all.end(), 0);
    for (const std::int64_t pass : {0, 1, 7}) {
      auto got = pass_of(order, pass);
      std::sort(got.begin(), got.end());
      ASSERT_EQ(got, all) << samples << " samples, pass " << pass;
    }
  }
}

TEST(SampleOrder, PassesAndSeedsDiffer) {
  const SampleOrder order(100, 3), other(100, 4);
  EXPECT_NE(pass_of(order, 0), pass_of(order, 1));
  EXPECT_NE(pass_of(order, 0), pass_of(other, 0));
  EXPECT_EQ(pass_of(order, 5), pass_of(SampleOrder(100, 3), 5));
}

TEST(SampleOrder, LooksShuffled) {
  const auto order = pass_of(SampleOrder(4096, 1), 0);
  int fixed = 0, runs = 0;
  double correlation = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    fixed += order[i] == std::int64_t(i);
    runs += i > 0 && order[i] == order[i - 1] + 1;
    correlation += (double(i) - 2047.5) * (double(order[i]) - 2047.5);
  }
  EXPECT_LE(fixed, 8);  // one is expected of a random permutation
  EXPECT_LE(runs, 8);
  EXPECT_LT(std::abs(correlation / (4096.0 * 4096 * 4096 / 12)), 5 / 64.0);
}

// F11: reading on from a saved position is the same as never having stopped.
TEST(SampleOrder, PositionIsAllTheState) {
  const SampleOrder order(37, 11);
  std::vector<std::int64_t> straight, resumed;
  for (std::int64_t position = 0; position < 90; ++position) straight.push_back(order.at(position));
  for (const auto& [begin, end] : {std::pair{0, 25}, {25, 26}, {26, 90}}) {
    const SampleOrder again(37, 11);
    for (std::int64_t position = begin; position < end; ++position) resumed.push_back(again.at(position));
  }
  EXPECT_EQ(straight, resumed);
}

}  // namespace
}  // namespace octachoron
