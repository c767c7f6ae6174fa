#include "core/storage/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"

namespace octachoron {
namespace {

[[noreturn]] void refuse(const char* what, const std::string& path, int reason) {
  fail(ExitStatus::data, "cannot ", what, " '", path, "': ", std::strerror(reason));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* what)
      : id_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (id_ < 0) refuse(what, path, errno);
  }
  ~Descriptor() { ::close(id_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return id_; }  // NOLINT: it is one

 private:
  int id_;
};

}  // namespace

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) refuse("make the folder", folder, error.value());
  if (!std::filesystem::is_directory(folder, error)) refuse("use the folder", folder, ENOTDIR);
}

void make_file(const std::string& path, std::int64_t bytes) {
  const Descriptor file(path, O_CREAT | O_TRUNC | O_RDWR, "make the file");
  const int reason = bytes > 0 ? ::posix_fallocate(file, 0, bytes) : 0;  // writes to each block where it must
  if (reason == 0) return;
  ::unlink(path.c_str());
  refuse("reserve the space of", path, reason);
}

OutputFile::OutputFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  if (descriptor_ < 0) refuse("open the file", path, errno);
}

OutputFile::~OutputFile() {
  ::close(descriptor_);  // sync() has told whether all is there
}

void OutputFile::write(std::int64_t offset, const void* data, std::int64_t bytes) const {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor_, from, std::size_t(bytes), off_t(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse("write", path_, written < 0 ? errno : ENOSPC);
    from += written, offset += written, bytes -= written;
  }
}

void OutputFile::resize(std::int64_t bytes) const {
  if (::ftruncate(descriptor_, off_t(bytes)) != 0) refuse("resize", path_, errno);
}

void OutputFile::sync() const {
  if (::fsync(descriptor_) != 0) refuse("sync", path_, errno);
}

void sync_to_disk(const std::string& path) {
  const Descriptor file(path, O_RDONLY, "open");
  if (::fsync(file) != 0) refuse("sync", path, errno);
}

void publish(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) != 0) refuse("rename the finished file to", path, errno);
  sync_to_disk(folder_of(path));
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

}  // namespace octachoron
