/// Both sides of every boundary of every key.
#include <set>

#include "tests/config/fixture.h"

namespace octachoron {
namespace {

struct Case {
  std::string key;
  std::vector<std::string> legal, illegal;
};

const std::string k64(64, 'a'), k65(65, 'a');
const std::string kInt64Max = "9223372036854775807", kTooLarge = "9223372036854775808";

const std::vector<Case>& cases() {
  static const std::vector<std::string> size_ok = {"1", "2147483647"},
                                        size_bad = {"0", "-1", "2147483648", "1.5"};
  static const std::vector<std::string> switch_ok = {"on", "off", "true", "false"},
                                        switch_bad = {"yes", "1", "On"};
  static const std::vector<std::string> count_ok = {"0", kInt64Max}, count_bad = {"-1", kTooLarge, "0.5"};
  static const std::vector<std::string> positive_ok = {"1", kInt64Max}, positive_bad = {"0", "-1", kTooLarge};
  static const std::vector<std::string> plugin_ok = {"cpu", "a-1", "./x.so", "/a B/c.so"},
                                        plugin_bad = {"CPU", "a_b", "a.so"};
  static const std::vector<std::string> real_ok = {"0", "1e300"}, real_bad = {"-1e-9", "inf", "nan", "1,5"};
  static const std::vector<std::string> steps_ok = {"1", "1-3,10"}, steps_bad = {"0", "0-3", "3-1", "x"};
  static const std::vector<Case> table = {
      {"run.name", {"a", k64, "A.b_c-9"}, {k65, "a b", "a/b", "\xC3\xA4"}},
      {"run.output", {"any thing"}, {}},
      {"run.steps", {"0", "2147483647"}, {"-1", "2147483648"}},
      {"run.seed", {"0", "18446744073709551615"}, {"-1", "18446744073709551616"}},
      {"run.resume", {"auto", "none", "a/b.h5"}, {}},
      {"run.log_every", positive_ok, positive_bad},
      {"run.wall_limit", {"auto", "00:00:01", "99999-23:59:59"}, {"00:00:00", "0-00:00:00", "0", "24"}},
      {"run.max_skipped", {"0", "1000"}, {"-1", "1001"}},
      {"grid.dp", size_ok, size_bad},
      {"grid.tp", size_ok, size_bad},
      {"grid.pp", size_ok, size_bad},
      {"grid.cp", size_ok, size_bad},
      {"grid.virtual_stages", size_ok, size_bad},
      {"backend.device", plugin_ok, plugin_bad},
      {"backend.precision", {"fp32", "fp8-delayed", "./x.so"}, plugin_bad},
      {"backend.comm", plugin_ok, plugin_bad},
      {"backend.plugin_path", {"a:b"}, {}},
      {"model.family", {"gpt2", "llama"}, {"gpt3", "GPT2"}},
      {"model.layers", positive_ok, positive_bad},
      {"model.hidden", {"2", "9223372036854775806"}, {"0", "1", "3", "-2", kInt64Max}},
      {"model.heads", positive_ok, positive_bad},
      {"model.sequence", {"1", "1048576"}, {"0", "1048577"}},
      {"model.kv_heads", positive_ok, positive_bad},
      {"model.head_dim", {"2", "256"}, {"0", "1", "255", "257", "258"}},
      {"model.ffn", positive_ok, positive_bad},
      {"model.vocab", {"2", "16777216"}, {"1", "16777217"}},
      {"model.tie_embeddings", switch_ok, switch_bad},
      {"model.qkv_bias", switch_ok, switch_bad},
      {"model.rope_theta", {"1e-300", "10000"}, {"0", "-1", "inf"}},
      {"model.norm_epsilon", {"1e-300", "1"}, {"0", "-1e-5"}},
      {"model.init_std", real_ok, real_bad},
      {"batch.global", positive_ok, positive_bad},
      {"batch.micro", positive_ok, positive_bad},
      {"precision.format", {"hybrid", "e4m3"}, {"e5m2"}},
      {"precision.margin", {"0", "16"}, {"-1", "17", "0.5"}},
      {"precision.amax_history", {"1", "4096"}, {"0", "4097"}},
      {"precision.amax_algorithm", {"max", "most_recent", "frozen"}, {"most-recent"}},
      {"precision.head", {"bf16", "fp8"}, {"fp32"}},
      {"precision.exclude", {"layers.0.*", "a,b"}, {"a,,b", ","}},
      {"precision.high_precision_first", count_ok, count_bad},
      {"precision.high_precision_last", count_ok, count_bad},
      {"precision.fallback", {"refuse", "bf16"}, {"fp32"}},
      {"optimizer.learning_rate", real_ok, real_bad},
      {"optimizer.min_learning_rate", real_ok, real_bad},
      {"optimizer.warmup", count_ok, count_bad},
      {"optimizer.decay", {"cosine", "linear", "constant"}, {"none"}},
      {"optimizer.decay_steps", positive_ok, positive_bad},
      {"optimizer.beta1", {"0", "0.9999999"}, {"1", "-0.1"}},
      {"optimizer.beta2", {"0", "0.9999999"}, {"1", "-0.1"}},
      {"optimizer.epsilon", real_ok, real_bad},
      {"optimizer.weight_decay", real_ok, real_bad},
      {"optimizer.clip", real_ok, real_bad},
      {"data.train", {"a", "a, b"}, {"a,", ","}},
      {"data.validation", {"none", "a,b"}, {"a,,b"}},
      {"data.format", {"auto", "text", "hdf5", "megatron", "llmc"}, {"csv"}},
      {"data.repeat", switch_ok, switch_bad},
      {"data.validate_every", count_ok, count_bad},
      {"data.validate_batches", count_ok, count_bad},
      {"parallel.sequence_parallel", switch_ok, switch_bad},
      {"parallel.overlap", switch_ok, switch_bad},
      {"parallel.schedule", {"1f1b", "interleaved", "gpipe"}, {"1F1B", "zero-bubble"}},
      {"parallel.stage_layers", {"1", "3,4"}, {"0", "3,0", "3,,4", "-1", "1-3"}},
      {"parallel.recompute", {"none", "selective", "full"}, {"on"}},
      {"parallel.bucket", {"1e-3", "1e6"}, {"0", "-1"}},
      {"checkpoint.directory", {"a b"}, {}},
      {"checkpoint.every", count_ok, count_bad},
      {"checkpoint.every_minutes", count_ok, count_bad},
      {"checkpoint.keep", count_ok, count_bad},
      {"checkpoint.async", switch_ok, switch_bad},
      {"trace.steps", steps_ok, steps_bad},
      {"trace.gradients", steps_ok, steps_bad},
      {"engine.graphs", switch_ok, switch_bad},
      {"engine.threads", {"auto", "1", "1024"}, {"0", "1025", "-1"}},
      {"example.pattern", {"none", "independent", "wait_at_once", "dependent"}, {"on"}},
  };
  return table;
}

TEST(Range, EveryKeyIsTried) {
  std::set<std::string> tried, known;
  for (const Case& each : cases()) tried.insert(each.key);
  for (const ParameterInfo& info : parameter_table()) known.insert(info.key);
  EXPECT_EQ(tried, known);
  EXPECT_EQ(tried.size(), cases().size());
}

TEST(Range, LegalValuesAreAcceptedAndReadBackTheSame) {
  for (const ParameterInfo& info : parameter_table())
    for (const Case& each : cases()) {
      if (each.key != info.key) continue;
      for (const std::string& value : each.legal) {
        Parameters once, twice;
        EXPECT_EQ(refusal([&] { info.set(once, value); }), "") << info.key << " = " << value;
        if (const std::string text = info.get(once); !text.empty()) info.set(twice, text);
        EXPECT_EQ(once, twice) << info.key << " = " << value;
      }
    }
}

TEST(Range, IllegalValuesAreRefusedNamingKeyValueAndRange) {
  for (const Case& each : cases())
    for (const std::string& value : each.illegal) {
      const std::string sentence = parse_refusal("[run]\n", {each.key + "=" + value});
      EXPECT_THAT(sentence, testing::StartsWith("--set: " + each.key + " = '" + value + "' is ")) << each.key;
      EXPECT_THAT(sentence, testing::ContainsRegex("\\(legal: .+\\); .+")) << each.key;
    }
}

TEST(Range, RefusalsProposeTheNearestLegalNumber) {
  EXPECT_THAT(parse_refusal("", {"run.max_skipped=1001"}),
              testing::HasSubstr("(legal: 0 .. 1000); choose 1000"));
  EXPECT_THAT(parse_refusal("", {"precision.amax_history=0"}), testing::HasSubstr("choose 1"));
  EXPECT_THAT(parse_refusal("", {"model.head_dim=65"}),
              testing::HasSubstr("is odd (legal: 2 .. 256, even); choose 64 or 66"));
  EXPECT_THAT(parse_refusal("", {"model.hidden=9223372036854775807"}),
              testing::HasSubstr("choose 9223372036854775806"));
}

/// The numbers of the contract, which nobody may change by the way.
TEST(Range, DefaultsAreThoseOfTheContract) {
  const std::map<std::string, std::string> expected = {{"run.seed", "1"},
                                                       {"run.resume", "auto"},
                                                       {"run.log_every", "10"},
                                                       {"run.wall_limit", "auto"},
                                                       {"run.max_skipped", "5"},
                                                       {"grid.dp", "1"},
                                                       {"grid.tp", "1"},
                                                       {"grid.pp", "1"},
                                                       {"grid.cp", "1"},
                                                       {"grid.virtual_stages", "1"},
                                                       {"backend.device", "cpu"},
                                                       {"backend.precision", "fp32"},
                                                       {"model.family", "gpt2"},
                                                       {"model.norm_epsilon", "1e-5"},
                                                       {"model.init_std", "0.02"},
                                                       {"batch.micro", "1"},
                                                       {"precision.format", "hybrid"},
                                                       {"precision.margin", "0"},
                                                       {"precision.amax_history", "16"},
                                                       {"precision.amax_algorithm", "max"},
                                                       {"precision.head", "bf16"},
                                                       {"precision.high_precision_first", "0"},
                                                       {"precision.high_precision_last", "0"},
                                                       {"precision.fallback", "refuse"},
                                                       {"optimizer.learning_rate", "3e-4"},
                                                       {"optimizer.warmup", "0"},
                                                       {"optimizer.decay", "cosine"},
                                                       {"optimizer.beta1", "0.9"},
                                                       {"optimizer.beta2", "0.95"},
                                                       {"optimizer.epsilon", "1e-8"},
                                                       {"optimizer.weight_decay", "0.1"},
                                                       {"optimizer.clip", "1"},
                                                       {"data.format", "auto"},
                                                       {"data.repeat", "on"},
                                                       {"data.validate_every", "100"},
                                                       {"data.validate_batches", "10"},
                                                       {"parallel.sequence_parallel", "on"},
                                                       {"parallel.overlap", "on"},
                                                       {"parallel.schedule", "1f1b"},
                                                       {"parallel.recompute", "none"},
                                                       {"parallel.bucket", "32"},
                                                       {"checkpoint.every", "0"},
                                                       {"checkpoint.every_minutes", "30"},
                                                       {"checkpoint.keep", "2"},
                                                       {"checkpoint.async", "on"},
                                                       {"engine.graphs", "on"},
                                                       {"engine.threads", "auto"}, {"example.pattern", "none"},
                                                       {"model.tie_embeddings", "on"},
                                                       {"model.qkv_bias", "on"}};
  std::map<std::string, std::string> actual;
  for (const ParameterInfo& info : parameter_table())
    if (const std::string value = info.get(Parameters{}); !value.empty()) actual[info.key] = value;
  EXPECT_EQ(actual, expected);
}

}  // namespace
}  // namespace octachoron
