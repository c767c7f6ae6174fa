#pragma once
/// All of a checkpoint file but its values: what HDF5 writes. HDF5 never meets the disk, since a failed write
/// leaves it in a state that ends the process, and a collective one leaves other ranks waiting. It writes to
/// memory, says where the values of each dataset belong, and what it wrote goes to the file as plain bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/hdf5_tensor.h"
#include "core/storage/durable_file.h"

namespace octachoron {

inline constexpr std::int64_t kAlignFrom = 64 << 10,
                              kAlignment = 4096;  ///< bytes: larger datasets begin on pages

class FileStructure {
 public:
  /// Attributes of `/`, all groups with their `step`, all datasets, without values. Takes some KiB of memory
  /// a dataset, whatever its size. \throws Error(data)
  FileStructure(const CheckpointHeader& header, const std::vector<CheckpointTensor>& tensors);
  ~FileStructure();
  FileStructure(const FileStructure&) = delete;
  FileStructure& operator=(const FileStructure&) = delete;

  std::int64_t bytes() const { return bytes_; }  ///< of the whole file; an upper bound before finish()
  /// Where the values of each dataset begin, in bytes.
  const std::vector<std::int64_t>& offsets() const { return offsets_; }

  /// \param checksums of the datasets. Once, before write_to(). \throws Error(data)
  void finish(const std::vector<std::uint64_t>& checksums);
  /// Writes all bytes but those of the values, which makes the file a checkpoint. \throws Error(data)
  void write_to(const OutputFile& file) const;

 private:
  void create(const std::string& path, const CheckpointHeader& header);

  const std::vector<CheckpointTensor>& tensors_;
  int memory_ = -1;  // descriptor of a file in memory, with holes where values belong
  Hdf5Handle file_;  // the same, until it is finished
  std::int64_t bytes_ = 0;
  std::vector<std::int64_t> offsets_;
};

}  // namespace octachoron
