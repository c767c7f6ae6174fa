#pragma once
/// A device plugin under test, and operands whose values the test sees as doubles. The plugin is the file in
/// the environment variable OCTACHORON_DEVICE_PLUGIN, or the one that this build made for the CPU.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/plugin/abi.h"
#include "core/plugin/dtype.h"

namespace octachoron::conformance {

/// The plugin in a file. \throws std::runtime_error if there is none
const oct_plugin& load_plugin(const char* file);
const oct_plugin& plugin_under_test();

/// A matrix of an operation. `values` are rounded to the type when it is made and read back after a run.
struct Operand {
  DType type = OCT_F32;
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  std::int64_t gap = 0;  ///< elements between rows; they must not be touched
  int alias = -1;        ///< operand of the operation whose memory it shares
  int declared = -1;  ///< the type it is described with, where the test wants to see its bytes as another's

  double at(std::int64_t r, std::int64_t c) const { return values[std::size_t(r * columns + c)]; }
  std::int64_t pitch() const { return columns + gap; }
  oct_matrix matrix() const { return {declared < 0 ? type : declared, 0, rows, columns, pitch()}; }
};

Operand absent();
Operand zeros(DType type, std::int64_t rows, std::int64_t columns);
Operand filled(DType type, std::int64_t rows, std::int64_t columns, std::vector<double> values);
/// Normal numbers, the same for equal seeds.
Operand random(DType type, std::int64_t rows, std::int64_t columns, unsigned seed, double scale = 1);
Operand with_gap(Operand operand, std::int64_t gap);
Operand alias_of(const std::vector<Operand>& operands, int k);
double rounded(DType type, double value);
/// The type of statistics and of exact gradients beside elements of `type`.
inline DType wide(DType type) {
  return type == OCT_F64 ? OCT_F64 : OCT_F32;
}

struct Attributes {
  std::vector<std::int64_t> i = {};
  std::vector<double> f = {};
};

oct_operation describe(oct_op op, const std::vector<Operand>& operands, const Attributes& attributes = {});

class Rig {
 public:
  explicit Rig(int threads = 2, const oct_plugin& plugin = plugin_under_test());
  ~Rig();
  Rig(const Rig&) = delete;

  const oct_device_table& table() const { return *table_; }
  oct_device* device() const { return device_; }
  oct_lane* lane() const { return lane_; }
  oct_device_properties properties() const;

  /// Runs the operation once; outputs are read back into `operands`. Workspace is poisoned first. Fails the
  /// test where the device refuses, reports an error, or touches a gap.
  void run(oct_op op, std::vector<Operand>& operands, const Attributes& attributes = {});
  /// The reason of a refusal; empty if supported.
  std::string refusal(const oct_operation& operation) const;
  std::string last_error() const;
  std::string poll_error();

 private:
  struct Memory;
  void check(oct_status status, const char* what) const;
  std::unique_ptr<Memory> allocate(std::size_t bytes);
  const oct_plugin* plugin_;
  const oct_device_table* table_;
  oct_device* device_ = nullptr;
  oct_lane* lane_ = nullptr;
};

/// Largest difference relative to the largest expected magnitude; infinite if NaN stands where it should not.
double difference(const std::vector<double>& actual, const std::vector<double>& expected);
/// Bound on a relative difference after one rounding of the result and FP32 or FP64 arithmetic.
double tolerance(DType type);

/// Whether the plugin under test computes in the type.
bool computes(DType type);
/// The types of elements to test: those of F32, F64 and BF16 that the plugin under test computes in.
struct Types {
  const DType* begin() const;
  const DType* end() const;
};
inline constexpr Types kTypes = {};

}  // namespace octachoron::conformance
