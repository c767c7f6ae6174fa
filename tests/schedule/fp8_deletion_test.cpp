// What FP8 adds to a step, deleted: named by the verifier. What works in place (casts of weights into a
// shard, histories) changes what is computed, which tests/engine executes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/program/waits.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Strings = std::vector<std::string>;

Parameters parameters(const char* recipe) {
  return small_model::fp8_parameters(
      {text("backend.precision=", recipe), "model.layers=1", "grid.dp=2", "grid.tp=2"});
}

// Without the first operation that is `which`.
template <class Which>
StepProgram without(const StepProgram& program, Which which, std::string* label = nullptr) {
  StepProgram changed = program;
  for (Segment& segment : changed.segments)
    for (auto operation = segment.operations.begin(); operation != segment.operations.end(); ++operation)
      if (which(*operation)) {
        if (label) *label = operation->label;
        segment.operations.erase(operation);
        derive_waits(changed);
        return changed;
      }
  throw std::logic_error("there is no such operation");
}

Strings memory_problems(const StepProgram& program) {
  return verify_memory({"all", &program}, plan_memory(program).placement);
}

TEST(Fp8Deletion, OfAReductionOnOneRankIsNamed) {
  for (const char* recipe : {"fp8-delayed", "fp8-current"}) {
    const Parameters all = parameters(recipe);
    const RankPrograms built = small_model::programs(all);
    for (const char* purpose : {"amax", "counters"}) {
      std::string label;
      const StepProgram& common = built.training.program;
      const StepProgram odd = without(
          common, [&](const Operation& op) { return is_communication(op.op) && op.peers.purpose == purpose; },
          &label);
      for (const Queues queues : {Queues::serial, Queues::chained, Queues::lanes})
        EXPECT_THAT(small_model::order_problems(small_model::grid(all), {&common, &odd, {1}}, queues),
                    Contains(HasSubstr("'" + label + "'")))
            << recipe << " " << purpose;
    }
  }
}

TEST(Fp8Deletion, OfACastOrScaleIsNamed) {
  for (const char* recipe : {"fp8-delayed", "fp8-current"}) {
    const StepProgram program = small_model::programs(parameters(recipe)).training.program;
    EXPECT_THAT(memory_problems(program), IsEmpty());
    const auto expect_named = [&](oct_op op, const char* ending) {
      EXPECT_THAT(memory_problems(without(program,
                                          [&](const Operation& operation) {
                                            return operation.op == op && operation.label.ends_with(ending);
                                          })),
                  Not(IsEmpty()))
          << recipe << ": " << name(op) << " " << ending;
    };
    expect_named(OCT_QUANTIZE, ".input");
    expect_named(OCT_QUANTIZE, ".grad_output");
    expect_named(OCT_FILL, "precision.amax");
    expect_named(OCT_FILL, "precision.counters");
    if (recipe != std::string("fp8-current")) continue;
    expect_named(OCT_CURRENT_SCALE, ".scale");
    expect_named(OCT_AMAX, ".input.amax");
  }
}

}  // namespace
}  // namespace octachoron
