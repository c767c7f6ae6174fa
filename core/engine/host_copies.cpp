#include "core/engine/host_copies.h"

#include "core/base/error.h"

namespace octachoron {

std::byte* HostCopies::at(const View& buffer) {
  if (executor_.is_host_readable(buffer)) return executor_.address(buffer);
  ensure(buffer.offset == 0 && buffer.contiguous(), "a copy of a part of a buffer");
  auto found = copies_.find(buffer.buffer);
  if (found == copies_.end())
    found = copies_.emplace(buffer.buffer, Copy{buffer, std::make_unique_for_overwrite<std::byte[]>(std::size_t(buffer.bytes()))}).first;
  return found->second.data.get();
}

void HostCopies::pull() {
  for (auto& [buffer, copy] : copies_) executor_.read(copy.view, 0, copy.data.get());
}

void HostCopies::push() {
  for (auto& [buffer, copy] : copies_) executor_.write(copy.view, 0, copy.data.get());
}

}  // namespace octachoron
