#pragma once
/// One file of token ids, opened for reading in place.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

namespace octachoron {

inline constexpr std::int64_t kLargestVocabulary = std::int64_t(1) << 24;

/// Reads slices by position, so that nothing is held in memory. Slices lie within the file.
class TokenFile {
 public:
  virtual ~TokenFile() = default;
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t tokens() const { return tokens_; }
  int id_bytes() const { return id_bytes_; }     ///< of an id in the file: 1, 2 or 4
  std::int64_t vocab() const { return vocab_; }  ///< what the file says; 0: nothing
  bool has_mask() const { return has_mask_; }
  virtual std::string kind() const = 0;  ///< "text", "hdf5 u16"

  /// \throws Error(data) if the file cannot be read or has become shorter
  virtual void read(std::int64_t first, std::int64_t count, std::uint32_t* ids) const = 0;
  /// Whether a token counts as a target: 0 if not. Without a mask all do. \throws as read()
  virtual void read_mask(std::int64_t first, std::int64_t count, std::uint8_t* counts) const;
  /// Documents that hold a token; 0 where the file says nothing of documents. Looks through all offsets.
  /// \throws Error(data) if they decrease or pass the end
  virtual std::int64_t documents() const { return 0; }

 protected:
  explicit TokenFile(const std::string& path) : path_(path) {}

  std::string path_;
  std::int64_t tokens_ = 0, vocab_ = 0;
  int id_bytes_ = 1;
  bool has_mask_ = false;
};

/// \param format auto (by the file's first bytes, else text), text, hdf5; u16, u32: little-endian ids without
/// a header \throws Error(data) naming the path: missing, a folder, unreadable, empty, damaged, of other
/// types; Error(usage) for a format (given, or seen with auto) that this version does not read
std::unique_ptr<TokenFile> open_token_file(const std::string& path, const std::string& format);

/// Looks through tokens [begin, end) for ids that are not below `vocab` or not below what the file says of
/// itself. \throws Error(data) with file, position and id
void refuse_foreign_ids(const TokenFile& file, std::int64_t begin, std::int64_t end, std::int64_t vocab);

[[noreturn]] void refuse_data_file(const std::string& path, const std::string& why,
                                   const std::string& advice);

/// Calls use(ids, count) with the ids of [begin, end), in order and in windows of bounded size.
template <class Use>
void for_each_window(const TokenFile& file, std::int64_t begin, std::int64_t end, Use&& use) {
  constexpr std::int64_t kWindow = 1 << 20;
  const auto ids = std::make_unique<std::uint32_t[]>(std::size_t(std::min(kWindow, end - begin)));
  for (std::int64_t first = begin; first < end; first += kWindow) {
    const std::int64_t count = std::min(kWindow, end - first);
    file.read(first, count, ids.get());
    use(ids.get(), count);
  }
}

}  // namespace octachoron
