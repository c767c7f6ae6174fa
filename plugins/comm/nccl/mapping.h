#pragma once
/// From this program's words to NCCL's, and from its errors to ours. Pure.
#include <nccl.h>

#include <array>
#include <span>
#include <string>

#include "core/plugin/abi.h"

namespace octachoron::nccl {

/// The type in which an element is moved or summed: FP8 and other bytes are ncclUint8.
ncclDataType_t type_of(int dtype);
ncclRedOp_t reduction_of(int reduction);
/// SUM and MAX of f32, f64, bf16, f16, i32, u32, u64; never of FP8, whose sum would lose its scale.
bool can_reduce(int dtype, int reduction);

/// A failed call of NCCL: of the device, of this program, else of a peer or the network.
oct_status status_of(ncclResult_t result);

/// What each rank tells the others before NCCL can work.
struct Card {
  char problem[240];          ///< why this rank has no GPU for NCCL; empty: it has one
  std::array<char, 16> gpu;   ///< the GPU's identity
  ncclUniqueId communicator;  ///< of rank 0 only
};

/// Why the run cannot begin: the first problem of a rank, or two ranks on one GPU. Empty: it can.
std::string objection(std::span<const Card> cards);

}  // namespace octachoron::nccl
