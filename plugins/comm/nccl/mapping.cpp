#include "plugins/comm/nccl/mapping.h"

#include <cstdio>
#include <map>

namespace octachoron::nccl {

ncclDataType_t type_of(int dtype) {
  switch (dtype) {
    case OCT_F32:
      return ncclFloat32;
    case OCT_F64:
      return ncclFloat64;
    case OCT_BF16:
      return ncclBfloat16;
    case OCT_F16:
      return ncclFloat16;
    case OCT_I32:
      return ncclInt32;
    case OCT_U32:
      return ncclUint32;
    case OCT_U64:
      return ncclUint64;
    default:
      return ncclUint8;
  }
}

ncclRedOp_t reduction_of(int reduction) {
  return reduction == OCT_MAX ? ncclMax : ncclSum;
}

bool can_reduce(int dtype, int reduction) {
  return (reduction == OCT_SUM || reduction == OCT_MAX) && type_of(dtype) != ncclUint8;
}

oct_status status_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return OCT_OK;
    case ncclUnhandledCudaError:
      return OCT_DEVICE_ERROR;
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return OCT_INTERNAL;
    default:
      return OCT_COMM_ERROR;
  }
}

namespace {

/// As nvidia-smi -L prints it.
std::string gpu_name(const std::array<char, 16>& gpu) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(gpu[i]));
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

}  // namespace

std::string objection(std::span<const Card> cards) {
  std::map<std::array<char, 16>, std::size_t> owners;
  for (std::size_t rank = 0; rank < cards.size(); ++rank)
    if (cards[rank].problem[0] != 0)
      return "rank " + std::to_string(rank) + " cannot use NCCL: " + cards[rank].problem;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const auto [owner, is_first] = owners.emplace(cards[rank].gpu, rank);
    if (!is_first)
      return "ranks " + std::to_string(owner->second) + " and " + std::to_string(rank) + " use one GPU, " +
             gpu_name(cards[rank].gpu) +
             ", and NCCL needs one for each rank; start as many ranks as there are GPUs, or set "
             "backend.comm = mpi, which works on a shared GPU";
  }
  return {};
}

}  // namespace octachoron::nccl
