#pragma once
/// What is legal together. Pure: needs no MPI, no file but to be told of the data's vocabulary.
#include <cstdint>

#include "core/config/parameter_file.h"

namespace octachoron {

/// Resolves defaults that depend on other values: output, comm, kv_heads, head_dim, ffn, vocab,
/// decay_steps... \param data_vocab vocabulary the training data says it has (256 for text); 0: unknown
/// \throws Error(usage) if a derived size does not fit 64 bits
void finalize(ParsedParameters& parsed, std::int64_t data_vocab);

/// Refuses what is illegal, naming the numbers and the nearest legal ones; also what a later version brings
/// ("... is not available in this version").
/// \param ranks ranks of the launch; 0: not checked
/// \throws Error(usage)
void validate(const Parameters& parameters, int ranks);

}  // namespace octachoron
