#include "core/parallel/together.h"

namespace octachoron {

void agree_on_failure(const World& world, const std::string& failure, ExitStatus status) {
  const std::int64_t none = world.size();
  const std::int64_t first = -world.maximum(failure.empty() ? -none : -std::int64_t(world.rank()));
  if (first == none) return;
  const std::string sentence = world.broadcast(failure, int(first));
  const auto agreed = world.broadcast(std::uint64_t(status), int(first));
  throw Error(ExitStatus(int(agreed)), sentence);
}

}  // namespace octachoron
