#pragma once
/// FP8 in a program: the tables of scales, histories, amaxes and counters, and the casts into and out of them.
#include "core/model/quantization_plan.h"
#include "core/program/emit.h"

namespace octachoron {

/// What a program is for. A calibration runs a step's forward and backward passes with current scaling for exactly those
/// tensors whose history knows nothing yet, to begin their histories (contract 1.5).
enum class ProgramKind { training, validation, calibration };

/// How a tensor enters a GEMM.
struct Quantized {
  View data;
  View scale;  ///< F32 [1,1]; absent: not quantised
};

/// Names of the buffers; R rows of the plan, W steps of the longest history, C rows of counters.
struct PrecisionBuffers {
  static constexpr const char* scale = "precision.scale";      ///< F32 [R, 4], the first column counts; persistent
  static constexpr const char* history = "precision.history";  ///< F32 [R, W], newest first; persistent
  static constexpr const char* amax = "output.amax";           ///< host, U32 [R, 1]: bits, of the last step
  static constexpr const char* counters = "output.counters";   ///< host, U64 [C, 3]: saturated, flushed, nonfinite
};

class Quantizer {
 public:
  /// Declares the persistent tables. \param plan must outlive the quantizer
  Quantizer(ProgramBuilder& builder, const QuantizationPlan& plan, ProgramKind kind);

  const QuantizationPlan& plan() const { return plan_; }
  ProgramKind kind() const { return kind_; }

  /// Clears what the step records.
  void begin() const;
  /// Casts x, the part of tensor `row` on this rank, and records its amax and counters.
  Quantized cast(int row, const View& x) const;
  /// Casts the part of a weight that lies in a flat range of masters. \param counter row of its counters
  void cast_weight(int row, int counter, const View& masters, const View& bytes, const Window& window) const;
  void record_weight(int row, const View& masters, const Window& window) const;
  View scale(int row) const { return scale_.row_range(row, 1).column_range(0, 1); }
  /// Reduces what was recorded over all ranks that hold a part, rolls the histories, makes the scales.
  void finish() const;

  /// The product in the layout the device wants: where it cannot read an FP8 operand transposed, a transposed copy is made.
  void product(const std::string& label, Gemm gemm) const;

 private:
  View current_scale(int row, const View& x) const;
  View transposed(const std::string& label, const View& view) const;

  ProgramBuilder& builder_;
  const QuantizationPlan& plan_;
  ProgramKind kind_;
  View scale_, history_, amax_, counters_, host_amax_, host_counters_;
};

}  // namespace octachoron
