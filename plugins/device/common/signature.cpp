#include "plugins/device/common/signature.h"

namespace octachoron::device_common {
namespace {

constexpr Signature kSignatures[] = {
    {OCT_FILL, "fill", 1, 1, {"out"}},
    {OCT_COPY, "copy", 2, 2, {"in", "out"}},
    {OCT_ADD, "add", 4, 4, {"a", "b", "bias", "out"}},
    {OCT_GEMM, "gemm", 6, 6, {"a", "b", "a_scale", "b_scale", "bias", "d"}},
    {OCT_COLUMN_SUM, "column_sum", 2, 2, {"x", "sum"}},
    {OCT_QUANTIZE, "quantize", 3, 6, {"x", "scale", "row", "column", "amax", "counters"}},
    {OCT_NORM, "norm", 5, 5, {"x", "weight", "bias", "y", "statistics"}},
    {OCT_NORM_BACKWARD,
     "norm_backward",
     7,
     8,
     {"dy", "x", "weight", "statistics", "residual", "dx", "dweight", "dbias"}},
    {OCT_GELU, "gelu", 2, 2, {"x", "y"}},
    {OCT_GELU_BACKWARD, "gelu_backward", 3, 3, {"x", "dy", "dx"}},
    {OCT_SWIGLU, "swiglu", 2, 2, {"x", "y"}},
    {OCT_SWIGLU_BACKWARD, "swiglu_backward", 3, 3, {"x", "dy", "dx"}},
    {OCT_ROPE, "rope", 1, 1, {"qkv"}},
    {OCT_ATTENTION, "attention", 3, 3, {"qkv", "out", "lse"}},
    {OCT_ATTENTION_BACKWARD, "attention_backward", 5, 5, {"qkv", "out", "lse", "dout", "dqkv"}},
    {OCT_EMBEDDING, "embedding", 3, 3, {"ids", "table", "out"}},
    {OCT_EMBEDDING_BACKWARD, "embedding_backward", 3, 3, {"ids", "dout", "dtable"}},
    {OCT_POSITION, "position", 3, 3, {"x", "table", "out"}},
    {OCT_POSITION_BACKWARD, "position_backward", 2, 2, {"dout", "dtable"}},
    {OCT_LOSS_STATISTICS, "loss_statistics", 3, 3, {"logits", "targets", "statistics"}},
    {OCT_LOSS, "loss", 6, 6, {"logits", "targets", "statistics", "scalars", "dlogits", "loss"}},
    {OCT_SUM_OF_SQUARES, "sum_of_squares", 2, 2, {"x", "sum"}},
    {OCT_CLIP, "clip", 3, 3, {"control", "scalars", "result"}},
    {OCT_ADAMW,
     "adamw",
     6,
     7,
     {"gradient", "scalars", "result", "master", "exp_avg", "exp_avg_sq", "weight"}},
    {OCT_AMAX, "amax", 2, 2, {"x", "amax"}},
    {OCT_UPDATE_SCALE, "update_scale", 3, 3, {"amax", "history", "scale"}},
    {OCT_CURRENT_SCALE, "current_scale", 4, 4, {"amax", "history", "kept", "scale"}},
    {OCT_TRANSPOSE, "transpose", 2, 2, {"in", "out"}},
};

}  // namespace

const Signature* signature(int op) {
  for (const Signature& s : kSignatures) {
    if (s.op == op) return &s;
  }
  return nullptr;
}

}  // namespace octachoron::device_common
