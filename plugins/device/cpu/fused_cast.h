#pragma once
/// An operation that carries a cast of its result: its own kernel, then that of the cast. What is not kept
/// lies in the workspace in between.
#include "plugins/device/cpu/prepared.h"

namespace octachoron::cpu {

class FusedCastOperation : public Prepared {
 public:
  /// \param operation checked, with a cast
  FusedCastOperation(const oct_operation& operation, FindKernel find, int threads);
  void run(void* const* pointers) override;

 private:
  bool kept_;
  oct_operation producer_, cast_;
  Kernel produce_, quantize_;
  int threads_;
};

/// Workspace of a checked description with a cast, in bytes.
std::int64_t fused_cast_workspace(const oct_operation& operation);

}  // namespace octachoron::cpu
