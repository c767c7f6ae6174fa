#pragma once
/// HDF5 without forgotten handles and unread return codes.
#include <hdf5.h>

#include <cstdint>
#include <string>
#include <utility>

namespace octachoron {

/// Owns one HDF5 identifier. A failed call's negative identifier throws in the constructor.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Handle() = default;
  /// \param what was attempted, for the message: "create the dataset /master/x"
  Hdf5Handle(hid_t id, Close close, const std::string& what);
  ~Hdf5Handle();
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }

  operator hid_t() const { return id_; }  // NOLINT: it is one
  void close(const std::string& what);    ///< throws if HDF5 cannot
  hid_t release() { return std::exchange(id_, -1); }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Turns off HDF5's own printing of errors while it lives.
class QuietHdf5 {
 public:
  QuietHdf5();
  ~QuietHdf5();
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost description on HDF5's error stack of this thread, with the system's reason where it has one.
std::string hdf5_reason();

/// \throws Error(data) "cannot <what>: <reason>" if `result` is negative
void hdf5_check(herr_t result, const std::string& what);

/// File access without file locks, which network file systems refuse.
Hdf5Handle read_access();
/// The same, for files that are written: format 1.10.
Hdf5Handle file_access();

void write_attribute(hid_t object, const char* name, std::uint64_t value);
void write_attribute(hid_t object, const char* name, const std::string& value);
bool has_attribute(hid_t object, const char* name);
std::uint64_t read_number(hid_t object, const char* name);
std::string read_text(hid_t object, const char* name);

}  // namespace octachoron
