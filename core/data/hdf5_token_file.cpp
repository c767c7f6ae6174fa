#include "core/data/hdf5_token_file.h"

#include <vector>

#include "core/base/error.h"

namespace octachoron {
namespace {

struct Column {
  Hdf5Handle dataset;
  std::int64_t length = 0;
  int bytes = 0;  // of an element
};

// \param most bytes of an element; `least` to `most` are legal where they are 1, 2, 4 or 8
Column open_column(hid_t file, const std::string& name, int least, int most) {
  Column column;
  column.dataset = Hdf5Handle(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, "open /" + name);
  const Hdf5Handle type(H5Dget_type(column.dataset), H5Tclose, "read the type of /" + name);
  const Hdf5Handle space(H5Dget_space(column.dataset), H5Sclose, "read the shape of /" + name);
  column.bytes = int(H5Tget_size(type));
  const bool is_unsigned = H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE;
  if (!is_unsigned || column.bytes < least || column.bytes > most || (column.bytes & (column.bytes - 1)) != 0)
    fail(ExitStatus::data, "/", name, " is not of type u", 8 * least,
         least == most ? "" : text(" to u", 8 * most));
  hsize_t extent = 0;
  if (H5Sget_simple_extent_ndims(space) != 1 || H5Sget_simple_extent_dims(space, &extent, nullptr) != 1)
    fail(ExitStatus::data, "/", name, " has not one dimension");
  column.length = std::int64_t(extent);
  return column;
}

void read_slice(hid_t dataset, std::int64_t first, std::int64_t count, hid_t type, void* out) {
  if (count == 0) return;
  const hsize_t start = hsize_t(first), size = hsize_t(count);
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose, "find a slice");
  const Hdf5Handle memory(H5Screate_simple(1, &size, nullptr), H5Sclose, "find a slice");
  hdf5_check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, nullptr, &size, nullptr), "find a slice");
  hdf5_check(H5Dread(dataset, type, memory, space, H5P_DEFAULT, out), "read a slice");
}

}  // namespace

// What goes wrong inside becomes the reason of one sentence that names the file.
template <class Action>
void Hdf5TokenFile::guarded(Action&& action) const {
  const QuietHdf5 quiet;
  try {
    action();
  } catch (const Error& error) {
    refuse_data_file(path_, error.what(),
                     "look at it with h5dump -H, or write it anew as core/docs/data.md says");
  }
}

Hdf5TokenFile::Hdf5TokenFile(const std::string& path) : TokenFile(path) {
  guarded([&] {
    const Hdf5Handle access = read_access();
    file_ = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose, "open it as HDF5");
    const auto exists = [&](const char* name) { return H5Lexists(file_, name, H5P_DEFAULT) > 0; };
    if (!exists("tokens")) fail(ExitStatus::data, "it has no dataset /tokens");
    Column ids = open_column(file_, "tokens", 1, 4);
    ids_ = std::move(ids.dataset);
    tokens_ = ids.length;
    id_bytes_ = ids.bytes;
    if (tokens_ == 0) fail(ExitStatus::data, "/tokens is empty");
    has_mask_ = exists("loss_mask");
    if (has_mask_) {
      Column mask = open_column(file_, "loss_mask", 1, 1);
      if (mask.length != tokens_)
        fail(ExitStatus::data, "/loss_mask has ", mask.length, " entries for ", tokens_, " tokens");
      mask_ = std::move(mask.dataset);
    }
    if (exists("document_offsets")) {
      Column offsets = open_column(file_, "document_offsets", 8, 8);
      offsets_count_ = offsets.length;
      offsets_ = std::move(offsets.dataset);
    }
    read_vocab();
  });
}

// Reasons for a close that fails do not matter: nothing was written.
Hdf5TokenFile::~Hdf5TokenFile() = default;

void Hdf5TokenFile::read_vocab() {
  const hid_t holder = has_attribute(file_, "vocab_size") ? hid_t(file_) : hid_t(ids_);
  if (!has_attribute(holder, "vocab_size")) return;
  const std::uint64_t value = read_number(holder, "vocab_size");
  if (value < 2 || value > std::uint64_t(kLargestVocabulary))
    fail(ExitStatus::data, "its vocab_size is ", value, ", which is not within 2 .. ", kLargestVocabulary);
  if ((value - 1) >> (8 * id_bytes_) > 0)
    fail(ExitStatus::data, "its vocab_size is ", value, ", but an id of ", 8 * id_bytes_, " bits ends at ",
         (std::uint64_t(1) << (8 * id_bytes_)) - 1);
  vocab_ = std::int64_t(value);
}

std::string Hdf5TokenFile::kind() const {
  return text("hdf5 u", 8 * id_bytes_);
}

void Hdf5TokenFile::read(std::int64_t first, std::int64_t count, std::uint32_t* ids) const {
  guarded([&] { read_slice(ids_, first, count, H5T_NATIVE_UINT32, ids); });
}

void Hdf5TokenFile::read_mask(std::int64_t first, std::int64_t count, std::uint8_t* counts) const {
  if (!has_mask_) return TokenFile::read_mask(first, count, counts);
  guarded([&] { read_slice(mask_, first, count, H5T_NATIVE_UINT8, counts); });
}

std::int64_t Hdf5TokenFile::documents() const {
  constexpr std::int64_t kWindow = 1 << 17;
  std::vector<std::uint64_t> window(static_cast<std::size_t>(std::min(kWindow, offsets_count_)));
  std::int64_t count = 0;
  std::uint64_t before = 0;
  for (std::int64_t first = 0; first < offsets_count_; first += kWindow) {
    const std::int64_t size = std::min(kWindow, offsets_count_ - first);
    guarded([&] {
      read_slice(offsets_, first, size, H5T_NATIVE_UINT64, window.data());
      for (std::int64_t i = 0; i < size; ++i) {
        const std::uint64_t begin = window[std::size_t(i)];
        if (begin > std::uint64_t(tokens_))
          fail(ExitStatus::data, "document ", first + i, " begins at ", begin, ", the file ends at ",
               tokens_);
        if (begin < before)
          fail(ExitStatus::data, "document ", first + i, " begins at ", begin, ", the one before it at ",
               before);
        count += first + i > 0 && begin > before;  // the one before is not empty
        before = begin;
      }
    });
  }
  return count + (offsets_count_ > 0 && before < std::uint64_t(tokens_));
}

}  // namespace octachoron
