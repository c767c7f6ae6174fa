#include "core/data/token_data.h"

#include <algorithm>
#include <filesystem>

#include "core/base/checked.h"
#include "core/base/text.h"
#include "core/data/token_file.h"

namespace octachoron {
namespace {

constexpr std::int64_t kMaskWindow = 1 << 20;  // tokens

// The vocabularies of several files, which must be one.
class CommonVocabulary {
 public:
  void add(const std::string& path, std::int64_t vocab) {
    if (vocab == 0) return;
    if (vocab_ > 0 && vocab_ != vocab)
      fail(ExitStatus::data, "the data files '", path_, "' and '", path,
           "' do not belong together (vocabularies of ", vocab_, " and ", vocab,
           " ids); use files of one tokenizer");
    vocab_ = vocab, path_ = path;
  }
  std::int64_t value() const { return vocab_; }

 private:
  std::int64_t vocab_ = 0;
  std::string path_;
};

}  // namespace

TokenData::TokenData(const std::vector<std::string>& files, const std::string& format, std::int64_t sequence,
                     std::int64_t vocab, ScanShare share)
    : sequence_(sequence), vocab_(vocab) {
  ensure(sequence >= 1 && vocab >= 1 && vocab <= kLargestVocabulary, "token data with sequence ", sequence,
         " and vocabulary ", vocab);
  if (files.empty()) fail(ExitStatus::data, "no data file is named (the list is empty); set data.train");
  CommonVocabulary common;
  for (const std::string& path : files) {
    files_.push_back(open_token_file(path, format));
    const TokenFile& file = *files_.back();
    common.add(path, file.vocab());
    tokens_ += file.tokens();
    has_mask_ = has_mask_ || file.has_mask();
  }
  if (tokens_ < sequence + 1)
    fail(ExitStatus::data, "the data in '", files.front(), "'",
         files.size() > 1 ? " and the files after it" : "", " is too short (", tokens_,
         " tokens, a sample of sequence ", sequence, " needs ", sequence + 1,
         "); give more data or a shorter sequence");
  refuse_unusable(share);
}

TokenData::~TokenData() = default;
TokenData::TokenData(TokenData&&) noexcept = default;
TokenData& TokenData::operator=(TokenData&&) noexcept = default;

// Calls use(file, begin, size) with the parts of files that make up tokens [first, first + count), in order.
template <class Use>
void TokenData::for_each_slice(std::int64_t first, std::int64_t count, Use&& use) const {
  for (const auto& file : files_) {
    const std::int64_t begin = std::max<std::int64_t>(first, 0),
                       end = std::min(first + count, file->tokens());
    if (begin < end) use(*file, begin, end - begin);
    first -= file->tokens();
  }
}

std::int64_t TokenData::valid_targets(std::int64_t first, std::int64_t count) const {
  const auto targets_before = [&](std::int64_t sample) { return std::min(sample * sequence_, tokens_ - 1); };
  const std::int64_t begin = targets_before(first), targets = targets_before(first + count) - begin;
  return has_mask_ ? count_mask(begin + 1, targets) : targets;
}

std::int64_t TokenData::count_mask(std::int64_t first, std::int64_t count) const {
  std::vector<std::uint8_t> window;
  std::int64_t counted = 0;
  for (std::int64_t begin = first; begin < first + count; begin += kMaskWindow) {
    window.resize(std::size_t(std::min(kMaskWindow, first + count - begin)));
    std::uint8_t* out = window.data();
    for_each_slice(begin, std::int64_t(window.size()),
                   [&](const TokenFile& file, std::int64_t at, std::int64_t size) {
                     file.read_mask(at, size, out);
                     out += size;
                   });
    counted += std::int64_t(window.size()) - std::count(window.begin(), window.end(), std::uint8_t(0));
  }
  return counted;
}

std::string TokenData::describe() const {
  return text(files_.size(), files_.size() == 1 ? " file, " : " files, ", tokens_, " tokens, ", samples(),
              samples() == 1 ? " sample of " : " samples of ", sequence_,
              has_mask_ ? ", with a loss mask" : "");
}

void TokenData::sample(std::int64_t k, bool padded, std::int32_t* ids, std::int32_t* targets) const {
  ensure(k >= 0 && (padded || k < samples()), "sample ", k, " of ", samples(), " does not exist");
  const std::int64_t begin = std::min(k * sequence_, tokens_);
  const std::int64_t present = std::min(sequence_ + 1, tokens_ - begin);
  std::fill(ids, ids + sequence_, 0);
  std::fill(targets, targets + sequence_, kIgnoredTarget);
  if (present < 2) return;  // nothing to predict
  std::vector<std::uint32_t> read(static_cast<std::size_t>(present));
  std::vector<std::uint8_t> counts(read.size(), 1);
  std::size_t done = 0;
  for_each_slice(begin, present, [&](const TokenFile& file, std::int64_t at, std::int64_t size) {
    std::uint32_t* out = read.data() + done;
    file.read(at, size, out);
    if (has_mask_) file.read_mask(at, size, counts.data() + done);
    if (std::any_of(out, out + size, [&](std::uint32_t id) { return std::int64_t(id) >= vocab_; }))
      refuse_data_file(file.path(), "it has changed while in use: an id is not below model.vocab",
                       "restore the file and start again");
    done += std::size_t(size);
  });
  std::copy(read.begin(), read.end() - 1, ids);
  for (std::int64_t i = 0; i + 1 < present; ++i)
    if (counts[std::size_t(i) + 1] != 0) targets[i] = std::int32_t(read[std::size_t(i) + 1]);
}

// One process looks at what is small; all look through their share of the tokens.
void TokenData::refuse_unusable(ScanShare share) const {
  const std::int64_t begin = tokens_ / share.of * share.index + std::min(share.index, tokens_ % share.of);
  const std::int64_t count = tokens_ / share.of + (share.index < tokens_ % share.of);
  for_each_slice(begin, count, [&](const TokenFile& file, std::int64_t at, std::int64_t size) {
    refuse_foreign_ids(file, at, at + size, vocab_);
  });
  if (share.index != 0) return;
  for (const auto& file : files_) file->documents();
  if (!has_mask_) return;
  for (std::int64_t first = 1; first < tokens_; first += kMaskWindow)
    if (count_mask(first, std::min(kMaskWindow, tokens_ - first)) > 0) return;
  fail(ExitStatus::data, "the data in '", files_.front()->path(), "'",
       files_.size() > 1 ? " and the files after it" : "",
       " has no target (the loss mask is 0 everywhere); give data with targets");
}

std::int64_t data_vocabulary(const std::vector<std::string>& files, const std::string& format,
                             bool may_be_missing) {
  CommonVocabulary common;
  std::error_code ignored;
  for (const std::string& path : files) {
    const bool missing = may_be_missing && !std::filesystem::exists(path, ignored);
    const bool is_text =
        format == "text" || (format == "auto" && !path.ends_with(".h5") && !path.ends_with(".hdf5"));
    common.add(path, !missing ? open_token_file(path, format)->vocab() : is_text ? 256 : 0);
  }
  return common.value();
}

}  // namespace octachoron
