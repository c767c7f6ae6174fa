#include "core/checkpoint/save.h"

#include <unistd.h>

#include <bit>
#include <filesystem>
#include <memory>

#include "core/checkpoint/agreement.h"
#include "core/checkpoint/file_structure.h"
#include "core/checkpoint/folder.h"
#include "core/checkpoint/hdf5_tensor.h"
#include "core/checkpoint/retention.h"
#include "core/checkpoint/stage.h"
#include "core/numerics/checksum.h"
#include "core/numerics/random.h"
#include "core/storage/durable_file.h"

namespace octachoron {
namespace {

static_assert(std::endian::native == std::endian::little, "values go to the file as they lie in memory");

// Every rank writes at places that rank 0 has given the tensors of its own list.
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

// Every element of every tensor belongs to one rank.
void require_one_owner(MPI_Comm comm, const std::vector<CheckpointTensor>& tensors) {
  std::vector<std::int64_t> owned;
  together(comm, [&] {
    for (const CheckpointTensor& tensor : tensors) {
      ensure(tensor.tensor.layout.global_size() > 0, tensor.path, " has no elements");
      ensure(tensor.path.size() > 1 && tensor.path[0] == '/', "the dataset name '", tensor.path,
             "' is not a path");
      file_type(tensor.stored);
      cut(tensor, kPartElements);  // refuses wrong ranges and types
      owned.push_back(owned_elements(tensor));
    }
  });
  MPI_Allreduce(MPI_IN_PLACE, owned.data(), int(tensors.size()), MPI_INT64_T, MPI_SUM, comm);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    ensure(owned[i] == tensors[i].tensor.layout.global_size(), "the ranks own ", owned[i], " elements of ",
           tensors[i].path, ", which has ", tensors[i].tensor.layout.global_size());
}

void write_piece(const OutputFile& file, std::int64_t dataset, const CheckpointTensor& tensor,
                 const Piece& piece, const std::byte* values) {
  const TensorLayout& layout = tensor.tensor.layout;
  const std::int64_t element_bytes = size_of(tensor.stored);
  const bool whole_rows = piece.columns == layout.global_columns;  // of the global tensor: one block
  const std::int64_t writes = whole_rows ? 1 : piece.rows, count = whole_rows ? piece.size() : piece.columns;
  for (std::int64_t i = 0; i < writes; ++i)
    file.write(dataset + layout.global_index(piece.row + i, piece.column) * element_bytes,
               values + i * count * element_bytes, count * element_bytes);
}

// \return the partial checksum of what this rank owns
std::uint64_t write_tensor(const OutputFile& file, std::int64_t dataset, const CheckpointTensor& tensor) {
  std::uint64_t sum = 0;
  for (const OwnedRange& range : cut(tensor, kPartElements)) {
    const StagedPart part = stage(tensor, range);
    const std::byte* values = part.values.data();
    for (const Piece& piece : part.pieces) {
      write_piece(file, dataset, tensor, piece, values);
      values += piece.size() * size_of(tensor.stored);
    }
    sum += part.checksum;
  }
  return sum;
}

std::vector<std::uint64_t> write_values(const std::string& path, const std::vector<std::int64_t>& offsets,
                                        const std::vector<CheckpointTensor>& tensors) {
  const OutputFile file(path);
  std::vector<std::uint64_t> checksums;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    checksums.push_back(write_tensor(file, offsets[i], tensors[i]));
  file.sync();  // some file systems report a failed write here only
  return checksums;
}

// Rank 0 makes the file and says where values belong; every rank writes its own; the structure comes last.
// What fails is a call of one rank, after which all agree.
void write_durably(MPI_Comm comm, const std::string& path, const CheckpointHeader& header,
                   const std::vector<CheckpointTensor>& tensors) {
  require_one_owner(comm, tensors);
  const bool first = rank_of(comm) == 0;
  const std::string temporary = path + kTemporarySuffix;
  std::unique_ptr<FileStructure> structure;
  std::vector<std::int64_t> offsets(tensors.size());
  together(comm, [&] {
    if (!first) return;
    structure = std::make_unique<FileStructure>(header, tensors);
    offsets = structure->offsets();
    make_folder(folder_of(path));
    make_file(temporary, structure->bytes());
  });
  MPI_Bcast(offsets.data(), int(offsets.size()), MPI_INT64_T, 0, comm);
  try {
    std::vector<std::uint64_t> checksums;
    together(comm, [&] { checksums = write_values(temporary, offsets, tensors); });
    MPI_Allreduce(MPI_IN_PLACE, checksums.data(), int(checksums.size()), MPI_UINT64_T, MPI_SUM, comm);
    together(comm, [&] {
      if (!first) return;
      structure->finish(checksums);
      const OutputFile file(temporary);
      structure->write_to(file);
      file.sync();
      publish(temporary, path);
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
