#pragma once
/// The nearest known name to one that was mistyped.
#include <string>
#include <string_view>
#include <vector>

namespace octachoron {

/// Insertions, deletions, replacements and swaps of neighbours that make `b` from `a`; case and '-' against
/// '_' are free.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance, the first of equals. \pre `candidates` is not empty
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace octachoron
