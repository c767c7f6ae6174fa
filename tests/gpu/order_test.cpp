/// What the conformance tests of lanes do not ask of every device: flags, graphs over several lanes, memory
/// of another process, stamps in ordinary memory, and queries without a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/conformance/device_rig.h"
#include "tests/gpu/raw_device.h"

extern char** environ;

namespace octachoron::gpu {
namespace {

/// Memory of the device and what it holds.
class Word {
 public:
  Word(const Device& device, std::uint32_t value)
      : device_(device), memory_(device.allocate(OCT_MEMORY_DEVICE, 4)) {
    set(value);
  }
  ~Word() { device_.release(OCT_MEMORY_DEVICE, memory_); }
  Word(const Word&) = delete;
  std::uint32_t* at() const { return static_cast<std::uint32_t*>(memory_); }
  void set(std::uint32_t value) const {
    device_.check(device_.table().copy(device_.handle(), memory_, &value, 4, device_.lane()), "copy");
    device_.synchronize();
  }
  std::uint32_t get(oct_lane* lane) const {
    std::uint32_t value = 0;
    device_.check(device_.table().copy(device_.handle(), &value, memory_, 4, lane), "copy");
    device_.synchronize();
    return value;
  }

 private:
  const Device& device_;
  void* memory_;
};

oct_lane* new_lane(const Device& device) {
  oct_lane* lane = nullptr;
  device.check(device.table().lane_create(device.handle(), "other", 1, &lane), "lane_create");
  return lane;
}

TEST(Order, FlagsOrderLanes) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  oct_lane* other = new_lane(device);
  const Word flag(device, 0xfffffffeu), epoch(device, 1), data(device, 5), copy(device, 0);
  const oct_operation fill = describe(OCT_FILL, {{OCT_U32, 0, 1, 1, 1}}, {}, {77});
  // Before anything waits: loading a kernel may need the GPU to be idle.
  const std::int32_t id = device.prepare(fill);
  // The counter wraps around: 1 comes after 0xfffffffe.
  ASSERT_EQ(t.await(device.handle(), other, flag.at(), epoch.at()), OCT_OK);
  ASSERT_EQ(t.copy(device.handle(), copy.at(), data.at(), 4, other), OCT_OK);
  void* const pointers[] = {data.at(), nullptr};
  ASSERT_EQ(t.enqueue(device.handle(), id, pointers, device.lane()), OCT_OK);
  ASSERT_EQ(t.signal(device.handle(), device.lane(), flag.at(), epoch.at()), OCT_OK);
  device.synchronize();
  EXPECT_EQ(copy.get(other), 77u);
  EXPECT_EQ(flag.get(other), 1u);
  t.lane_destroy(device.handle(), other);
}

/// x doubles on one lane, y takes it over on another, in one graph that is launched again and again.
TEST(Order, GraphsSpanLanes) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  oct_lane* lanes[] = {device.lane(), new_lane(device)};
  oct_event* event = nullptr;
  ASSERT_EQ(t.event_create(device.handle(), &event), OCT_OK);
  const oct_matrix m = {OCT_F32, 0, 64, 64, 64};
  const std::int32_t add = device.prepare(describe(OCT_ADD, {m, m, {}, m}));
  const std::int32_t product = device.prepare(describe(OCT_GEMM, {m, m, {}, {}, {}, m}));
  const oct_support s = device.support(describe(OCT_GEMM, {m, m, {}, {}, {}, m}));
  std::vector<float> identity(64 * 64), x(64 * 64);
  for (std::size_t i = 0; i < 64; ++i) identity[65 * i] = 1;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = float(i % 50);
  void* memory[4];
  for (void*& each : memory)
    each = device.allocate(OCT_MEMORY_DEVICE, std::size_t(s.workspace_bytes) + 64 * 64 * 4);
  device.check(t.copy(device.handle(), memory[0], x.data(), 64 * 64 * 4, device.lane()), "copy");
  device.check(t.copy(device.handle(), memory[1], identity.data(), 64 * 64 * 4, device.lane()), "copy");
  device.synchronize();
  ASSERT_EQ(t.capture_begin(device.handle(), lanes, 2), OCT_OK);
  void* const adds[] = {memory[0], memory[0], nullptr, memory[0], nullptr};
  void* const products[] = {memory[0], memory[1], nullptr, nullptr, nullptr, memory[2], memory[3]};
  EXPECT_EQ(t.enqueue(device.handle(), add, adds, lanes[0]), OCT_OK);
  EXPECT_EQ(t.event_record(device.handle(), event, lanes[0]), OCT_OK);
  EXPECT_EQ(t.event_wait(device.handle(), event, lanes[1]), OCT_OK);
  EXPECT_EQ(t.enqueue(device.handle(), product, products, lanes[1]), OCT_OK);
  EXPECT_EQ(t.enqueue_host(
                device.handle(), lanes[0], [](void*) {}, nullptr),
            OCT_UNSUPPORTED);
  std::int32_t graph = -1;
  ASSERT_EQ(t.capture_end(device.handle(), &graph), OCT_OK);
  for (int k = 0; k < 3; ++k) ASSERT_EQ(t.graph_launch(device.handle(), graph, device.lane()), OCT_OK);
  std::vector<float> y(64 * 64);
  device.check(t.copy(device.handle(), y.data(), memory[2], 64 * 64 * 4, device.lane()), "copy");
  device.synchronize();
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 8 * x[i]) << i;
  t.graph_destroy(device.handle(), graph);
  for (void* each : memory) device.release(OCT_MEMORY_DEVICE, each);
  t.event_destroy(device.handle(), event);
  t.lane_destroy(device.handle(), lanes[1]);
}

