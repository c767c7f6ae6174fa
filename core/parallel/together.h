#pragma once
/// What may fail on some ranks only, done by all of them: each learns of it before any goes on.
#include "core/base/error.h"
#include "core/parallel/world.h"

namespace octachoron {

/// Throws on all ranks if `failure` is not empty on one: the sentence and status of the lowest failing rank.
void agree_on_failure(const World& world, const std::string& failure, ExitStatus status);

/// Collective. \return make() of this rank \throws the Error of the lowest failing rank, alike on all
template <class Make>
auto together(const World& world, const Make& make) -> decltype(make()) {
  decltype(make()) made{};
  std::string failure;
  ExitStatus status = ExitStatus::internal;
  try {
    made = make();
  } catch (const Error& error) {
    failure = error.what();
    status = error.status();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  agree_on_failure(world, failure, status);
  return made;
}

}  // namespace octachoron
