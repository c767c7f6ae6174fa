#pragma once
/// What the tests of the parameter file share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/parameter_file.h"
#include "core/config/validate.h"

namespace octachoron {

inline const char* const kSmall = R"([run]
steps = 10
[model]
layers = 2
hidden = 64
heads = 4
sequence = 16
[batch]
global = 8
[data]
train = a.txt
)";

using Overrides = std::vector<std::string>;

/// The smallest legal parameters with `overrides`, completed as for text.
inline Parameters completed(const Overrides& overrides = {}) {
  ParsedParameters parsed = parse_parameter_text(kSmall, "small.ini", overrides);
  finalize(parsed, 256);
  return parsed.values;
}

/// The sentence with which `act` is refused as wrong usage; empty if it is not.
template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::usage) << error.what();
    return error.what();
  }
  return "";
}

inline std::string parse_refusal(const std::string& text, const Overrides& overrides = {}) {
  return refusal([&] { parse_parameter_text(text, "p.ini", overrides); });
}

/// By the way a user reaches it: text, defaults, validation.
inline std::string validate_refusal(const Overrides& overrides, int ranks = 0) {
  return refusal([&] { validate(completed(overrides), ranks); });
}

}  // namespace octachoron
