// Each bucket of gradients is reduced once a step.
#include <gtest/gtest.h>

#include <map>

#include "core/base/text.h"
#include "tests/schedule/small_model.h"

namespace octachoron {
namespace {

// E04: with several micro-batches, with and without overlap, one reduction a bucket and step.
TEST(Buckets, OneReductionABucketAndStep) {
  for (const char* overlap : {"on", "off"})
    for (const int micro_batches : {1, 3})
      for (const char* bucket : {"0.01", "32"}) {
        const std::string where =
            text("overlap ", overlap, ", ", micro_batches, " micro-batches, ", bucket, " MiB");
        const RankPrograms programs = small_model::programs(
            small_model::parameters({"grid.dp=2", "grid.tp=2", text("batch.global=", 2 * micro_batches),
                                     text("parallel.overlap=", overlap), text("parallel.bucket=", bucket)}));
        const StepProgram& program = programs.training.program;
        std::map<int, int> reductions;  // by buffer of gradients
        small_model::count(program, [&](const Operation& operation) {
          const bool reduces = operation.op == OCT_REDUCE_SCATTER && operation.peers.purpose == "gradient";
          if (reduces) ++reductions[operation.operands[0].view.buffer];
          return reduces;
        });
        EXPECT_EQ(reductions.size(), programs.set.buckets.size()) << where;
        for (const auto& [buffer, count] : reductions)
          EXPECT_EQ(count, 1) << where << ": " << program.buffers[buffer].name;
      }
}

}  // namespace
}  // namespace octachoron
