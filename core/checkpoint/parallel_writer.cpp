#include "core/checkpoint/parallel_writer.h"

#include "core/checkpoint/agreement.h"
#include "core/checkpoint/stage.h"

namespace octachoron {
namespace {

Hdf5Handle parallel_access(MPI_Comm comm) {
  Hdf5Handle access = file_access();
  // MPI-IO would gather in buffers of a size of its own, 32 MiB with Open MPI, which no plan counts.
  MPI_Info hints = MPI_INFO_NULL;
  MPI_Info_create(&hints);
  MPI_Info_set(hints, "cb_buffer_size", std::to_string(kCollectiveBytes).c_str());
  const herr_t chosen = H5Pset_fapl_mpio(access, comm, hints);  // keeps a copy
  MPI_Info_free(&hints);
  hdf5_check(chosen, "choose the MPI driver");
  hdf5_check(H5Pset_all_coll_metadata_ops(access, true), "make metadata collective");
  hdf5_check(H5Pset_coll_metadata_write(access, true), "make metadata collective");
  hdf5_check(H5Pset_alignment(access, hsize_t(kAlignFrom), hsize_t(kAlignment)), "align datasets");
  return access;
}

Hdf5Handle create_dataset(hid_t file, const CheckpointTensor& tensor) {
  const std::string what = "create the dataset " + tensor.path;
  const Hdf5Handle space = global_space(tensor.tensor.layout);
  Hdf5Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  hdf5_check(H5Pset_layout(create, H5D_CONTIGUOUS), what);
  hdf5_check(H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY), what);
  hdf5_check(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), what);  // every element is written, once
  return {H5Dcreate2(file, tensor.path.c_str(), file_type(tensor.stored), space, H5P_DEFAULT, create,
                     H5P_DEFAULT),
          H5Dclose, what};
}

void write_header(hid_t file, const CheckpointHeader& header) {
  write_attribute(file, "format_version", std::uint64_t(kCheckpointFormat));
  write_attribute(file, "step", std::uint64_t(header.step));
  write_attribute(file, "samples", std::uint64_t(header.samples));
  write_attribute(file, "tokens", std::uint64_t(header.tokens));
  write_attribute(file, "skipped", std::uint64_t(header.skipped));
  write_attribute(file, "seed", header.seed);
  write_attribute(file, "run_id", header.run_id);
  write_attribute(file, "parameters", header.parameters);
  write_attribute(file, "versions", header.versions);
}

}  // namespace

ParallelWriter::ParallelWriter(MPI_Comm comm, const std::string& path) : comm_(comm) {
  try {
    together(comm, [&] {
      const Hdf5Handle access = parallel_access(comm);
      transfer_ = Hdf5Handle(H5Pcreate(H5P_DATASET_XFER), H5Pclose, "set up transfers");
      hdf5_check(H5Pset_dxpl_mpio(transfer_, H5FD_MPIO_COLLECTIVE), "make transfers collective");
      file_ = Hdf5Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose,
                         "create '" + path + "'");
    });
  } catch (...) {
    file_.release();  // closing is collective, and not all ranks have the file
    throw;
  }
}

// After an error the members go in this order on all ranks: datasets, file. Their return codes say nothing
// new.
ParallelWriter::~ParallelWriter() {
  datasets_.clear();
}

void ParallelWriter::create(const CheckpointHeader& header, const std::vector<CheckpointTensor>& tensors) {
  together(comm_, [&] {
    write_header(file_, header);
    for (const CheckpointTensor& tensor : tensors) {
      create_groups(tensor.path, std::uint64_t(header.step));
      datasets_.push_back(create_dataset(file_, tensor));
    }
  });
}

void ParallelWriter::create_groups(const std::string& path, std::uint64_t step) {
  for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string name = path.substr(0, slash);
    if (!groups_.insert(name).second) continue;
    Hdf5Handle group(H5Gcreate2(file_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                     "create the group " + name);
    write_attribute(group, "step", step);
    group.close("close the group " + name);
  }
}

std::uint64_t ParallelWriter::write(std::size_t index, const CheckpointTensor& tensor, std::int64_t rounds) {
  const std::vector<OwnedRange> parts = cut(tensor, kPartElements);
  std::uint64_t sum = 0;
  for (std::int64_t round = 0; round < rounds; ++round)
    together(comm_, [&] {
      const bool idle = round >= std::int64_t(parts.size());
      sum += write_round(index, tensor, idle ? nullptr : &parts[std::size_t(round)]);
    });
  return sum;
}

// A rank without a part of this round selects nothing: the write is collective all the same.
std::uint64_t ParallelWriter::write_round(std::size_t index, const CheckpointTensor& tensor,
                                          const OwnedRange* range) {
  const StagedPart part = range ? stage(tensor, *range) : StagedPart{};
  const Hdf5Handle space = global_space(tensor.tensor.layout);
  select(space, tensor.tensor.layout, part.pieces.data(), part.pieces.size());
  const hsize_t count = part.count > 0 ? hsize_t(part.count) : 1;
  const Hdf5Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose, "make a dataspace");
  if (part.count == 0) hdf5_check(H5Sselect_none(memory), "select nothing");
  std::uint64_t nothing = 0;  // HDF5 wants an address even for no elements
  const void* values = part.count > 0 ? static_cast<const void*>(part.values.data()) : &nothing;
  hdf5_check(H5Dwrite(datasets_[index], memory_type(tensor.stored), memory, space, transfer_, values),
             "write the dataset " + tensor.path);
  return part.checksum;
}

void ParallelWriter::finish(const std::vector<std::uint64_t>& checksums) {
  together(comm_, [&] {
    for (std::size_t i = 0; i < datasets_.size(); ++i) {
      write_attribute(datasets_[i], "checksum", checksums[i]);
      datasets_[i].close("close a dataset");
    }
    hdf5_check(H5Fflush(file_, H5F_SCOPE_GLOBAL), "write out the file");
  });
  together(comm_, [&] {
    write_attribute(file_, "complete", std::uint64_t(1));
    file_.close("close the file");
  });
}

}  // namespace octachoron
