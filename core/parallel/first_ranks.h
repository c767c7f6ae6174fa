#pragma once
/// Work of the first ranks of a launch, while the others wait.
#include <functional>

#include "core/parallel/world.h"

namespace octachoron {

/// Collective. The first `ranks` ranks call action(their own world); the others sleep until they are done.
/// \throws what the action threw on all of its ranks, alike on all ranks of `world`; an error of only some of
/// them leaves the rest waiting, and its ranks must end the launch
void on_first_ranks(const World& world, int ranks, const std::function<void(const World&)>& action);

}  // namespace octachoron
