#include "core/data/data_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "core/base/error.h"
#include "core/data/token_data.h"
#include "core/data/token_file.h"
#include "core/numerics/checksum.h"

namespace octachoron {
namespace {

constexpr std::int64_t kWindow = 1 << 20;

void for_each_window(const TokenFile& file,
                     const std::function<void(const std::uint8_t*, std::int64_t)>& use) {
  std::vector<std::uint8_t> window(static_cast<std::size_t>(kWindow));
  for (std::int64_t begin = 0; begin < file.tokens(); begin += kWindow) {
    const std::int64_t count = std::min(kWindow, file.tokens() - begin);
    file.read(begin, count, window.data());
    use(window.data(), count);
  }
}

// A running hash of bytes, the same whichever windows they came in.
struct ByteHash {
  std::uint64_t value = 0;
  void add(const std::uint8_t* bytes, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) value = splitmix64(value ^ bytes[i]);
  }
};

// A new file that goes away again unless it is kept under its final name.
class NewFile {
 public:
  explicit NewFile(const std::string& final_path) : final_(final_path), path_(final_path + ".tmp") {
    descriptor_ = ::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor_ < 0) refuse();
  }
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!kept_) ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::uint8_t* bytes, std::int64_t count) {
    while (count > 0) {
      const ssize_t done = ::write(descriptor_, bytes, std::size_t(count));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) refuse();
      bytes += done, count -= done;
    }
  }
  void close() {
    if (::fsync(descriptor_) != 0) refuse();
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) refuse();
  }
  void keep() {
    if (::rename(path_.c_str(), final_.c_str()) != 0) refuse();
    kept_ = true;
  }

 private:
  [[noreturn]] void refuse() const {
    fail(ExitStatus::data, "the data file '", final_, "' cannot be written (", std::strerror(errno),
         "); choose another place");
  }

  std::string final_, path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

}  // namespace

std::string data_info(const std::vector<std::string>& files, const std::string& format,
                      std::int64_t sequence) {
  std::string out;
  std::array<std::int64_t, 256> counts{};
  std::int64_t tokens = 0;
  for (const std::string& path : files) {
    const TokenFile file(path, format);
    for_each_window(file, [&](const std::uint8_t* ids, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) ++counts[ids[i]];
    });
    tokens += file.tokens();
    out += text(path, ": text, ", file.tokens(), " tokens\n");
  }
  const auto distinct = std::count_if(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; });
  int largest = 255;
  while (largest > 0 && counts[std::size_t(largest)] == 0) --largest;
  out +=
      text("all: ", tokens, " tokens, ", distinct, " distinct ids, largest ", largest, ", vocabulary 256\n");
  if (sequence <= 0) return out;
  const TokenData data(files, format, sequence, 256);
  return out + text("sequence ", sequence, ": ", data.samples(), " samples for training, ",
                    data.padded_samples(), " for validation, the last one with ",
                    data.valid_targets(data.padded_samples() - 1, 1), " targets\n");
}

std::string import_data(const std::vector<std::string>& inputs, const std::string& format,
                        const std::string& output) {
  if (inputs.empty()) fail(ExitStatus::usage, "no file to import is named; name at least one");
  std::vector<std::unique_ptr<TokenFile>> files;  // all are looked at before anything is written
  for (const std::string& path : inputs) {
    files.push_back(std::make_unique<TokenFile>(path, format));
    std::error_code ignored;
    if (std::filesystem::equivalent(path, output, ignored))
      fail(ExitStatus::usage, "the output '", output, "' is one of the inputs; choose another name");
  }
  NewFile target(output);
  ByteHash wrote, stands;
  std::int64_t tokens = 0;
  for (const auto& file : files) {
    for_each_window(*file, [&](const std::uint8_t* bytes, std::int64_t count) {
      target.write(bytes, count);
      wrote.add(bytes, count);
    });
    tokens += file->tokens();
  }
  target.close();
  const TokenFile written(target.path(), "text");
  for_each_window(written, [&](const std::uint8_t* bytes, std::int64_t count) { stands.add(bytes, count); });
  if (written.tokens() != tokens || stands.value != wrote.value)
    fail(ExitStatus::data, "the data file '", output, "' does not read back as written (", written.tokens(),
         " of ", tokens, " tokens); check the disk and import again");
  target.keep();
  return text(output, ": text, ", tokens, " tokens from ", files.size(),
              files.size() == 1 ? " file\n" : " files\n");
}

}  // namespace octachoron
