#include "core/config/availability.h"

#include "tests/config/fixture.h"

namespace octachoron {
namespace {

TEST(Availability, WhatALaterVersionBringsIsRefusedByName) {
  for (const char* override :
       {"grid.pp=2", "grid.cp=2", "grid.virtual_stages=2", "parallel.schedule=interleaved",
        "parallel.schedule=gpipe", "parallel.recompute=selective", "parallel.recompute=full",
        "data.format=megatron", "data.format=llmc"}) {
    const std::string text = override, key = text.substr(0, text.find('=')),
                      value = text.substr(text.find('=') + 1);
    EXPECT_THAT(validate_refusal({text}),
                testing::StartsWith(key + " = " + value + " is not available in this version ("))
        << text;
  }
}

TEST(Availability, TheRestIsAccepted) {
  EXPECT_EQ(validate_refusal({"parallel.schedule=1f1b", "parallel.recompute=none", "data.format=hdf5",
                              "trace.gradients=1-3", "trace.steps=1-3", "checkpoint.async=on", "engine.graphs=on"}),
            "");
  EXPECT_EQ(validate_refusal({"backend.device=cuda"}), "") << "whether there is one, the plugin knows";
  for (const char* recipe : {"backend.precision=fp8-delayed", "backend.precision=fp8-current"})
    EXPECT_EQ(validate_refusal({recipe}), "") << recipe;
  EXPECT_EQ(validate_refusal({"precision.head=fp8", "precision.margin=3", "precision.exclude=layers.*",
                              "precision.fallback=bf16"}),
            "")
      << "checked by the precision plugin";
}

TEST(Availability, EveryRowNamesAKnownKeyAndItsDefault) {
  for (const Availability& row : availability_table()) {
    bool found = false;
    for (const ParameterInfo& info : parameter_table()) {
      if (info.key != row.key) continue;
      found = true;
      EXPECT_THAT(row.available, testing::Contains(info.get(Parameters{}))) << row.key;
    }
    EXPECT_TRUE(found) << row.key;
  }
}

}  // namespace
}  // namespace octachoron
