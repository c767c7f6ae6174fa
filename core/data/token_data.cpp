#include "core/data/token_data.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/text.h"
#include "core/data/token_file.h"

namespace octachoron {
namespace {

constexpr std::int64_t kWindow = 1 << 20;  // tokens looked through at a time

}  // namespace

TokenData::TokenData(const std::vector<std::string>& files, const std::string& format, std::int64_t sequence,
                     std::int64_t vocab)
    : sequence_(sequence), vocab_(vocab) {
  ensure(sequence >= 1 && vocab >= 1, "token data with sequence ", sequence, " and vocabulary ", vocab);
  if (files.empty()) fail(ExitStatus::data, "no data file is named (the list is empty); set data.train");
  for (const std::string& file : files) {
    files_.push_back(std::make_unique<TokenFile>(file, format));
    tokens_ += files_.back()->tokens();
  }
  if (tokens_ < sequence + 1)
    fail(ExitStatus::data, "the data in '", files.front(), "'",
         files.size() > 1 ? " and the files after it" : "", " is too short (", tokens_,
         " tokens, a sample of sequence ", sequence, " needs ", sequence + 1,
         "); give more data or a shorter sequence");
  refuse_foreign_ids();
}

TokenData::~TokenData() = default;
TokenData::TokenData(TokenData&&) noexcept = default;
TokenData& TokenData::operator=(TokenData&&) noexcept = default;

std::int64_t TokenData::valid_targets(std::int64_t first, std::int64_t count) const {
  const auto targets_before = [&](std::int64_t sample) { return std::min(sample * sequence_, tokens_ - 1); };
  return targets_before(first + count) - targets_before(first);
}

std::string TokenData::describe() const {
  return text(files_.size(), files_.size() == 1 ? " file, " : " files, ", tokens_, " tokens, ", samples(),
              samples() == 1 ? " sample of " : " samples of ", sequence_);
}

void TokenData::sample(std::int64_t k, bool padded, std::int32_t* ids, std::int32_t* targets) const {
  ensure(k >= 0 && (padded || k < samples()), "sample ", k, " of ", samples(), " does not exist");
  const std::int64_t begin = std::min(k * sequence_, tokens_);
  const std::int64_t present = std::min(sequence_ + 1, tokens_ - begin);
  std::fill(ids, ids + sequence_, 0);
  std::fill(targets, targets + sequence_, kIgnoredTarget);
  if (present < 2) return;  // nothing to predict
  read(begin, present - 1, ids);
  std::copy(ids + 1, ids + present - 1, targets);
  read(begin + present - 1, 1, targets + present - 2);
}

void TokenData::read(std::int64_t first, std::int64_t count, std::int32_t* ids) const {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  std::int64_t file_begin = 0, done = 0;
  for (const auto& file : files_) {
    const std::int64_t begin = first + done - file_begin;  // in this file
    if (done < count && begin < file->tokens()) {
      const std::int64_t take = std::min(count - done, file->tokens() - begin);
      file->read(begin, take, bytes.data() + done);
      done += take;
    }
    file_begin += file->tokens();
  }
  std::copy(bytes.begin(), bytes.end(), ids);
}

void TokenData::refuse_foreign_ids() const {
  if (vocab_ > 255) return;  // every byte is an id
  std::vector<std::uint8_t> window(static_cast<std::size_t>(kWindow));
  for (const auto& file : files_)
    for (std::int64_t begin = 0; begin < file->tokens(); begin += kWindow) {
      const std::int64_t count = std::min(kWindow, file->tokens() - begin);
      file->read(begin, count, window.data());
      const auto bad =
          std::find_if(window.begin(), window.begin() + count, [&](auto id) { return id >= vocab_; });
      if (bad != window.begin() + count)
        fail(ExitStatus::data, "the data file '", file->path(), "' has id ", int(*bad), " at token ",
             begin + (bad - window.begin()), " (model.vocab is ", vocab_, ", ids go up to ", vocab_ - 1,
             "); set model.vocab = 256 for text or give other data");
    }
}

}  // namespace octachoron
