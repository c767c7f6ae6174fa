/// What FP8 GEMMs ask of the sizes of a model (contract 1.10).
#include "core/base/checked.h"
#include "core/base/error.h"
#include "core/model/quantization_plan.h"

namespace octachoron {

namespace {

constexpr std::int64_t kAlignment = 16;

/// Sizes of a linear on this rank: y [tokens, out] = x [tokens, in] W^T.
struct LinearSizes {
  std::int64_t tokens = 0, in = 0, out = 0;
  const char* out_key = "model.hidden";
  const char* in_key = "model.hidden";
};

LinearSizes sizes_of(const ModelShape& shape, const std::string& module) {
  const std::int64_t tokens = shape.tokens(), hidden = shape.hidden, ffn = shape.ffn / shape.tp;
  if (module.ends_with("attention.qkv"))
    return {tokens, hidden, shape.local_query_rows() + shape.local_kv_rows(), "model.head_dim"};
  if (module.ends_with("attention.out"))
    return {tokens, shape.local_query_rows(), hidden, "model.hidden", "model.head_dim"};
  if (module.ends_with("fc1")) return {tokens, hidden, ffn, "model.ffn"};
  if (module.ends_with("gate_up")) return {tokens, hidden, 2 * ffn, "model.ffn"};
  if (module == "head") return {tokens, hidden, shape.vocab_rows(), "model.vocab"};
  return {tokens, ffn, hidden, "model.hidden", "model.ffn"};
}

std::string products(const LinearSizes& s) {
  const auto product = [](const char* pass, std::int64_t m, std::int64_t n, std::int64_t k) {
    return text(pass, " ", m, " x ", n, " x ", k);
  };
  return text(product("fprop", s.tokens, s.out, s.in), ", ", product("dgrad", s.tokens, s.in, s.out), ", ",
              product("wgrad", s.out, s.in, s.tokens));
}

/// What is wrong with a size, or nothing. \param value of `key`, of which this rank holds `local`; \param unit multiples of it
/// are legal values of the key
std::string misfit(const std::string& module, const LinearSizes& sizes, const char* key, std::int64_t value,
                   std::int64_t local, std::int64_t unit) {
  if (local % kAlignment == 0) return "";
  const std::int64_t below = value / unit * unit;
  const std::string nearest = below > 0 ? text(below, " or ", below + unit) : text(below + unit);
  return text(key, " = ", value, " leaves ", local, " of it to a rank, and the FP8 products of ", module,
              " need multiples of 16 (m x n x k: ", products(sizes), "); set ", key, " to ", nearest,
              ", or exclude the module with precision.exclude");
}

std::int64_t unit_of(std::int64_t value, std::int64_t local) {
  // local = value * share: the smallest step of value that moves local by a multiple of 16.
  std::int64_t unit = 1;
  while (unit * local % (kAlignment * value) != 0) ++unit;
  return unit;
}

// Where the heads share out the hidden size, a legal one leaves them legal too.
std::int64_t hidden_unit(const ModelShape& shape) {
  if (shape.heads * shape.head_dim != shape.hidden) return kAlignment;
  std::int64_t unit = kAlignment;
  const auto legal = [&] {
    const std::int64_t head = unit / shape.heads, kv = 2 * shape.local_kv_heads() * head;
    return unit % (2 * shape.heads) == 0 && shape.heads / shape.tp * head % kAlignment == 0 && kv % kAlignment == 0;
  };
  while (!legal()) unit += kAlignment;
  return unit;
}

}  // namespace

std::string misalignment(const ModelShape& shape, const std::string& module) {
  const LinearSizes sizes = sizes_of(shape, module);
  // Under sequence parallelism each rank casts its own rows, and they too must come in whole tiles.
  const std::int64_t rows = shape.local_tokens();
  std::string found = misfit(module, sizes, "model.sequence", shape.sequence, rows, unit_of(shape.sequence, rows));
  const auto dimension = [&](const std::string& key, std::int64_t local) {
    if (!found.empty() || key == "model.vocab") return;  // rows of the table are padded
    if (key == "model.hidden") found = misfit(module, sizes, "model.hidden", shape.hidden, local, hidden_unit(shape));
    if (key == "model.head_dim")
      found = misfit(module, sizes, "model.head_dim", shape.head_dim, local, unit_of(shape.head_dim, local));
    if (key == "model.ffn") found = misfit(module, sizes, "model.ffn", shape.ffn, local, unit_of(shape.ffn, local));
  };
  dimension(sizes.in_key, sizes.in);
  dimension(sizes.out_key, sizes.out);
  if (shape.kv_sharers() > 1 && module.ends_with("attention.qkv")) dimension(sizes.out_key, shape.local_kv_rows());
  return found;
}

void refuse_misaligned(const QuantizationPlan& plan, const ModelShape& shape) {
  for (const ModuleQuantization& module : plan.modules) {
    if (!module.any()) continue;
    const std::string problem = misalignment(shape, module.module);
    if (!problem.empty()) throw Error(ExitStatus::usage, problem);
  }
}

}  // namespace octachoron
