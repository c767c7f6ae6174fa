// Gradients of the whole program against differences of its loss, in FP64.
#include <algorithm>

#include "core/numerics/random.h"
#include "tests/parallel/grid_fixture.h"

namespace octachoron::parity {

namespace {

// Of each tensor: the element with the largest gradient, and two that its name picks.
std::vector<std::int64_t> elements(const std::string& name, const Assembled& gradient) {
  const auto smaller = [](double a, double b) { return std::abs(a) < std::abs(b); };
  const auto largest = std::max_element(gradient.values.begin(), gradient.values.end(), smaller);
  const std::uint64_t random = hash64(name), count = gradient.values.size();
  return {largest - gradient.values.begin(), std::int64_t(random % count),
          std::int64_t((random >> 20) % count)};
}

class FiniteDifferences : public GridTest {
 protected:
  // The five-point difference: its error is h^4, so h can be large enough for the loss's last bits not to
  // matter.
  static double difference(Trial& trial, const GlobalBatch& batch, const std::string& name,
                           std::int64_t element, const Assembled& master) {
    constexpr double h = 1e-3;
    const std::int64_t row = element / master.columns, column = element % master.columns;
    const auto loss_at = [&](double steps) {
      trial.set_master(name, row, column, master.values[element] + steps * h);
      return trial.validate(batch);
    };
    const double near = loss_at(1) - loss_at(-1), far = loss_at(2) - loss_at(-2);
    trial.set_master(name, row, column, master.values[element]);
    return (8 * near - far) / (12 * h);
  }

  void check(int dp, int tp, const char* tied) const {
    SCOPED_TRACE(text("dp=", dp, " tp=", tp, " tied ", tied));
    const Parameters p = parameters(
        dp, tp,
        {text("model.tie_embeddings=", tied), "batch.global=4", text("batch.micro=", dp == 1 ? 2 : 1)});
    on_grid(p, [](Trial& trial) {
      // A third of the targets is ignored, so that the mean is one over what counts.
      const GlobalBatch batch =
          with_targets(trial.next_batch(), kSequence, [](auto s, auto t) { return (s + t) % 3; });
      const Tensors masters = trial.masters();
      ASSERT_TRUE(trial.step(batch, 0).finite);  // at rate 0 the masters stay
      ASSERT_TRUE(trial.masters() == masters);
      const Tensors gradients = trial.gradients();
      for (const auto& [name, gradient] : gradients) {
        double largest = 0;
        for (const std::int64_t element : elements(name, gradient)) {
          const double expected = difference(trial, batch, name, element, masters.at(name));
          largest = std::max(largest, std::abs(gradient.values[element]));
          ASSERT_GT(largest, 0) << name;  // the first one is the largest of the tensor
          EXPECT_LE(std::abs(gradient.values[element] - expected), kTolerance * largest)
              << name << "[" << element << "] is " << gradient.values[element] << ", the loss says "
              << expected;
        }
      }
    });
  }

  static constexpr double kTolerance = 1e-7;
};

TEST_F(FiniteDifferences, TiedOnOneRank) {
  check(1, 1, "on");
}
TEST_F(FiniteDifferences, UntiedOnOneRank) {
  check(1, 1, "off");
}
TEST_F(FiniteDifferences, TiedOnFourRanks) {
  check(2, 2, "on");
}
TEST_F(FiniteDifferences, UntiedOnFourRanks) {
  check(2, 2, "off");
}

}  // namespace

}  // namespace octachoron::parity
