#pragma once
/// Why a communication hides nothing, from intervals and dependences alone.
#include <string>

#include "core/trace/timeline.h"

namespace octachoron {

enum class Reason : std::uint8_t {
  hidden,            ///< nearly all of it lies beside computation
  consumer_follows,  ///< its lane's next operation needs it: nothing was free to run beside it
  window_too_short,  ///< what was free takes less time than the transfer
  other_wait,        ///< what was free waited for another communication
  shared_resource,   ///< there was enough free work, but the two got in each other's way
  late_peer          ///< more of the exposed time passed before the last of the group began
};
const char* name(Reason reason);

/// Of one communication on one rank; seconds.
struct Verdict {
  int issue = 0;
  double transfer_s = 0;      ///< from the latest start of the group
  double hidden_s = 0;        ///< of the transfer, beside computation of this rank
  double exposed_skew_s = 0;  ///< waiting for peers, and not beside computation
  Reason reason = Reason::hidden;
  std::string why;  ///< one sentence with the numbers and operations; empty if hidden
  double exposed_s() const { return transfer_s - hidden_s; }
  double cost_s() const { return exposed_s() + exposed_skew_s; }
};

/// One for each communication, in program order. A communication is hidden if less than a twentieth of it is
/// exposed.
std::vector<Verdict> judge(const Timeline& timeline);

}  // namespace octachoron
