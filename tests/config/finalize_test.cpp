#include <limits>

#include "tests/config/fixture.h"

namespace octachoron {
namespace {

using testing::HasSubstr;

TEST(Finalize, DefaultsOfGpt2) {
  const Parameters p = completed();
  EXPECT_EQ(p.run.name, "small");
  EXPECT_EQ(p.run.output, "runs/small");
  EXPECT_EQ(p.checkpoint.directory, "runs/small/checkpoints");
  EXPECT_EQ(p.backend.comm, "mpi");
  EXPECT_EQ(p.model.kv_heads, 4);
  EXPECT_EQ(p.model.head_dim, 16);
  EXPECT_EQ(p.model.ffn, 256);
  EXPECT_EQ(p.model.vocab, 256);
  EXPECT_TRUE(p.model.tie_embeddings);
  EXPECT_TRUE(p.model.qkv_bias);
  EXPECT_EQ(p.model.rope_theta, 0);
  EXPECT_DOUBLE_EQ(p.optimizer.min_learning_rate, 3e-5);
  EXPECT_EQ(p.optimizer.decay_steps, 10);
  EXPECT_EQ(p.micro_batches(), 8);
  EXPECT_NO_THROW(validate(p, 1));
}

TEST(Finalize, DefaultsOfLlama) {
  const Parameters p = completed({"model.family=llama"});
  EXPECT_EQ(p.model.ffn, 256) << "8 x 64 / 3 = 170.7, up to a multiple of 256";
  EXPECT_FALSE(p.model.tie_embeddings);
  EXPECT_FALSE(p.model.qkv_bias);
  EXPECT_EQ(p.model.rope_theta, 10000);
  EXPECT_EQ(completed({"model.family=llama", "model.hidden=4096"}).model.ffn, 11008);
  EXPECT_EQ(completed({"model.family=llama", "model.hidden=96"}).model.ffn, 256) << "exactly 256";
  EXPECT_EQ(completed({"model.family=llama", "model.hidden=98"}).model.ffn, 512) << "261.3";
}

TEST(Finalize, WhatIsGivenStays) {
  const Parameters p =
      completed({"run.name=n", "run.output=o", "checkpoint.directory=c", "backend.comm=x", "model.kv_heads=2",
                 "model.head_dim=32", "model.ffn=100", "model.vocab=300", "model.tie_embeddings=off",
                 "optimizer.min_learning_rate=0", "optimizer.decay_steps=7"});
  EXPECT_EQ(p.run.output, "o");
  EXPECT_EQ(p.checkpoint.directory, "c");
  EXPECT_EQ(p.backend.comm, "x");
  EXPECT_EQ(p.model.kv_heads, 2);
  EXPECT_EQ(p.model.head_dim, 32);
  EXPECT_EQ(p.model.ffn, 100);
  EXPECT_EQ(p.model.vocab, 300);
  EXPECT_FALSE(p.model.tie_embeddings);
  EXPECT_EQ(p.optimizer.min_learning_rate, 0);
  EXPECT_EQ(p.optimizer.decay_steps, 7);
  EXPECT_TRUE(completed({"model.family=llama", "model.tie_embeddings=on"}).model.tie_embeddings);
  EXPECT_TRUE(completed({"model.family=llama", "model.qkv_bias=on"}).model.qkv_bias);
}

TEST(Finalize, NamesFollowTheFileAndTheRun) {
  ParsedParameters parsed = parse_parameter_text(kSmall, "in/a.b.ini", {});
  finalize(parsed, 256);
  EXPECT_EQ(parsed.values.run.name, "a.b");
  EXPECT_EQ(completed({"run.name=n"}).run.output, "runs/n");
  EXPECT_EQ(completed({"run.output=o"}).checkpoint.directory, "o/checkpoints");
}

TEST(Finalize, CommFollowsTheDevice) {
  EXPECT_EQ(completed({"backend.device=cuda"}).backend.comm, "nccl");
  EXPECT_EQ(completed({"backend.device=./mine.so"}).backend.comm, "mpi");
}

TEST(Finalize, VocabularyComesFromTheDataUnlessGiven) {
  ParsedParameters parsed = parse_parameter_text(kSmall, "p.ini", {});
  finalize(parsed, 50257);
  EXPECT_EQ(parsed.values.model.vocab, 50257);
  parsed = parse_parameter_text(kSmall, "p.ini", {"data.format=text"});
  finalize(parsed, 0);
  EXPECT_EQ(parsed.values.model.vocab, 256);
  parsed = parse_parameter_text(kSmall, "p.ini", {});
  finalize(parsed, 0);
  EXPECT_THAT(refusal([&] { validate(parsed.values, 0); }), HasSubstr("model.vocab is missing"));
}

TEST(Finalize, ARunWithoutStepsStillDecays) {
  EXPECT_EQ(completed({"run.steps=0"}).optimizer.decay_steps, 1);
}

TEST(Finalize, SizesThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal([] { completed({"model.hidden=4611686018427387904"}); }),
              HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(refusal([] {
                completed({"model.family=llama", "model.hidden=4611686018427387904"});
              }),
              HasSubstr("does not fit 64 bits"));
}

}  // namespace
}  // namespace octachoron
