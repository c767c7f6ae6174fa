#include "core/data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/data/hdf5_token_file.h"

namespace octachoron {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes, format;
};
// llmc is its magic number 20240520 in little-endian 32 bits.
constexpr Signature kSignatures[] = {
    {"\x89HDF\r\n\x1a\n"sv, "hdf5"}, {"MMIDIDX\0\0"sv, "megatron"}, {"\x58\xd8\x34\x01"sv, "llmc"}};

class Descriptor {
 public:
  explicit Descriptor(int id) : id_(id) {}
  ~Descriptor() { ::close(id_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return id_; }  // NOLINT: it is one

 private:
  int id_;
};

// Fixed numbers of bytes an id and nothing else. Text is the case of one byte.
class RawTokenFile : public TokenFile {
 public:
  /// \param descriptor of the open file, owned from here
  RawTokenFile(const std::string& path, int descriptor, std::int64_t bytes, int id_bytes)
      : TokenFile(path), descriptor_(descriptor) {
    id_bytes_ = id_bytes;
    tokens_ = bytes / id_bytes;
    vocab_ = id_bytes == 1 ? 256 : 0;
    if (bytes % id_bytes != 0)
      refuse_data_file(path, text("its ", bytes, " bytes are not a multiple of ", id_bytes),
                       "give the width that its ids have");
  }

  std::string kind() const override { return id_bytes_ == 1 ? "text" : text("raw u", 8 * id_bytes_); }

  void read(std::int64_t first, std::int64_t count, std::uint32_t* ids) const override {
    std::vector<std::uint8_t> bytes(std::size_t(count * id_bytes_));
    read_bytes(first * id_bytes_, bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      ids[i] = 0;
      for (int b = id_bytes_; b-- > 0;) ids[i] = ids[i] << 8 | bytes[std::size_t(i * id_bytes_ + b)];
    }
  }

 private:
  void read_bytes(std::int64_t at, std::vector<std::uint8_t>& bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t got = ::pread(descriptor_, bytes.data() + done, bytes.size() - done, at + off_t(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse_data_file(path_, std::strerror(errno), "check the file system");
      if (got == 0)
        refuse_data_file(path_, "it has become shorter while in use", "restore the file and start again");
      done += std::size_t(got);
    }
  }

  Descriptor descriptor_;
};

// \return its bytes
std::int64_t require_file(const std::string& path, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) refuse_data_file(path, std::strerror(errno), "check the file");
  if (S_ISDIR(status.st_mode))
    refuse_data_file(path, "it is a folder", "name the files in it, separated by commas");
  if (!S_ISREG(status.st_mode)) refuse_data_file(path, "it is not a regular file", "copy the data into one");
  if (status.st_size == 0) refuse_data_file(path, "it is empty", "leave it out or give another");
  return status.st_size;
}

std::string format_seen(const std::string& path, int descriptor) {
  char head[16] = {};
  const ssize_t bytes = ::pread(descriptor, head, sizeof head, 0);
  if (bytes < 0) refuse_data_file(path, std::strerror(errno), "check the file system");
  for (const Signature& signature : kSignatures)
    if (std::string_view(head, std::size_t(bytes)).starts_with(signature.bytes))
      return std::string(signature.format);
  return "text";
}

// Ids in binary and other files are no text, though every byte is an id.
void refuse_no_text(const std::string& path, int descriptor) {
  std::vector<char> head(std::size_t(64) << 10);
  const ssize_t bytes = ::pread(descriptor, head.data(), head.size(), 0);
  if (bytes <= 0) return;  // reading it will say why
  const auto* zero = static_cast<const char*>(std::memchr(head.data(), 0, std::size_t(bytes)));
  if (zero != nullptr)
    refuse_data_file(path, text("it is no text: byte ", zero - head.data(), " is 0"),
                     "make a token file of ids by 'octachoron data import --from u16|u32 --vocab N', or write "
                     "data.format = text to train on its bytes as they are");
}

}  // namespace

void refuse_data_file(const std::string& path, const std::string& why, const std::string& advice) {
  fail(ExitStatus::data, "the data file '", path, "' cannot be used (", why, "); ", advice);
}

void TokenFile::read_mask(std::int64_t, std::int64_t count, std::uint8_t* counts) const {
  std::fill(counts, counts + count, std::uint8_t(1));
}

std::unique_ptr<TokenFile> open_token_file(const std::string& path, const std::string& format) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse_data_file(path, std::strerror(errno), "check the path and its permissions");
  Descriptor look(descriptor);
  const std::int64_t bytes = require_file(path, look);
  const std::string seen = format == "auto" ? format_seen(path, look) : format;
  if (format == "text" && format_seen(path, look) == "hdf5")
    refuse_data_file(path, "it is an HDF5 file, and data.format = text would train on its raw bytes",
                     "write data.format = auto");
  if (format == "auto" && seen == "text") refuse_no_text(path, look);
  if (seen == "hdf5") return std::make_unique<Hdf5TokenFile>(path);
  const int id_bytes = seen == "text" ? 1 : seen == "u16" ? 2 : seen == "u32" ? 4 : 0;
  if (id_bytes > 0) {
    const int own = ::fcntl(look, F_DUPFD_CLOEXEC, 0);
    if (own < 0) refuse_data_file(path, std::strerror(errno), "close other files");
    return std::make_unique<RawTokenFile>(path, own, bytes, id_bytes);
  }
  fail(ExitStatus::usage, "the data format ", seen, " of '", path,
       "' is not available in this version (it reads text and hdf5)",
       "; give such files, or data.format = text to read the bytes of this one as they are");
}

void refuse_foreign_ids(const TokenFile& file, std::int64_t begin, std::int64_t end, std::int64_t vocab) {
  const bool own = file.vocab() > 0 && file.vocab() < vocab && file.kind() != "text";
  const std::int64_t limit = own ? file.vocab() : vocab;
  if (limit >> (8 * file.id_bytes()) > 0) return;  // every value is an id
  std::int64_t first = begin;
  for_each_window(file, begin, end, [&](const std::uint32_t* ids, std::int64_t count) {
    const auto* bad =
        std::find_if(ids, ids + count, [&](std::uint32_t id) { return std::int64_t(id) >= limit; });
    if (bad != ids + count)
      fail(ExitStatus::data, "the data file '", file.path(), "' has id ", *bad, " at token ",
           first + (bad - ids), " (", own ? "its own vocab_size" : "model.vocab", " is ", limit,
           ", ids go up to ", limit - 1, "); ",
           own ? "write it anew with the vocabulary of its tokenizer"
               : "set model.vocab to the vocabulary of the data or give other data");
    first += count;
  });
}

}  // namespace octachoron
