#pragma once
/// A checkpoint as plain data (contract, section 4).
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/numerics/tensor_layout.h"

namespace octachoron {

inline constexpr std::int64_t kCheckpointFormat = 1;  ///< the attribute format_version

/// The attributes on `/`, beside format_version and complete.
struct CheckpointHeader {
  std::int64_t step = 0;  ///< optimiser steps done
  std::int64_t samples = 0, tokens = 0, skipped = 0;
  std::uint64_t seed = 0;
  std::string run_id{}, parameters{}, versions{};
  std::string tuning{};  ///< algorithms that were chosen by measuring, as in tuning.json; may be empty
};

/// One dataset and the part of it that this rank holds.
struct CheckpointTensor {
  std::string path;      ///< "/master/<tensor>": groups are made as needed
  LogicalTensor tensor;  ///< layout on this rank; the global shape is the same on all
  /// Flat ranges of the local tensor, ascending; `OwnedRange::tensor` is not used here. May be empty.
  std::vector<OwnedRange> ranges;
  /// Type in the file. F32: ranges of F32 or F64, the latter rounded to nearest. U32 and U64: ranges of that
  /// type.
  DType stored = OCT_F32;
};

/// A file that is not a whole checkpoint, or whose contents contradict it. Automatic resume goes on to an
/// older one.
class CheckpointDamaged : public Error {
 public:
  explicit CheckpointDamaged(const std::string& sentence) : Error(ExitStatus::data, sentence) {}
};

/// \throws CheckpointDamaged naming file and dataset
[[noreturn]] void refuse_checksum(const std::string& file, const std::string& dataset);

/// "step-00000100.h5"
std::string checkpoint_name(std::int64_t step);
/// The step of such a name; -1 for any other.
std::int64_t step_of_name(const std::string& file_name);

}  // namespace octachoron
