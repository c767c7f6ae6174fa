#pragma once
/// `compare`: runs the variants one after another, compares them with the first, and tests what it suspects.
#include <functional>
#include <optional>

#include "core/compare/findings.h"
#include "core/compare/variant.h"
#include "core/parallel/world.h"

namespace octachoron {

/// The suspicion put to the test: the variant again, with one thing changed.
struct Trial {
  enum class Kind { exclude, full_precision };
  Kind kind = Kind::exclude;
  std::string module;  ///< of exclude
  Gap before, after;
  bool closes = false;
  Rounding rounding;  ///< of full_precision
};

struct VariantReport {
  std::vector<std::string> changed;  ///< keys that differ from the reference
  Observation seen;
  Deviations deviations;
  std::optional<Rounding> rounding;  ///< where only the split over ranks differs
  std::optional<Trial> trial;
  std::string untested;  ///< why there is no trial; empty: there is one, or nothing deviates
};

struct Comparison {
  std::int64_t steps = 0;
  Observation reference;
  std::vector<VariantReport> variants;  ///< all but the first
};

/// Runs a variant on its first ranks of the launch. Collective over all of them; rank 0 gets the observation.
using Observe = std::function<Observation(const Variant& variant, std::int64_t steps)>;

/// Collective. \return complete on rank 0
Comparison compare_variants(const World& world, const std::vector<Variant>& variants, std::int64_t steps,
                            const Observe& observe);

/// observe_variant() on the first ranks of `world`.
Observe observe_on(const World& world);

std::string comparison_text(const Comparison& comparison);
std::string comparison_json(const Comparison& comparison);

}  // namespace octachoron
