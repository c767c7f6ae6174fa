#include "plugins/device/cuda/tuning.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace octachoron::cuda {
namespace {

std::string file_name(const std::string& folder, int rank) {
  return folder + (rank == 0 ? std::string("/tuning.json") : "/tuning." + std::to_string(rank) + ".json");
}

/// The text between `before` and the next quotation mark; empty if there is none.
std::string quoted(const std::string& line, const std::string& before) {
  const std::size_t begin = line.find(before);
  if (begin == std::string::npos) return {};
  const std::size_t end = line.find('"', begin + before.size());
  return end == std::string::npos ? std::string()
                                  : line.substr(begin + before.size(), end - begin - before.size());
}

bool parse(const std::string& hex, Tuning::Choice* choice) {
  if (hex.size() != 16 * choice->size() || hex.find_first_not_of("0123456789abcdef") != std::string::npos)
    return false;
  for (std::size_t i = 0; i < choice->size(); ++i)
    (*choice)[i] = std::stoull(hex.substr(16 * i, 16), nullptr, 16);
  return true;
}

std::string text(const Tuning::Choice& choice) {
  std::string hex;
  for (const std::uint64_t word : choice) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016" PRIx64, word);
    hex += digits;
  }
  return hex;
}

}  // namespace

Tuning::Tuning(const std::string& folder, int rank, std::string library)
    : file_(file_name(folder, rank)), library_(std::move(library)) {
  read(file_name(folder, 0));
  if (rank != 0) read(file_);
}

void Tuning::read(const std::string& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    Choice choice;
    const std::string key = quoted(line, "{\"gemm\": \"");
    const std::string library = quoted(line, "\"library\": \"");
    if (!key.empty() && !library.empty() && parse(quoted(line, "\"algorithm\": \""), &choice))
      choices_[{library, key}] = choice;
  }
}

int Tuning::passed_over() const {
  int count = 0;
  for (const auto& [place, choice] : choices_) count += place.first != library_ && find(place.second) == nullptr;
  return count;
}

const Tuning::Choice* Tuning::find(const std::string& key) const {
  const auto found = choices_.find({library_, key});
  return found != choices_.end() ? &found->second : nullptr;
}

void Tuning::remember(const std::string& key, const Choice& choice) {
  choices_[{library_, key}] = choice;
  if (file_.empty()) return;
  std::error_code exists;  // or not: then opening the file says why
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), exists);
  const std::string beside = file_ + ".new";
  std::ofstream out(beside);
  const char* between = "[\n";
  for (const auto& [place, c] : choices_) {
    out << between << "{\"gemm\": \"" << place.second << "\", \"library\": \"" << place.first << "\", \"algorithm\": \""
        << text(c) << "\"}";
    between = ",\n";
  }
  out << "\n]\n";
  out.close();
  if (out.fail() || std::rename(beside.c_str(), file_.c_str()) != 0)
    problem_ = "the choices of algorithms cannot be kept in " + file_ + " (" + std::strerror(errno) + ")";
}

}  // namespace octachoron::cuda
