// What `evaluate` says; that it is right is tested over real ranks in tests/parallel and tests/faults.
#include "core/train/evaluate.h"

#include <gmock/gmock.h>

#include <limits>

namespace octachoron {
namespace {

using testing::HasSubstr;

Parameters small() {
  Parameters parameters;
  parameters.grid.dp = 2;
  parameters.grid.tp = 3;
  parameters.batch.global = 8;
  parameters.model.sequence = 16;
  return parameters;
}

TEST(Evaluate, AsJson) {
  Evaluation evaluation{.loss = 0.1, .targets = 100, .batches = 3, .step = 40};
  EXPECT_EQ(evaluation_json("a \"b\"\\\n.h5", small(), evaluation),
            "{\"checkpoint\":\"a \\\"b\\\"\\\\\\u000a.h5\",\"step\":40,\"loss\":0.1,\"perplexity\":1.1051709180756477,"
            "\"tokens\":100,\"batches\":3,\"grid\":{\"dp\":2,\"tp\":3,\"pp\":1,\"cp\":1}}\n");
  evaluation.loss = 1000;  // beyond what a double can say
  EXPECT_THAT(evaluation_json("a.h5", small(), evaluation), HasSubstr("\"loss\":1000,\"perplexity\":null"));
  evaluation.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(evaluation_json("a.h5", small(), evaluation), HasSubstr("\"loss\":null,\"perplexity\":null"));
}

TEST(Evaluate, AsText) {
  const Evaluation evaluation{.loss = 0.30000000000000004, .targets = 100, .batches = 3, .step = 40};
  EXPECT_EQ(evaluation_text(small(), evaluation),
            "loss 0.30000000000000004 nats, perplexity 1.34986: mean over 100 targets in 3 batches of 8 x 16, after "
            "step 40, on dp=2 tp=3 pp=1 cp=1\n");
}

TEST(Evaluate, OfAFileThatIsNoCheckpoint) {
  try {
    evaluation_parameters("/dev/null", {}, 1);
    FAIL() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::data);
    EXPECT_THAT(error.what(), HasSubstr("/dev/null"));
  }
}

}  // namespace
}  // namespace octachoron
