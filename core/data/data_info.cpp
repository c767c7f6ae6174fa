#include "core/data/data_info.h"

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"
#include "core/data/token_data.h"
#include "core/data/token_file.h"

namespace octachoron {
namespace {

struct Ids {
  std::vector<bool> seen = std::vector<bool>(std::size_t(kLargestVocabulary));
  std::int64_t tokens = 0, distinct = 0, largest = 0;

  void add(const std::uint32_t* ids, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      distinct += !seen[ids[i]];
      seen[ids[i]] = true;
      largest = std::max(largest, std::int64_t(ids[i]));
    }
    tokens += count;
  }
};

std::string masked_share(const TokenFile& file) {
  if (!file.has_mask()) return "no loss mask";
  std::int64_t masked = 0;
  std::vector<std::uint8_t> counts(1 << 20);
  for (std::int64_t first = 0; first < file.tokens(); first += std::int64_t(counts.size())) {
    counts.resize(std::size_t(std::min<std::int64_t>(1 << 20, file.tokens() - first)));
    file.read_mask(first, std::int64_t(counts.size()), counts.data());
    masked += std::count(counts.begin(), counts.end(), std::uint8_t(0));
  }
  char share[32];
  std::snprintf(share, sizeof share, "%.2f", 100.0 * double(masked) / double(file.tokens()));
  return text(masked, " tokens masked (", share, " %)");
}

std::string file_line(const TokenFile& file) {
  const std::int64_t documents = file.documents();
  return text(file.path(), ": ", file.kind(), ", ", file.tokens(), " tokens, ",
              file.vocab() > 0 ? text("vocabulary ", file.vocab()) : "no vocabulary stated", ", ",
              documents > 0 ? text(documents, documents == 1 ? " document, " : " documents, ")
                            : "no documents stated, ",
              masked_share(file), "\n");
}

}  // namespace

std::string data_info(const std::vector<std::string>& files, const std::string& format,
                      std::int64_t sequence) {
  std::string out;
  Ids ids;
  const std::int64_t vocab = data_vocabulary(files, format);
  for (const std::string& path : files) {
    const auto file = open_token_file(path, format);
    out += file_line(*file);
    refuse_foreign_ids(*file, 0, file->tokens(), kLargestVocabulary);
    for_each_window(*file, 0, file->tokens(),
                    [&](const std::uint32_t* window, std::int64_t count) { ids.add(window, count); });
  }
  out += text("all: ", ids.tokens, " tokens, ", ids.distinct, " distinct ids, largest ", ids.largest,
              ", vocabulary ", vocab > 0 ? text(vocab) : "not stated: set model.vocab", "\n");
  if (sequence <= 0) return out;
  const TokenData data(files, format, sequence, vocab > 0 ? vocab : kLargestVocabulary);
  const std::int64_t samples = data.samples(), padded = data.padded_samples();
  return out + text("sequence ", sequence, ": ", samples, " samples for training with ",
                    data.valid_targets(0, samples), " targets; ", padded, " for validation with ",
                    data.valid_targets(0, padded), ", the last one with ", data.valid_targets(padded - 1, 1),
                    "\n");
}

}  // namespace octachoron
