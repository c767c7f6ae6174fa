#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/checkpoint/hdf5_tensor.h"
#include "core/checkpoint/load.h"

namespace octachoron {
namespace {

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw CheckpointDamaged(
      text("the checkpoint '", path, "' is not complete or is damaged (", why, "); use an older one"));
}

DType stored_type(hid_t dataset, const std::string& path) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose, "read the type of " + path);
  for (const DType candidate : {OCT_F32, OCT_U32, OCT_U64})
    if (H5Tequal(type, file_type(candidate)) > 0) return candidate;
  fail(ExitStatus::data, "the dataset ", path, " has a type that a checkpoint does not store");
}

StoredTensor describe_dataset(hid_t dataset, const std::string& path) {
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "read the shape of " + path);
  hsize_t extent[H5S_MAX_RANK] = {};
  const int rank = H5Sget_simple_extent_dims(space, extent, nullptr);
  if (rank != 1 && rank != 2) fail(ExitStatus::data, "the dataset ", path, " has ", rank, " dimensions");
  if (!has_attribute(dataset, "checksum")) fail(ExitStatus::data, "the dataset ", path, " has no checksum");
  const auto rows = std::int64_t(extent[0]), columns = std::int64_t(extent[1]);
  return {.path = path,
          .layout = rank == 1 ? as_vector(replicated(rows, 1)) : replicated(rows, columns),
          .stored = stored_type(dataset, path),
          .checksum = read_number(dataset, "checksum")};
}

// Walks groups and datasets below `group` in order of name.
struct Walk {
  std::uint64_t step;
  std::vector<StoredTensor>& tensors;

  void group(hid_t group, const std::string& path) {
    if (!has_attribute(group, "step")) fail(ExitStatus::data, "the group ", path, "/ carries no step");
    if (const std::uint64_t own = read_number(group, "step"); own != step)
      fail(ExitStatus::data, "the group ", path, "/ is of step ", own, ", the file of step ", step);
    H5G_info_t info;
    hdf5_check(H5Gget_info(group, &info), "list the group " + path);
    for (hsize_t i = 0; i < info.nlinks; ++i) member(group, path, i);
  }

  void member(hid_t group, const std::string& path, hsize_t index) {
    const auto name_into = [&](char* out, std::size_t bytes) {
      const auto length =
          H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, index, out, bytes, H5P_DEFAULT);
      hdf5_check(length < 0 ? -1 : 0, "list the group " + path);
      return std::size_t(length);
    };
    std::string name(name_into(nullptr, 0), '\0');
    name_into(name.data(), name.size() + 1);
    const Hdf5Handle object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose, "open " + path + "/" + name);
    if (H5Iget_type(object) == H5I_GROUP) this->group(object, path + "/" + name);
    if (H5Iget_type(object) == H5I_DATASET) tensors.push_back(describe_dataset(object, path + "/" + name));
  }
};

}  // namespace

CheckpointFile::CheckpointFile(const std::string& path) : path_(path) {
  if (::access(path.c_str(), R_OK) != 0)
    fail(ExitStatus::data, "the checkpoint '", path, "' cannot be opened (", std::strerror(errno),
         "); check the path and its permissions");
  const QuietHdf5 quiet;
  const Hdf5Handle access = file_access();  // lives on: closing it would clear the reason
  handle_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  if (handle_ < 0) damaged(path, hdf5_reason());
  Hdf5Handle file(handle_, H5Fclose, "open a file");
  try {
    read_header();
    read_index();
  } catch (const CheckpointDamaged&) {
    throw;
  } catch (const Error& error) {
    if (error.status() != ExitStatus::data) throw;
    damaged(path, error.what());
  }
  file.release();
}

CheckpointFile::~CheckpointFile() {
  H5Fclose(handle_);
}

const StoredTensor* CheckpointFile::find(const std::string& path) const {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), path,
                       [](const StoredTensor& tensor, const std::string& key) { return tensor.path < key; });
  return at != tensors_.end() && at->path == path ? &*at : nullptr;
}

void CheckpointFile::read_header() {
  if (!has_attribute(handle_, "complete"))
    damaged(path_, "its save did not end: the attribute complete is missing");
  const std::uint64_t format = read_number(handle_, "format_version");
  if (format != std::uint64_t(kCheckpointFormat))
    fail(ExitStatus::environment, "the checkpoint '", path_, "' has format ", format, " (this version reads ",
         kCheckpointFormat, "); use the version that wrote it");
  header_.step = std::int64_t(read_number(handle_, "step"));
  header_.samples = std::int64_t(read_number(handle_, "samples"));
  header_.tokens = std::int64_t(read_number(handle_, "tokens"));
  header_.skipped = has_attribute(handle_, "skipped") ? std::int64_t(read_number(handle_, "skipped")) : 0;
  header_.seed = read_number(handle_, "seed");
  header_.run_id = read_text(handle_, "run_id");
  header_.parameters = read_text(handle_, "parameters");
  header_.versions = read_text(handle_, "versions");
  if (has_attribute(handle_, "tuning")) header_.tuning = read_text(handle_, "tuning");
}

void CheckpointFile::read_index() {
  const Hdf5Handle root(H5Gopen2(handle_, "/", H5P_DEFAULT), H5Gclose, "open the root group");
  Walk{std::uint64_t(header_.step), tensors_}.group(root, "");
  std::sort(tensors_.begin(), tensors_.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.path < b.path; });
}

}  // namespace octachoron