TEST(Order, StampsInOrdinaryMemory) {
  const Device device(conformance::plugin_under_test());
  std::vector<double> times(10000, -1);
  for (double& time : times)
    device.check(device.table().stamp(device.handle(), device.lane(), &time), "stamp");
  device.synchronize();
  EXPECT_GT(times.front(), 0);
  for (std::size_t i = 1; i < times.size(); ++i) ASSERT_GE(times[i], times[i - 1]) << i;
}

/// The other process: this program with a handle in its environment. It maps the memory, writes the second
/// number and then the flag.
constexpr const char* kHandle = "OCTACHORON_TEST_HANDLE";

/// Of a process, which is ended if it takes longer than 30 s.
int status_of(pid_t child) {
  int status = -1;
  for (int tenths = 0; tenths < 300; ++tenths) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return status;
}

TEST(Order, MemoryOfAnotherProcess) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  void* memory = device.allocate(OCT_MEMORY_PEER, 1024);
  const std::vector<std::uint32_t> zeros(256);
  device.check(t.copy(device.handle(), memory, zeros.data(), 1024, device.lane()), "copy");
  device.synchronize();
  unsigned char handle[64];
  device.check(t.export_memory(device.handle(), memory, handle, sizeof handle), "export_memory");
  std::string hex;
  for (const unsigned char byte : handle)
    hex += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  setenv(kHandle, hex.c_str(), 1);
  char self[] = "/proc/self/exe", filter[] = "--gtest_filter=Peer.*";
  char* const arguments[] = {self, filter, nullptr};
  pid_t child = -1;
  ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ), 0);
  unsetenv(kHandle);
  const Word one(device, 1);
  const int status = status_of(child);
  ASSERT_EQ(status, 0) << "the other process failed";
  // A flag that nobody set would be waited for without end.
  std::uint32_t flag = 0;
  device.check(t.copy(device.handle(), &flag, memory, 4, device.lane()), "copy");
  device.synchronize();
  ASSERT_EQ(flag, 1u);
  ASSERT_EQ(t.await(device.handle(), device.lane(), static_cast<std::uint32_t*>(memory), one.at()), OCT_OK);
  std::vector<std::uint32_t> words(256);
  device.check(t.copy(device.handle(), words.data(), memory, 1024, device.lane()), "copy");
  device.synchronize();
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[128], 4711u);
  device.release(OCT_MEMORY_PEER, memory);
}

TEST(Peer, WritesIntoMappedMemory) {
  const char* hex = std::getenv(kHandle);
  if (hex == nullptr) GTEST_SKIP() << "started by Order.MemoryOfAnotherProcess only";
  unsigned char handle[64];
  for (std::size_t i = 0; i < sizeof handle; ++i)
    handle[i] = static_cast<unsigned char>(std::stoul(std::string(hex + 2 * i, 2), nullptr, 16));
  const Device device(conformance::plugin_under_test());
  void* memory = nullptr;
  device.check(device.table().import_memory(device.handle(), handle, sizeof handle, &memory),
               "import_memory");
  const Word number(device, 4711), one(device, 1);
  auto* words = static_cast<std::uint32_t*>(memory);
  device.check(device.table().copy(device.handle(), words + 128, number.at(), 4, device.lane()), "copy");
  device.check(device.table().signal(device.handle(), device.lane(), words, one.at()), "signal");
  device.synchronize();
  device.table().close_memory(device.handle(), memory);
}

}  // namespace
}  // namespace octachoron::gpu
