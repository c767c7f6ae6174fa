#include "tests/gpu/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace octachoron::gpu {

using namespace conformance;

namespace {

const oct_plugin& reference_plugin() {
  const char* file = std::getenv("OCTACHORON_REFERENCE_PLUGIN");
  return load_plugin(file != nullptr ? file : OCTACHORON_BINARY_DIR "/lib/octachoron/device-cpu.so");
}

double bound(const Case& c, DType type) {
  const double sum = 2e-7 * (4 + std::sqrt(c.depth)) * (c.ill ? 8 : 1);
  return (type == OCT_BF16 ? 8e-3 : 0) + sum;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

void compare(const std::vector<Case>& cases) {
  Rig device, reference(2, reference_plugin());
  for (const Case& c : cases) {
    for (const DType type : {OCT_F32, OCT_BF16}) {
      SCOPED_TRACE(c.name + " " + name(type));
      const std::vector<Operand> inputs = c.operands(type);
      std::vector<Operand> first = inputs, second = inputs, expected = inputs;
      device.run(c.op, first, c.attributes);
      device.run(c.op, second, c.attributes);
      reference.run(c.op, expected, c.attributes);
      if (testing::Test::HasFatalFailure()) return;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        EXPECT_TRUE(same_bits(first[k].values, second[k].values)) << "a rerun differs in operand " << k;
        const double error = difference(first[k].values, expected[k].values);
        EXPECT_LE(error, bound(c, inputs[k].type == OCT_F64 ? OCT_F32 : inputs[k].type)) << "operand " << k;
      }
    }
  }
}

}  // namespace octachoron::gpu
