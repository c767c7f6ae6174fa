#pragma once
/// A pass that lets operations cast their own results: what is read again only to be cast is then read once
/// less, and what nobody else reads is not written at all.
#include "core/program/builder.h"

namespace octachoron {

/// Whether casts are fused into the operations that make what they cast, or stay operations of their own,
/// with their input there to be looked at. Either way all results have the same bits.
enum class Casts { fused, apart };

/// Merges each OCT_QUANTIZE into the operation right before it, where that makes the whole of what is cast
/// and the device can do both at once; so never where the scale depends on the tensor itself. Its wide result
/// is dropped if nothing else in the program touches it. To run before passes that move operations, and
/// before waits are derived. \param program that of the builder \return casts merged
int fuse_casts(ProgramBuilder& builder, StepProgram& program);

}  // namespace octachoron
