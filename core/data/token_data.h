#pragma once
/// A stream of token ids from files, cut into samples.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace octachoron {

class TokenFile;

inline constexpr std::int32_t kIgnoredTarget = -1;

/// Several files as one stream of tokens, read where needed and never held whole. Text: bytes are ids. Sample
/// k is tokens [k S, k S + S], targets shifted by one; files and documents are crossed. Reading is safe from
/// several threads.
class TokenData {
 public:
  /// Opens all files and looks through them once for ids >= vocab.
  /// \param format auto, text; others are refused
  /// \throws Error(data) naming the path: missing, a folder, unreadable, empty, fewer than sequence + 1
  /// tokens in all; and for an id >= vocab with file, offset and id. Error(usage) for a format that this
  /// version does not read
  TokenData(const std::vector<std::string>& files, const std::string& format, std::int64_t sequence,
            std::int64_t vocab);
  ~TokenData();
  TokenData(TokenData&&) noexcept;
  TokenData& operator=(TokenData&&) noexcept;

  std::int64_t sequence() const { return sequence_; }
  std::int64_t vocab() const { return vocab_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t samples() const { return (tokens_ - 1) / sequence_; }  ///< whole ones, as in training
  std::int64_t padded_samples() const {
    return (tokens_ - 1 + sequence_ - 1) / sequence_;
  }  ///< with the padded tail
  /// Valid targets of samples [first, first + count), the tail padded; beyond the end there are none.
  std::int64_t valid_targets(std::int64_t first, std::int64_t count) const;
  /// One line: files, tokens, samples.
  std::string describe() const;

  /// Writes `sequence` ids and targets. A padded sample may be the tail or beyond the end: missing ids are 0,
  /// missing targets kIgnoredTarget. \throws Error(data) if a file has changed or cannot be read
  void sample(std::int64_t k, bool padded, std::int32_t* ids, std::int32_t* targets) const;

 private:
  void read(std::int64_t first, std::int64_t count, std::int32_t* ids) const;
  void refuse_foreign_ids() const;

  std::vector<std::unique_ptr<TokenFile>> files_;
  std::int64_t sequence_ = 0, vocab_ = 0, tokens_ = 0;
};

}  // namespace octachoron
