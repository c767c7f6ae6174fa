#pragma once
/// Buffers of a program as the host sees them: in place where device memory is the host's, else in copies.
#include <map>
#include <memory>

#include "core/engine/executor.h"

namespace octachoron {

class HostCopies {
 public:
  /// \param executor must outlive it
  explicit HostCopies(const Executor& executor) : executor_(executor) {}

  /// Where the host finds the first instance of a whole buffer. A copy has no value until pull() or until it is written.
  std::byte* at(const View& buffer);
  /// Takes all copies from the device; sends them to it. While no lane runs.
  void pull();
  void push();
  /// Frees the copies: addresses of at() are no longer valid.
  void clear() { copies_.clear(); }

 private:
  struct Copy {
    View view;
    std::unique_ptr<std::byte[]> data;
  };
  const Executor& executor_;
  std::map<int, Copy> copies_;  // by buffer
};

}  // namespace octachoron
