// One operation deleted: named by the verifier, unless it works in place; those change what is computed,
// which tests/engine executes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "core/program/waits.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Strings = std::vector<std::string>;

// Calls test(program, deleted) for each operation, with it deleted and everything derived anew.
template <class Test>
void without_each_operation(const StepProgram& program, Test test) {
  for (std::size_t s = 0; s < program.segments.size(); ++s)
    for (std::size_t i = 0; i < program.segments[s].operations.size(); ++i) {
      StepProgram changed = program;
      changed.segments[s].operations.erase(changed.segments[s].operations.begin() + i);
      derive_waits(changed);
      test(changed, program.segments[s].operations[i]);
    }
}

// Its results are there without it too: it adds to them, or turns a sum of this rank into the sum of all.
bool works_in_place(const Operation& operation) {
  const auto updates = [](const Operand& operand) { return operand.access == Access::update; };
  return operation.op == OCT_ALL_REDUCE ||
         std::any_of(operation.operands.begin(), operation.operands.end(), updates);
}

// What the host reads and nothing on the device does.
bool is_for_the_host(const StepProgram& program, const Operation& operation) {
  return operation.op == OCT_COPY &&
         program.buffers[operation.operands.back().view.buffer].memory == MemoryClass::host;
}

TEST(Deletion, OnEveryRankIsNamedUnlessInPlace) {
  for (const char* sequence_parallel : {"on", "off"}) {
    const Parameters parameters = small_model::parameters(
        {"grid.dp=2", "grid.tp=2", "batch.global=4", text("parallel.sequence_parallel=", sequence_parallel)});
    const StepProgram program = small_model::programs(parameters).training.program;
    std::map<std::string, int> named, silent;
    without_each_operation(program, [&](const StepProgram& changed, const Operation& deleted) {
      const Strings problems = verify_memory({"all", &changed}, plan_memory(changed).placement);
      ++(problems.empty() ? silent : named)[name(deleted.op)];
      if (problems.empty()) {
        EXPECT_TRUE(works_in_place(deleted) || is_for_the_host(program, deleted)) << deleted.label;
      }
    });
    const bool scattered = std::string(sequence_parallel) == "on";
    EXPECT_EQ(named["all_gather"], scattered ? 5 + 6 + 2 * 10 : 5 + 1);
    EXPECT_EQ(named["reduce_scatter"], scattered ? 5 + 5 + 2 * 5 : 5);
    EXPECT_EQ(silent["reduce_scatter"] + silent["all_gather"], 0);
    EXPECT_EQ(silent["adamw"], 5);
  }
}

TEST(Deletion, OfACommunicationOnOneRankIsNamed) {
  const Parameters parameters = small_model::parameters({"grid.dp=2", "grid.tp=2", "model.layers=1"});
  const ProcessGrid grid = small_model::grid(parameters);
  const StepProgram common = small_model::programs(parameters).training.program;
  int deletions = 0;
  without_each_operation(common, [&](const StepProgram& odd, const Operation& deleted) {
    if (!is_communication(deleted.op)) return;
    for (const Queues queues : {Queues::serial, Queues::chained, Queues::lanes})
      EXPECT_THAT(small_model::order_problems(grid, {&common, &odd, {1}}, queues),
                  Contains(HasSubstr("'" + deleted.label + "'")))
          << deleted.label << ", " << name(queues);
    ++deletions;
  });
  EXPECT_GT(deletions, 30);
}

}  // namespace
}  // namespace octachoron
