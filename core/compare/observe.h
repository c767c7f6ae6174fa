#pragma once
/// Runs a variant through the session that trains, and looks.
#include "core/compare/observation.h"
#include "core/compare/variant.h"
#include "core/train/session.h"

namespace octachoron {

/// Collective over the grid of the session. Its first `steps` steps on the training data, in the order of
/// `train`; the first and the last run operation by operation and are looked at in detail. Writes nothing.
/// \pre the session is initialised
Observation observe_session(const Variant& variant, const World& world, Backend& backend,
                            TrainingSession& session, std::int64_t steps);

/// The same on a session of its own. \throws what train() throws for these parameters; Error(diverged) where
/// a step is not finite
Observation observe_variant(const Variant& variant, const World& world, std::int64_t steps);

}  // namespace octachoron
