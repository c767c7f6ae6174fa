#include "core/checkpoint/save.h"

#include <unistd.h>

#include <filesystem>

#include "core/checkpoint/agreement.h"
#include "core/storage/durable_file.h"
#include "core/checkpoint/folder.h"
#include "core/checkpoint/parallel_writer.h"
#include "core/checkpoint/retention.h"
#include "core/checkpoint/stage.h"
#include "core/numerics/checksum.h"
#include "core/numerics/random.h"

namespace octachoron {
namespace {

// Collective calls of HDF5 must be the same on all ranks, so the lists must be, before the first of them.
void require_same_list(MPI_Comm comm, const std::vector<CheckpointTensor>& tensors) {
  std::uint64_t list = hash64("");
  for (const CheckpointTensor& tensor : tensors) {
    const TensorLayout& layout = tensor.tensor.layout;
    list = splitmix64(list + hash64(text(tensor.path, shape_text(layout), name(tensor.stored))));
  }
  std::uint64_t ends[2] = {list, ~list};
  MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_MAX, comm);
  ensure(ends[0] == ~ends[1], "the ranks want to store different lists of tensors");
}

// Every element of every tensor belongs to one rank. Returns the rounds of collective writes that each tensor
// takes.
std::vector<std::int64_t> plan_rounds(MPI_Comm comm, const std::vector<CheckpointTensor>& tensors) {
  std::vector<std::int64_t> rounds, owned;
  together(comm, [&] {
    for (const CheckpointTensor& tensor : tensors) {
      ensure(tensor.tensor.layout.global_size() > 0, tensor.path, " has no elements");
      ensure(tensor.path.size() > 1 && tensor.path[0] == '/', "the dataset name '", tensor.path,
             "' is not a path");
      file_type(tensor.stored);
      rounds.push_back(std::int64_t(cut(tensor, kPartElements).size()));
      owned.push_back(owned_elements(tensor));
    }
  });
  const int count = int(tensors.size());
  MPI_Allreduce(MPI_IN_PLACE, rounds.data(), count, MPI_INT64_T, MPI_MAX, comm);
  MPI_Allreduce(MPI_IN_PLACE, owned.data(), count, MPI_INT64_T, MPI_SUM, comm);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    ensure(owned[i] == tensors[i].tensor.layout.global_size(), "the ranks own ", owned[i], " elements of ",
           tensors[i].path, ", which has ", tensors[i].tensor.layout.global_size());
  return rounds;
}

// An upper bound.
std::int64_t file_bytes(const CheckpointHeader& header, const std::vector<CheckpointTensor>& tensors) {
  constexpr std::int64_t kOnce = 64 << 10, kPerDataset = 2048;  // object headers, attributes, groups
  std::int64_t bytes = kOnce + std::int64_t(header.parameters.size() + header.versions.size());
  for (const CheckpointTensor& tensor : tensors) {
    const std::int64_t data = tensor.tensor.layout.global_size() * size_of(tensor.stored);
    bytes += data + kPerDataset + (data >= kAlignFrom ? kAlignment : 0);
  }
  return bytes;
}

void write_all(MPI_Comm comm, const std::string& temporary, const CheckpointHeader& header,
               const std::vector<CheckpointTensor>& tensors, const std::vector<std::int64_t>& rounds) {
  ParallelWriter writer(comm, temporary);
  writer.create(header, tensors);
  together(comm, [&] {
    if (rank_of(comm) == 0) hold_space(temporary, file_bytes(header, tensors));  // HDF5 has emptied the file
  });
  std::vector<std::uint64_t> checksums;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    checksums.push_back(writer.write(i, tensors[i], rounds[i]));
  MPI_Allreduce(MPI_IN_PLACE, checksums.data(), int(checksums.size()), MPI_UINT64_T, MPI_SUM, comm);
  writer.finish(checksums);
}

void write_durably(MPI_Comm comm, const std::string& path, const CheckpointHeader& header,
                   const std::vector<CheckpointTensor>& tensors) {
  const std::vector<std::int64_t> rounds = plan_rounds(comm, tensors);
  const bool first = rank_of(comm) == 0;
  const std::string temporary = path + kTemporarySuffix;
  together(comm, [&] {
    if (!first) return;
    make_folder(folder_of(path));
    make_file(temporary, file_bytes(header, tensors));
  });
  try {
    together(comm, [&] { require_writable(temporary, file_bytes(header, tensors)); });
    write_all(comm, temporary, header, tensors, rounds);
    together(comm, [&] { sync_to_disk(temporary); });  // each node has its own part of it to push out
    together(comm, [&] {
      if (first) publish(temporary, path);
    });
  } catch (...) {
    if (first) ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace

void save_tensors(MPI_Comm comm, const std::string& path, const CheckpointHeader& header,
                  const std::vector<CheckpointTensor>& tensors) {
  std::string same_path = path;
  broadcast(comm, same_path);
  require_same_list(comm, tensors);
  try {
    write_durably(comm, same_path, header_of_rank_0(comm, header), tensors);
  } catch (const Error& error) {
    if (error.status() == ExitStatus::internal) throw;
    fail(ExitStatus::data, "'", same_path, "' was not saved (", error.what(),
         "); free space or choose another folder, older files are untouched");
  }
}

std::string save_checkpoint(MPI_Comm comm, const std::string& directory, const CheckpointHeader& header,
                            const std::vector<CheckpointTensor>& tensors, std::int64_t keep,
                            std::string* warnings) {
  std::string path = (std::filesystem::path(directory) / checkpoint_name(header.step)).string();
  broadcast(comm, path);
  save_tensors(comm, path, header, tensors);
  if (rank_of(comm) == 0) {
    std::string lines;
    try {
      lines = remove_older(folder_of(path), header.run_id, header.step, keep);
    } catch (const Error& error) {
      lines = text(error.what(), '\n');  // the new checkpoint stands all the same
    }
    if (warnings) *warnings += lines;
  }
  return path;
}

}  // namespace octachoron
