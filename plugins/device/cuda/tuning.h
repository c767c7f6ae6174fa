#pragma once
/// Choices of algorithms, kept in a file so that a rerun makes the same ones: other algorithms give other
/// bits.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace octachoron::cuda {

class Tuning {
 public:
  using Choice = std::array<std::uint64_t, 8>;

  /// Nothing is kept.
  Tuning() = default;
  /// Reads <folder>/tuning.json, and for ranks above 0 then <folder>/tuning.<rank>.json, which is also theirs
  /// to write. Choices of another library or device are passed over. A file that is not there or not readable
  /// is an empty one. \param library version and device, as one word a choice depends on
  Tuning(const std::string& folder, int rank, std::string library);

  /// Null if there is none.
  const Choice* find(const std::string& key) const;
  /// Writes the file anew, beside its name and then over it.
  void remember(const std::string& key, const Choice& choice);
  /// Products for which the files have choices of other libraries or devices alone. They stay in the file.
  int passed_over() const;
  /// Why the file could not be written; empty if it could.
  const std::string& problem() const { return problem_; }

 private:
  void read(const std::string& file);

  std::string file_, library_, problem_;
  std::map<std::pair<std::string, std::string>, Choice> choices_;  // by library and key
};

}  // namespace octachoron::cuda
