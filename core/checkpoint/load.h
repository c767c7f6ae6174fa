#pragma once
/// Reading of checkpoints, on any grid.
#include <mpi.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace octachoron {

/// One dataset of a file, as the whole it is.
struct StoredTensor {
  std::string path;
  TensorLayout layout;
  DType stored = OCT_F32;
  std::uint64_t checksum = 0;
};

/// The dataset as boxes of bounded size, in row-major order.
std::vector<Piece> blocks(const StoredTensor& tensor);

/// An open checkpoint. Serial: every rank may hold one of the same file.
class CheckpointFile {
 public:
  /// \throws CheckpointDamaged if the file is truncated, is no HDF5 file, lacks `complete`, has groups of
  /// different steps; Error(data) if it cannot be opened or is of a later format
  explicit CheckpointFile(const std::string& path);
  ~CheckpointFile();
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  const std::string& path() const { return path_; }
  const CheckpointHeader& header() const { return header_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  ///< in order of path
  const StoredTensor* find(const std::string& path) const;               ///< null if absent

  /// Fills the ranges of `tensor`, replicated rows too; padding is left as it is.
  /// \returns the partial checksum of the owned elements read
  /// \throws Error(data) naming the tensor if it is missing or its shape (both are printed) or type is
  /// another
  std::uint64_t read(const CheckpointTensor& tensor) const;

  /// One box of a dataset, bits unchanged. \param out room for its elements in the stored type
  void read_block(const StoredTensor& tensor, const Piece& block, void* out) const;

  /// Reads the whole dataset in blocks. \throws CheckpointDamaged naming it if its checksum is another
  void verify(const StoredTensor& tensor) const;

 private:
  void read_header();
  void read_index();

  std::string path_;
  std::int64_t handle_ = -1;
  CheckpointHeader header_;
  std::vector<StoredTensor> tensors_;
};

/// Fills all ranges on all ranks and compares the checksums: the owned ranges of all ranks must cover each
/// tensor once, as for a save. Collective; the error of any rank is thrown on all. \throws CheckpointDamaged
/// if a file or a checksum is bad, Error(data) for a missing tensor, another shape or type
CheckpointHeader load_checkpoint(MPI_Comm comm, const std::string& path,
                                 const std::vector<CheckpointTensor>& tensors);

struct LatestCheckpoint {
  std::string path;  ///< empty: none
  CheckpointHeader header;
  std::vector<std::string> notes;  ///< a line on each file that was passed over, and why
};

/// The newest complete checkpoint of `directory` below a step. A missing folder holds none.
/// \param run_id only those of this run; empty: any
LatestCheckpoint find_latest(const std::string& directory, const std::string& run_id = "",
                             std::int64_t below_step = std::numeric_limits<std::int64_t>::max());

/// find_latest by rank 0, the answer on all ranks (the notes too).
LatestCheckpoint find_latest(MPI_Comm comm, const std::string& directory, const std::string& run_id = "",
                             std::int64_t below_step = std::numeric_limits<std::int64_t>::max());

}  // namespace octachoron
