#include "core/checkpoint/load.h"

#include <memory>

#include "core/checkpoint/agreement.h"
#include "core/checkpoint/stage.h"

namespace octachoron {

CheckpointHeader load_checkpoint(MPI_Comm comm, const std::string& path,
                                 const std::vector<CheckpointTensor>& tensors) {
  std::unique_ptr<CheckpointFile> file;
  together(comm, [&] { file = std::make_unique<CheckpointFile>(path); });
  std::vector<std::uint64_t> sums;
  std::vector<std::int64_t> counts;
  together(comm, [&] {
    for (const CheckpointTensor& tensor : tensors) {
      sums.push_back(file->read(tensor));
      counts.push_back(owned_elements(tensor));
    }
  });
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), int(sums.size()), MPI_UINT64_T, MPI_SUM, comm);
  MPI_Allreduce(MPI_IN_PLACE, counts.data(), int(counts.size()), MPI_INT64_T, MPI_SUM, comm);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ensure(counts[i] == tensors[i].tensor.layout.global_size(), "the ranks own ", counts[i], " elements of ",
           tensors[i].path, ", which has ", tensors[i].tensor.layout.global_size());
    if (sums[i] != file->find(tensors[i].path)->checksum) refuse_checksum(path, tensors[i].path);
  }
  return file->header();
}

}  // namespace octachoron
