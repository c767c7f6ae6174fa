#include "plugins/device/cuda/attention_plan.h"

#include <vector>

namespace octachoron::cuda {
namespace {

constexpr std::int64_t kMiB = std::int64_t(1) << 20;
/// A backward goes in parts while the score gradients of one take more than this ...
constexpr std::int64_t kPartBytes = 1024 * kMiB;
/// ... and the next smaller still has this many tiles of 128 queries: four rounds of the 132 processors of an
/// H200.
constexpr std::int64_t kPartTiles = 512;
/// What takes more than this even in the smallest parts is left to the own kernels.
constexpr std::int64_t kMostBytes = 8192 * kMiB;

constexpr std::int64_t kLargestHead = 128;
/// cuDNN reads and writes 16 bytes at a time.
constexpr std::int64_t kAlignment = 8;

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

bool is_for_cudnn(const oct_operation& op) {
  const std::int64_t length = op.i[0], size = op.i[3];
  const int lse = 2;
  for (int k = 0; k < op.operands; ++k) {
    const oct_matrix& m = op.operand[k];
    if (m.dtype != (k == lse ? OCT_F32 : OCT_BF16)) return false;
    if (k != lse && m.pitch % kAlignment != 0) return false;
  }
  return op.operand[0].rows > 0 && length > 1 && size % kAlignment == 0 && size <= kLargestHead;
}

struct Part {
  std::int64_t sequences, key_heads;
};

/// The deterministic gradient stores the gradient of the scores, in BF16 ...
std::int64_t score_bytes(const oct_operation& op, Part part) {
  const std::int64_t length = op.i[0], heads = part.sequences * part.key_heads * (op.i[1] / op.i[2]);
  return 2 * heads * round_up(length, 64) * round_up(length, 128);
}

/// ... a sum for each query and, where query heads share a key head, dk and dv of each: the bytes that cuDNN
/// 9 asks for on sm_90, or a little more.
std::int64_t library_bytes(const oct_operation& op, Part part) {
  constexpr std::int64_t other = 4096;
  if (op.op == OCT_ATTENTION) return other;
  const std::int64_t length = op.i[0], group = op.i[1] / op.i[2], size = op.i[3];
  const std::int64_t heads = part.sequences * part.key_heads * group;
  const std::int64_t shared = group > 1 ? 2 * round_up(2 * heads * length * size, 128) : 0;
  return round_up(score_bytes(op, part) + shared + 4 * heads * length + other, 256);
}

/// All sequences, then fewer down to one, then fewer key heads down to one.
std::vector<Part> parts(std::int64_t sequences, std::int64_t key_heads) {
  std::vector<Part> all;
  for (std::int64_t n = sequences; n > 0; --n)
    if (sequences % n == 0) all.push_back({n, key_heads});
  for (std::int64_t n = key_heads - 1; n > 0; --n)
    if (key_heads % n == 0) all.push_back({1, n});
  return all;
}

Part choose_part(const oct_operation& op) {
  const std::int64_t length = op.i[0], group = op.i[1] / op.i[2];
  const std::vector<Part> all = parts(op.operand[0].rows / length, op.i[2]);
  Part chosen = all.front();
  if (op.op == OCT_ATTENTION) return chosen;
  for (const Part& part : all) {
    const std::int64_t bytes = score_bytes(op, chosen);
    const std::int64_t tiles = part.sequences * part.key_heads * group * round_up(length, 128) / 128;
    if (bytes <= kPartBytes) break;
    if (bytes <= kMostBytes && tiles < kPartTiles) break;
    chosen = part;
  }
  return chosen;
}

}  // namespace

AttentionPlan plan_attention(const oct_operation& op, bool has_cudnn) {
  // One F32 for each token and head: what the own backward keeps there are sums of dout * out.
  const std::int64_t statistics = op.op == OCT_ATTENTION ? 0 : 4 * op.operand[0].rows * op.i[1];
  const AttentionPlan own = {false, 0, 0, 0, 0, statistics};
  if (!has_cudnn || !is_for_cudnn(op)) return own;
  const Part part = choose_part(op);
  if (op.op == OCT_ATTENTION_BACKWARD && score_bytes(op, part) > kMostBytes) return own;
  const std::int64_t bytes = library_bytes(op, part);
  const std::int64_t library = round_up(statistics, 256);
  return {true, part.sequences, part.key_heads, library, bytes, library + bytes};
}

}  // namespace octachoron::cuda
