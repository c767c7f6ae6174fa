#pragma once
/// Writes token files with whatever is in them, right or wrong.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/storage/hdf5_handle.h"
#include "tests/data/scratch.h"

namespace octachoron {

/// A dataset as given: the type in the file is free, the shape one or more dimensions.
struct Values {
  std::vector<std::uint64_t> numbers;
  hid_t type = H5T_STD_U16LE;
  std::vector<hsize_t> shape = {};  ///< empty: one dimension
  bool packed = false;              ///< in compressed chunks
};

struct FileContents {
  std::optional<Values> tokens, loss_mask = {}, document_offsets = {};
  std::optional<std::uint64_t> vocab_size = {};
};

inline void write_values(hid_t file, const char* name, const Values& values) {
  std::vector<hsize_t> shape = values.shape;
  if (shape.empty()) shape = {hsize_t(values.numbers.size())};
  const Hdf5Handle space(H5Screate_simple(int(shape.size()), shape.data(), nullptr), H5Sclose,
                         "make a space");
  const Hdf5Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make properties");
  if (values.packed) {
    const hsize_t chunk = 7;
    hdf5_check(H5Pset_chunk(create, 1, &chunk), "cut in chunks");
    hdf5_check(H5Pset_deflate(create, 4), "compress");
  }
  const Hdf5Handle dataset(H5Dcreate2(file, name, values.type, space, H5P_DEFAULT, create, H5P_DEFAULT),
                           H5Dclose, "make a dataset");
  if (!values.numbers.empty())
    hdf5_check(H5Dwrite(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.numbers.data()),
               "write");
}

inline std::string write_hdf5(const Scratch& files, const std::string& name, const FileContents& contents) {
  const std::string path = files.path(name);
  const Hdf5Handle access = file_access();
  const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "make a file");
  if (contents.tokens) write_values(file, "tokens", *contents.tokens);
  if (contents.loss_mask) write_values(file, "loss_mask", *contents.loss_mask);
  if (contents.document_offsets) write_values(file, "document_offsets", *contents.document_offsets);
  if (contents.vocab_size) write_attribute(file, "vocab_size", *contents.vocab_size);
  return path;
}

/// first, first + 1, ...
inline std::vector<std::uint64_t> ascending(std::uint64_t first, int count) {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < count; ++i) out.push_back(first + std::uint64_t(i));
  return out;
}

inline Values mask_of(std::vector<std::uint64_t> numbers) {
  return {.numbers = std::move(numbers), .type = H5T_STD_U8LE};
}
inline Values offsets_of(std::vector<std::uint64_t> numbers) {
  return {.numbers = std::move(numbers), .type = H5T_STD_U64LE};
}

}  // namespace octachoron
