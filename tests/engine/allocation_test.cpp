// A step allocates nothing. This program counts calls of operator new, its own and those of the plugins it
// loads; what oneDNN and MPI do inside is theirs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/base/text.h"
#include "tests/engine/rig.h"
#include "tests/schedule/small_model.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
std::array<std::atomic<void*>, 8> callers{};

bool is_foreign(void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  for (const char* library : {"libdnnl", "libmpi", "libopen-", "libpmix", "libgomp"})
    if (std::strstr(info.dli_fname, library) != nullptr) return true;
  return false;
}

void* allocate(std::size_t size, std::size_t alignment, void* caller) {
  if (counting && !is_foreign(caller)) {
    const int number = allocations++;
    if (number < int(callers.size())) callers[std::size_t(number)] = caller;
  }
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new[](std::size_t size) {
  return allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, std::size_t(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace octachoron::engine_test {
namespace {

// Allocations of all threads of this process meanwhile, and who made the first of them.
template <class Function>
int count(Function function) {
  allocations = 0;
  counting = true;
  function();
  counting = false;
  return allocations;
}

std::string who() {
  std::string names;
  for (int i = 0; i < std::min<int>(allocations, int(callers.size())); ++i) {
    Dl_info info{};
    if (dladdr(callers[std::size_t(i)], &info) == 0) continue;
    const auto offset =
        static_cast<char*>(callers[std::size_t(i)].load()) - static_cast<char*>(info.dli_fbase);
    names += text("\n  ", info.dli_fname, "+0x", std::hex, offset, " ", info.dli_sname ? info.dli_sname : "");
  }
  return names;
}

TEST(Allocation, TheCountIncludesPlugins) {
  const World world(MPI_COMM_WORLD);
  Session session(grids(world.size()).front());
  oct_operation fill{};
  fill.struct_size = sizeof fill;
  fill.op = OCT_FILL;
  fill.operands = 1;
  fill.operand[0] = {OCT_F32, 0, 3, 1237, 1237};
  EXPECT_GT(count([&] { session.backend.device().prepare(fill); }), 0);
  EXPECT_NE(who().find("device-cpu.so"), std::string::npos) << who();
}

TEST(Allocation, AStepMakesNone) {
  const World world(MPI_COMM_WORLD);
  for (const Strings& grid : grids(world.size())) {
    Session session(with(grid, {"batch.global=8", "parallel.bucket=0.01"}));
    const std::string where = grid[0] + " " + grid[1];
    const RankBatch input = batch(session.parameters, world.rank(), 0);
    Executor& training = session.session.training();
    // Pools grow to what is in flight at once: most with slow lanes.
    training.set_delays(1, 2000);
    session.session.step(input, 1e-2, 1);
    training.set_delays(0, 0);
    session.session.step(input, 1e-2, 2);
    session.session.validate(input);
    EXPECT_EQ(count([&] {
                for (std::int64_t step = 3; step < 8; ++step) session.session.step(input, 1e-2, step);
              }),
              0)
        << where << who();
    EXPECT_EQ(count([&] { session.session.validate(input); }), 0) << where << ", validation" << who();
    EXPECT_EQ(count([&] { training.run_observed(); }), 0) << where << ", observed" << who();
  }
}

}  // namespace
}  // namespace octachoron::engine_test
