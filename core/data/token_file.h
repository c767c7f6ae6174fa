#pragma once
/// One file of token ids, opened for reading in place.
#include <cstdint>
#include <string>

namespace octachoron {

/// A text file: bytes are ids. Reads by position, so that nothing is held in memory and threads do not
/// disturb each other.
class TokenFile {
 public:
  /// \param format auto, text
  /// \throws Error(data) naming the path: missing, a folder, unreadable, empty; Error(usage) for a format
  /// (given, or seen in the file's first bytes with auto) that this version does not read
  TokenFile(const std::string& path, const std::string& format);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t tokens() const { return tokens_; }

  /// \throws Error(data) if the file cannot be read or has become shorter
  void read(std::int64_t first, std::int64_t count, std::uint8_t* out) const;

 private:
  void refuse_other_formats(const std::string& format) const;

  std::string path_;
  int descriptor_ = -1;
  std::int64_t tokens_ = 0;
};

}  // namespace octachoron
