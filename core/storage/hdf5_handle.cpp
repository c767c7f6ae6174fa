#include "core/storage/hdf5_handle.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/base/error.h"

namespace octachoron {

Hdf5Handle::Hdf5Handle(hid_t id, Close close, const std::string& what) : id_(id), close_(close) {
  hdf5_check(id < 0 ? -1 : 0, what);
}

Hdf5Handle::~Hdf5Handle() {
  if (id_ >= 0) close_(id_);  // only on the way out of an error, or where nothing was written
}

void Hdf5Handle::close(const std::string& what) {
  if (id_ >= 0) hdf5_check(close_(release()), what);
}

QuietHdf5::QuietHdf5() {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietHdf5::~QuietHdf5() {
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
        auto& text = *static_cast<std::string*>(out);
        if (error->desc && *error->desc) text += (text.empty() ? "" : ": ") + std::string(error->desc);
        return text.size() > 200 ? 1 : 0;
      },
      &reason);
  H5Eclear2(H5E_DEFAULT);
  return reason.empty() ? "HDF5 gives no reason" : reason;
}

void hdf5_check(herr_t result, const std::string& what) {
  if (result < 0) fail(ExitStatus::data, "cannot ", what, ": ", hdf5_reason());
}

Hdf5Handle read_access() {
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "set up file access");
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 11, 0))
  hdf5_check(H5Pset_file_locking(access, false, true), "turn off file locks");
#endif
  return access;
}

Hdf5Handle file_access() {
  Hdf5Handle access = read_access();
  hdf5_check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "choose the file format");
  return access;
}

void write_attribute(hid_t object, const char* name, std::uint64_t value) {
  const std::string what = std::string("write the attribute ") + name;
  Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, what);
  Hdf5Handle attribute(H5Acreate2(object, name, H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                       what);
  hdf5_check(H5Awrite(attribute, H5T_NATIVE_UINT64, &value), what);
  attribute.close(what);
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
  const std::string what = std::string("write the attribute ") + name;
  Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose, what);
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, what);
  hdf5_check(H5Tset_size(type, value.size() + 1), what);
  hdf5_check(H5Tset_cset(type, H5T_CSET_UTF8), what);
  Hdf5Handle attribute(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
  hdf5_check(H5Awrite(attribute, type, value.c_str()), what);
  attribute.close(what);
}

bool has_attribute(hid_t object, const char* name) {
  return H5Aexists(object, name) > 0;
}

std::uint64_t read_number(hid_t object, const char* name) {
  const std::string what = std::string("read the attribute ") + name;
  Hdf5Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, what);
  Hdf5Handle space(H5Aget_space(attribute), H5Sclose, what);
  if (H5Sget_simple_extent_npoints(space) != 1)
    fail(ExitStatus::data, "cannot ", what, ": it is not one number");
  std::uint64_t value = 0;
  hdf5_check(H5Aread(attribute, H5T_NATIVE_UINT64, &value), what);
  return value;
}

std::string read_text(hid_t object, const char* name) {
  const std::string what = std::string("read the attribute ") + name;
  Hdf5Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, what);
  Hdf5Handle type(H5Aget_type(attribute), H5Tclose, what);
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 ||
      H5Aget_storage_size(attribute) != H5Tget_size(type))
    fail(ExitStatus::data, "cannot ", what, ": it is not a text of fixed length");
  std::vector<char> value(H5Tget_size(type));
  hdf5_check(H5Aread(attribute, type, value.data()), what);
  return {value.begin(), std::find(value.begin(), value.end(), '\0')};
}

}  // namespace octachoron
