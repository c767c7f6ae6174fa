#pragma once
/// `data import`: token files from text, raw ids or lists of ids.
#include <cstdint>
#include <string>
#include <vector>

namespace octachoron {

struct ImportOptions {
  std::string from =
      "auto";  ///< auto and text: bytes are ids; u16, u32: raw little-endian ids; ids: decimal numbers
  std::int64_t vocab = 0;       ///< ids are below; 0: 256 for text, refused for others
  std::int64_t separator = -1;  ///< a document ends after this id; -1: with its file only
  std::string output;
};

/// Joins files into one token file in HDF5 (u8, u16 or u32, as the vocabulary needs), written beside its
/// final name, read back, synced and renamed. Each input begins a document. Returns what was done. \throws
/// Error(data) if an input is unusable, has an id beyond the vocabulary, or the output cannot be written;
/// Error(usage) for what does not fit together
std::string import_data(const std::vector<std::string>& inputs, const ImportOptions& options);

}  // namespace octachoron
