#include "core/data/token_writer.h"

#include <unistd.h>

#include "core/base/error.h"
#include "core/storage/durable_file.h"

namespace octachoron {
namespace {

hid_t file_type(int bytes) {
  return bytes == 1 ? H5T_STD_U8LE : bytes == 2 ? H5T_STD_U16LE : bytes == 4 ? H5T_STD_U32LE : H5T_STD_U64LE;
}

Hdf5Handle create(hid_t file, const char* name, int bytes, std::int64_t length) {
  const std::string what = std::string("create /") + name;
  const hsize_t extent = hsize_t(length);
  const Hdf5Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose, what);
  const Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  hdf5_check(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER), what);  // every element is written, once
  return {H5Dcreate2(file, name, file_type(bytes), space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose,
          what};
}

void write_slice(hid_t dataset, hid_t type, std::int64_t first, std::int64_t count, const void* data) {
  if (count == 0) return;
  const hsize_t start = hsize_t(first), size = hsize_t(count);
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "find a slice");
  const Hdf5Handle memory(H5Screate_simple(1, &size, nullptr), H5Sclose, "find a slice");
  hdf5_check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, nullptr, &size, nullptr), "find a slice");
  hdf5_check(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, data), "write tokens");
}

}  // namespace

template <class Action>
void TokenFileWriter::guarded(Action&& action) const {
  const QuietHdf5 quiet;
  try {
    action();
  } catch (const Error& error) {
    fail(ExitStatus::data, "the data file '", path_, "' cannot be written (", error.what(),
         "); choose another place");
  }
}

TokenFileWriter::TokenFileWriter(const std::string& path, std::int64_t tokens, int id_bytes)
    : path_(path), temporary_(path + ".tmp"), tokens_(tokens) {
  guarded([&] {
    make_file(temporary_, tokens * id_bytes);  // has a better reason than HDF5, and sees that the tokens fit
    const Hdf5Handle access = file_access();
    file_ =
        Hdf5Handle(H5Fcreate(temporary_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "create it");
    ids_ = create(file_, "tokens", id_bytes, tokens);
  });
}

TokenFileWriter::~TokenFileWriter() {
  if (!kept_) ::unlink(temporary_.c_str());
}

void TokenFileWriter::append(const std::uint32_t* ids, std::int64_t count) {
  guarded([&] {
    if (done_ + count > tokens_) fail(ExitStatus::data, "an input has grown meanwhile");
    write_slice(ids_, H5T_NATIVE_UINT32, done_, count, ids);
  });
  done_ += count;
}

void TokenFileWriter::finish(const std::vector<std::uint64_t>& documents, std::int64_t vocab) {
  guarded([&] {
    if (done_ != tokens_) fail(ExitStatus::data, "an input has shrunk meanwhile");
    ids_.close("close /tokens");
    Hdf5Handle offsets = create(file_, "document_offsets", 8, std::int64_t(documents.size()));
    write_slice(offsets, H5T_NATIVE_UINT64, 0, std::int64_t(documents.size()), documents.data());
    offsets.close("close /document_offsets");
    write_attribute(file_, "vocab_size", std::uint64_t(vocab));
    file_.close("close it");
    sync_to_disk(temporary_);
  });
}

void TokenFileWriter::keep() {
  guarded([&] { publish(temporary_, path_); });
  kept_ = true;
}

}  // namespace octachoron
