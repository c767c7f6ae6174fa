#pragma once
/// `checkpoint list|show|verify|diff`: text and exit status, serial, in blocks.
#include <string>

#include "core/base/error.h"

namespace octachoron {

struct Inspection {
  std::string text;  ///< lines, each ended
  ExitStatus status = ExitStatus::done;
};

/// A line for each checkpoint of a folder, newest first, with what is wrong with it if anything; leftovers
/// named. \throws Error(data) if there is no such folder
Inspection list_checkpoints(const std::string& directory);

/// Header, parameters and datasets of a file. \throws Error(data) if it cannot be opened
Inspection show_checkpoint(const std::string& path);

/// Reads everything. Status done, or data with a line for each thing that is wrong.
Inspection verify_checkpoint(const std::string& path);

/// Compares tensors bit by bit. Status done if all are the same, else data with each differing tensor and its
/// largest absolute difference. Differing attributes are printed but do not count.
Inspection diff_checkpoints(const std::string& first, const std::string& second);

}  // namespace octachoron
