/// Where the buffers of a bound program lie, and how the host reaches them.
#include <cstring>

#include "core/base/error.h"
#include "core/engine/executor.h"

namespace octachoron {

int Executor::instance_of(const View& view, const Call& call) const {
  return program_.instance(view.buffer, call) - view.buffer * program_.instances_per_buffer();
}

std::byte* Executor::place(const View& view, int instance) const {
  const std::int64_t begin = plan_.placement[view.buffer * program_.instances_per_buffer() + instance];
  ensure(begin >= 0, "buffer '", program_.buffers[view.buffer].name, "' has no place");
  const bool host = program_.buffers[view.buffer].memory == MemoryClass::host;
  return (host ? context_.arena.host_at(begin) : context_.arena.device_at(begin)) + view.offset;
}

bool Executor::is_host_readable(const View& view) const {
  return context_.arena.is_host() || program_.buffers[view.buffer].memory == MemoryClass::host;
}

std::byte* Executor::address(const View& view, const Call& call) const {
  return address(view, instance_of(view, call));
}

std::byte* Executor::address(const View& view, int instance) const {
  ensure(is_host_readable(view), "the host cannot read buffer '", program_.buffers[view.buffer].name, "' in place");
  return place(view, instance);
}

void Executor::read(const View& view, int instance, void* to) const {
  if (view.elements() == 0) return;
  const std::byte* from = place(view, instance);
  const auto bytes = view.box().end() - view.offset;
  if (is_host_readable(view))
    std::memcpy(to, from, std::size_t(bytes));
  else
    context_.arena.read(from, bytes, to);
}

void Executor::write(const View& view, int instance, const void* from) const {
  if (view.elements() == 0) return;
  std::byte* to = place(view, instance);
  const auto bytes = view.box().end() - view.offset;
  if (is_host_readable(view))
    std::memcpy(to, from, std::size_t(bytes));
  else
    context_.arena.write(from, bytes, to);
}

void Executor::clear(const View& view) const {
  ensure(view.contiguous(), "a view with gaps cannot be cleared");
  std::byte* at = place(view, 0);
  if (is_host_readable(view))
    std::memset(at, 0, std::size_t(view.bytes()));
  else
    context_.arena.clear(at, view.bytes());
}

const std::byte* Executor::look(const View& view, const Call& call, std::vector<std::byte>& storage) const {
  const int instance = instance_of(view, call);
  if (is_host_readable(view)) return place(view, instance);
  storage.resize(std::size_t(view.box().end() - view.offset));
  read(view, instance, storage.data());
  return storage.data();
}

}  // namespace octachoron
