#pragma once
/// A stream of token ids from files, cut into samples.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace octachoron {

class TokenFile;

inline constexpr std::int32_t kIgnoredTarget = -1;

/// The part of all tokens that a process looks through at start, where several share the work.
struct ScanShare {
  std::int64_t index = 0, of = 1;
};

/// Several files as one stream of tokens, read where needed and never held whole. Sample k is tokens [k S, k
/// S + S], targets shifted by one; files and documents are crossed. A token that a loss mask leaves out is an
/// id as any other, but an ignored target. To be used by the thread that makes all HDF5 calls of the process.
class TokenData {
 public:
  /// Opens all files and looks through its share of them once for ids >= vocab.
  /// \param format auto, text, hdf5; others are refused
  /// \throws Error(data) naming the path: missing, a folder, unreadable, empty, damaged, fewer than sequence
  /// + 1 tokens in all, vocabularies that differ, a mask that leaves no target; and for an id >= vocab with
  /// file, position and id. Error(usage) for a format that this version does not read
  TokenData(const std::vector<std::string>& files, const std::string& format, std::int64_t sequence,
            std::int64_t vocab, ScanShare share = {});
  ~TokenData();
  TokenData(TokenData&&) noexcept;
  TokenData& operator=(TokenData&&) noexcept;

  std::int64_t sequence() const { return sequence_; }
  std::int64_t vocab() const { return vocab_; }
  std::int64_t tokens() const { return tokens_; }
  bool has_mask() const { return has_mask_; }
  std::int64_t samples() const { return (tokens_ - 1) / sequence_; }  ///< whole ones, as in training
  std::int64_t padded_samples() const {
    return (tokens_ - 1 + sequence_ - 1) / sequence_;
  }  ///< with the padded tail
  /// Valid targets of samples [first, first + count), the tail padded; beyond the end there are none. Reads
  /// the mask where there is one.
  std::int64_t valid_targets(std::int64_t first, std::int64_t count) const;
  /// One line: files, tokens, samples.
  std::string describe() const;

  /// Writes `sequence` ids and targets. A padded sample may be the tail or beyond the end: missing ids are 0,
  /// missing targets kIgnoredTarget. \throws Error(data) if a file has changed or cannot be read
  void sample(std::int64_t k, bool padded, std::int32_t* ids, std::int32_t* targets) const;

 private:
  template <class Use>
  void for_each_slice(std::int64_t first, std::int64_t count, Use&& use) const;
  std::int64_t count_mask(std::int64_t first, std::int64_t count) const;
  void refuse_unusable(ScanShare share) const;

  std::vector<std::unique_ptr<TokenFile>> files_;
  std::int64_t sequence_ = 0, vocab_ = 0, tokens_ = 0;
  bool has_mask_ = false;
};

/// The vocabulary that the files say they have: 256 for text; 0 where none says anything.
/// \param may_be_missing a file that is not there counts by its name: .h5 and .hdf5 say nothing, others are
/// text \throws Error as TokenData, and Error(data) naming two files whose vocabularies differ
std::int64_t data_vocabulary(const std::vector<std::string>& files, const std::string& format,
                             bool may_be_missing = false);

}  // namespace octachoron
