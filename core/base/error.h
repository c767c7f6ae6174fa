#pragma once
/// Errors carry the exit status they lead to, so that only app/ decides what to print and return.
#include <stdexcept>
#include <string>

#include "core/base/text.h"

namespace octachoron {

/// Exit status of a rank (contract, section 2).
enum class ExitStatus : int {
  done = 0,
  internal = 1,     ///< a bug
  usage = 2,        ///< usage, parameter or combination
  environment = 3,  ///< plugin, device, MPI
  data = 4,         ///< unusable data or checkpoint, or the last save failed
  diverged = 5,     ///< do not resubmit
  peer_failed = 6,  ///< a rank, node or peer failed: resubmit
  stopped = 75      ///< stopped on a signal or limit after a complete checkpoint: resubmit
};

/// One sentence: `<problem> (<why>); <what to do>`, without the program's name and without a full stop.
class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

template <class... Parts>
[[noreturn]] void fail(ExitStatus status, const Parts&... parts) {
  throw Error(status, text(parts...));
}

/// A broken invariant is a bug of this program, never of the user.
template <class... Parts>
void ensure(bool condition, const Parts&... parts) {
  if (!condition) fail(ExitStatus::internal, parts...);
}

}  // namespace octachoron
