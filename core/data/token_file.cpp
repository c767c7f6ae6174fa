#include "core/data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace octachoron {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes, format;
};
// llmc is its magic number 20240520 in little-endian 32 bits.
constexpr Signature kSignatures[] = {
    {"\x89HDF\r\n\x1a\n"sv, "hdf5"}, {"MMIDIDX\0\0"sv, "megatron"}, {"\x58\xd8\x34\x01"sv, "llmc"}};

[[noreturn]] void refuse(const std::string& path, const std::string& why, const std::string& advice) {
  fail(ExitStatus::data, "the data file '", path, "' cannot be used (", why, "); ", advice);
}

}  // namespace

TokenFile::TokenFile(const std::string& path, const std::string& format) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) refuse(path, std::strerror(errno), "check the path and its permissions");
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) refuse(path, std::strerror(errno), "check the file");
    if (S_ISDIR(status.st_mode)) refuse(path, "it is a folder", "name the files in it, separated by commas");
    if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file", "copy the data into one");
    if (status.st_size == 0) refuse(path, "it is empty", "leave it out or give another");
    tokens_ = status.st_size;
    refuse_other_formats(format);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

TokenFile::~TokenFile() {
  ::close(descriptor_);
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, out, std::size_t(count), first);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path_, std::strerror(errno), "check the file system");
    if (got == 0) refuse(path_, "it has become shorter while in use", "restore the file and start again");
    first += got, out += got, count -= got;
  }
}

void TokenFile::refuse_other_formats(const std::string& format) const {
  std::string seen = format;
  if (format == "auto") {
    char head[16] = {};
    const auto bytes = std::min<std::int64_t>(tokens_, sizeof head);
    read(0, bytes, reinterpret_cast<std::uint8_t*>(head));
    seen = "text";
    for (const Signature& signature : kSignatures)
      if (std::string_view(head, std::size_t(bytes)).starts_with(signature.bytes)) seen = signature.format;
  }
  if (seen == "text") return;
  fail(ExitStatus::usage, "the data format ", seen, " of '", path_,
       "' is not available in this version (it reads text)",
       "; give text files, or data.format = text to read the bytes of this one as they are");
}

}  // namespace octachoron
