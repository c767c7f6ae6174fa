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
  ModelFamily family = ModelFamily::gpt2;
  bool qkv_bias = true;
  double rope_theta = 0;

  bool gpt2() const { return family == ModelFamily::gpt2; }
  /// TP ranks that share one key and value head, where there are fewer heads than ranks; else 1.
  int kv_sharers() const { return kv_heads < tp ? tp / int(kv_heads) : 1; }
  std::int64_t local_kv_heads() const { return kv_heads < tp ? 1 : kv_heads / tp; }

  std::int64_t tokens() const { return micro_batch * sequence; }
  std::int64_t local_tokens() const { return sequence_parallel ? tokens() / tp : tokens(); }
  /// Rows of the packed weights of this rank: queries, then keys and values.
  std::int64_t local_query_rows() const { return heads / tp * head_dim; }
  std::int64_t local_kv_rows() const { return 2 * local_kv_heads() * head_dim; }
  std::int64_t attention_columns() const { return heads * head_dim; }
  /// Rows of the token table a rank holds: equal on all, a multiple of 16, padding at the end.
  std::int64_t vocab_rows() const;
  VocabularyPart vocabulary_part() const { return {vocab_rows(), vocab, tp}; }
  AttentionShape attention() const { return {sequence, heads / tp, local_kv_heads(), head_dim}; }
};

ModelShape model_shape(const Parameters& parameters, const ProcessGrid& grid);

}  // namespace octachoron
