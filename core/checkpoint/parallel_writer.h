#pragma once
/// One HDF5 file written by all ranks of a communicator.
#include <mpi.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/hdf5_tensor.h"

namespace octachoron {

inline constexpr std::int64_t kAlignFrom = 64 << 10,
                              kAlignment = 4096;  ///< bytes: larger datasets begin on pages

/// All calls are collective and made in the same order with the same names on all ranks; only the data
/// differs. A call that throws throws on all ranks. The file is a whole checkpoint after finish() and not
/// before.
class ParallelWriter {
 public:
  ParallelWriter(MPI_Comm comm, const std::string& path);
  ~ParallelWriter();

  /// Attributes of `/`, all groups with their `step`, all datasets.
  void create(const CheckpointHeader& header, const std::vector<CheckpointTensor>& tensors);
  /// The data of one dataset, in `rounds` collective writes. \returns this rank's partial checksum
  std::uint64_t write(std::size_t index, const CheckpointTensor& tensor, std::int64_t rounds);
  /// The checksums, `complete`, and everything out to the file system.
  void finish(const std::vector<std::uint64_t>& checksums);

 private:
  void create_groups(const std::string& path, std::uint64_t step);
  std::uint64_t write_round(std::size_t index, const CheckpointTensor& tensor, const OwnedRange* range);

  MPI_Comm comm_;
  QuietHdf5 quiet_;
  Hdf5Handle file_, transfer_;
  std::vector<Hdf5Handle> datasets_;
  std::set<std::string> groups_;
};

}  // namespace octachoron
