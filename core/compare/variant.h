#pragma once
/// Variants of a run, as the command line names them.
#include <string>
#include <vector>

#include "core/config/parameters.h"

namespace octachoron {

/// "NAME;section.key=value;..." or "NAME=OVERLAY.ini", also both: "NAME=OVERLAY.ini;section.key=value".
struct VariantSpec {
  std::string name;
  std::string overlay;                 ///< a parameter file with the keys that differ; may be empty
  std::vector<std::string> overrides;  ///< "section.key=value", those of the overlay first
};

/// Reads the overlay, if there is one. \throws Error(usage) for a name that is not of [A-Za-z0-9._-]{1,64},
/// or a file that cannot be read
VariantSpec parse_variant(const std::string& text);

struct Variant {
  std::string name;
  Parameters parameters;
};

/// \throws Error(usage) where there are fewer than two, a name stands twice, a grid has more than `ranks`
/// ranks, or what they compute cannot be compared: another model, seed, data or global batch
void refuse_incomparable(const std::vector<Variant>& variants, int ranks);

/// Keys whose values differ, those that change no number (paths, names, threads, the length of the run) left
/// out.
std::vector<std::string> changed_keys(const Parameters& a, const Parameters& b);

/// All of them are about how the work is split over ranks and micro-batches: results may differ by rounding
/// only.
bool is_split_only(const std::vector<std::string>& keys);

}  // namespace octachoron
