#pragma once
/// Owned communicators of NCCL and its errors as exceptions.
#include <nccl.h>

#include <string>
#include <vector>

namespace octachoron::nccl {

/// \throws plugin::Failure saying what failed and why
void check(ncclResult_t result, const std::string& what);
/// "NCCL: unhandled system error (...)": the words for a failed call.
std::string text_of(ncclResult_t result);

/// All communicators of this rank, in the order in which they were made.
class Communicators {
 public:
  Communicators() = default;
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  void add(ncclComm_t communicator) { all_.push_back(communicator); }
  /// What went wrong behind the back of the calls, in any of them; empty: nothing.
  std::string error() const;
  /// Ends whatever is in flight, and the communicators: all at once, as a kernel of one may be what keeps the
  /// memory of another from being freed. NCCL waits there for graphs that hold messages: after some seconds it is left
  /// alone, for the process shall end.
  void abort() noexcept;
  /// Of communicators without work.
  void destroy() noexcept;

 private:
  std::vector<ncclComm_t> all_;
};

}  // namespace octachoron::nccl
