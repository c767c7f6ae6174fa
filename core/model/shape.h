#pragma once
/// Sizes of the model and of this rank's part of it. Letters as in operations.h.
#include "core/config/parameters.h"
#include "core/parallel/process_grid.h"
#include "core/program/emit.h"

namespace octachoron {

struct ModelShape {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0,
               sequence = 0;
  std::int64_t micro_batch = 0;  ///< sequences
  int tp = 1;
  bool sequence_parallel = false;  ///< outside the pairs of linears each TP rank holds tokens / tp rows
  bool tied = true;
  double norm_epsilon = 1e-5;

  std::int64_t tokens() const { return micro_batch * sequence; }
  std::int64_t local_tokens() const { return sequence_parallel ? tokens() / tp : tokens(); }
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t attention_columns() const { return heads * head_dim; }
  /// Rows of the token table a rank holds: equal on all, a multiple of 16, padding at the end.
  std::int64_t vocab_rows() const;
  VocabularyPart vocabulary_part() const { return {vocab_rows(), vocab, tp}; }
  AttentionShape attention() const { return {sequence, heads / tp, kv_heads / tp, head_dim}; }
};

ModelShape model_shape(const Parameters& parameters, const ProcessGrid& grid);

}  // namespace octachoron
