#include "core/data/import.h"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "core/base/error.h"
#include "core/data/token_file.h"
#include "core/data/token_writer.h"
#include "core/numerics/checksum.h"

namespace octachoron {
namespace {

using Use = std::function<void(const std::uint32_t* ids, std::int64_t count)>;

/// An input that can be gone through from begin to end, several times.
struct Source {
  std::string path;
  std::int64_t vocab = 0;  ///< 0: it does not say
  std::function<void(const Use&)> each;
};

// Decimal numbers between white space.
void each_listed_id(const std::string& path, const Use& use) {
  constexpr std::size_t kWindow = 1 << 16;
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_data_file(path, std::strerror(errno), "check the path and its permissions");
  std::vector<std::uint32_t> window;
  std::int64_t done = 0;
  for (std::string word; file >> word;) {
    std::uint64_t id = 0;
    for (const char c : word) {
      if (c < '0' || c > '9' || id > std::uint64_t(kLargestVocabulary))
        refuse_data_file(path,
                         text("number ", done + std::int64_t(window.size()), " is '", word.substr(0, 20),
                              "', which is no id"),
                         "write decimal numbers between blanks or line ends");
      id = 10 * id + std::uint64_t(c - '0');
    }
    window.push_back(std::uint32_t(id));
    if (window.size() < kWindow) continue;
    use(window.data(), std::int64_t(window.size()));
    done += std::int64_t(window.size());
    window.clear();
  }
  if (file.bad()) refuse_data_file(path, "it cannot be read", "check the file system");
  if (done == 0 && window.empty()) refuse_data_file(path, "it has no ids", "leave it out or give another");
  use(window.data(), std::int64_t(window.size()));
}

Source open_source(const std::string& path, const ImportOptions& options) {
  std::error_code ignored;
  if (std::filesystem::equivalent(path, options.output, ignored))
    fail(ExitStatus::usage, "the output '", options.output, "' is one of the inputs (", path,
         "); choose another name");
  if (options.from == "ids") {
    const auto file = open_token_file(path, "text");  // what is no file at all is refused in the same words
    return {path, 0, [path](const Use& use) { each_listed_id(path, use); }};
  }
  const std::shared_ptr<const TokenFile> file = open_token_file(path, options.from);
  if (file->kind().starts_with("hdf5"))
    fail(ExitStatus::usage, "'", path,
         "' is not imported (it is a token file already); name it in data.train as it is");
  return {path, file->vocab(), [file](const Use& use) { for_each_window(*file, 0, file->tokens(), use); }};
}

std::int64_t vocabulary(const std::vector<Source>& sources, const ImportOptions& options) {
  const std::int64_t vocab = options.vocab > 0 ? options.vocab : sources.front().vocab;
  if (vocab == 0)
    fail(ExitStatus::usage, "data import does not know the vocabulary (--vocab is missing, and ",
         options.from, " does not say it); add --vocab N, the number of ids of the tokenizer");
  if (vocab < 2 || vocab > kLargestVocabulary)
    fail(ExitStatus::usage, "--vocab ", vocab, " is not legal (2 .. ", kLargestVocabulary,
         "); give the number of ids");
  return vocab;
}

struct Contents {
  std::int64_t tokens = 0;
  std::vector<std::uint64_t> documents;  // positions of first tokens
};

Contents look_through(const std::vector<Source>& sources, std::int64_t vocab, std::int64_t separator) {
  Contents out;
  for (const Source& source : sources) {
    const std::int64_t begin = out.tokens;
    bool ended = true;  // so the next token begins a document
    source.each([&](const std::uint32_t* ids, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i, ++out.tokens) {
        if (std::int64_t(ids[i]) >= vocab)
          fail(ExitStatus::data, "the data file '", source.path, "' has id ", ids[i], " at token ",
               out.tokens - begin, " (the vocabulary is ", vocab, ", ids go up to ", vocab - 1,
               "); give --vocab as the tokenizer has it");
        if (ended) out.documents.push_back(std::uint64_t(out.tokens));
        ended = std::int64_t(ids[i]) == separator;
      }
    });
  }
  return out;
}

// A running hash of ids, the same whichever windows they came in.
struct IdHash {
  std::uint64_t value = 0;
  void add(const std::uint32_t* ids, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) value = splitmix64(value ^ ids[i]);
  }
};

void require_same(const std::string& temporary, const std::string& output, const Contents& contents,
                  const IdHash& wrote) {
  const auto written = open_token_file(temporary, "hdf5");
  IdHash stands;
  for_each_window(*written, 0, written->tokens(),
                  [&](const std::uint32_t* ids, std::int64_t count) { stands.add(ids, count); });
  if (written->tokens() == contents.tokens && stands.value == wrote.value &&
      written->documents() == std::int64_t(contents.documents.size()))
    return;
  fail(ExitStatus::data, "the data file '", output, "' does not read back as written (", written->tokens(),
       " of ", contents.tokens, " tokens); check the disk and import again");
}

}  // namespace

std::string import_data(const std::vector<std::string>& inputs, const ImportOptions& options) {
  if (inputs.empty())
    fail(ExitStatus::usage, "data import has nothing to do (no file is named); name at least one");
  std::vector<Source> sources;  // all are looked at before anything is written
  for (const std::string& path : inputs) sources.push_back(open_source(path, options));
  const std::int64_t vocab = vocabulary(sources, options);
  const Contents contents = look_through(sources, vocab, options.separator);
  const int id_bytes = vocab <= 1 << 8 ? 1 : vocab <= 1 << 16 ? 2 : 4;
  TokenFileWriter writer(options.output, contents.tokens, id_bytes);
  IdHash wrote;
  for (const Source& source : sources)
    source.each([&](const std::uint32_t* ids, std::int64_t count) {
      writer.append(ids, count);
      wrote.add(ids, count);
    });
  writer.finish(contents.documents, vocab);
  require_same(writer.temporary(), options.output, contents, wrote);
  writer.keep();
  return text(options.output, ": hdf5 u", 8 * id_bytes, ", ", contents.tokens, " tokens from ", inputs.size(),
              inputs.size() == 1 ? " file, " : " files, ", contents.documents.size(),
              contents.documents.size() == 1 ? " document" : " documents", ", vocabulary ", vocab, "\n");
}

}  // namespace octachoron
