#pragma once
/// One comm plugin on one device over all ranks of the test, with buffers that are filled and read from the
/// host. Another pair is tested with OCTACHORON_TEST_COMM and OCTACHORON_TEST_DEVICE (names or paths).
#include <gtest/gtest.h>
#include <mpi.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/plugin/comm.h"
#include "core/plugin/dtype.h"
#include "tests/plugin/fixtures/run_host.h"

namespace octachoron {

inline PluginLibrary test_plugin(oct_family family, const std::string& name) {
  const std::string folders = OCTACHORON_BINARY_DIR "/lib/octachoron:" OCTACHORON_BINARY_DIR "/tests/plugins";
  return PluginLibrary(find_plugin(family, name, folders), family);
}

inline std::string chosen(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : value;
}

inline PluginLibrary test_comm() {
  return test_plugin(OCT_COMM, chosen("OCTACHORON_TEST_COMM", "mpi"));
}
inline bool comm_is(const std::string& name) {
  return test_comm().info().name == name;
}

struct World {
  static constexpr oct_device_options kOptions{sizeof(oct_device_options), 1, 0, nullptr};

  explicit World(const std::string& device_name)
      : run(duplicate()),
        host(run_host(run)),
        device(test_plugin(OCT_DEVICE, device_name), host, kOptions),
        comm(test_comm(), host, MPI_Comm_c2f(run), device),
        last(device) {}

  static MPI_Comm duplicate() {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    return copy;
  }
  int rank() const { return host.rank; }
  int size() const { return host.size; }
  std::vector<int> everyone() const {
    std::vector<int> ranks(static_cast<std::size_t>(host.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  int all(const std::string& purpose) { return comm.create_group(everyone(), purpose); }
  /// Behind this rank's last message, as the engine does it, where the plugin is not concurrent.
  void enqueue(const oct_message& m, const void* send, void* receive, oct_lane* lane) {
    if (comm.is_concurrent()) return comm.enqueue(m, send, receive, nullptr, lane);
    last.wait(lane);
    comm.enqueue(m, send, receive, nullptr, lane);
    last.record(lane);
  }

  MPI_Comm run;
  oct_host host;
  Device device;
  Communicator comm;
  DeviceEvent last;
};

inline oct_message message(oct_op kind, int group, oct_dtype dtype, std::int64_t count, int peer = 0,
                           oct_reduction reduction = OCT_SUM, std::uint64_t label = 1) {
  return {sizeof(oct_message), kind, group, peer, dtype, reduction, count, label};
}

/// Bytes of the device with a copy on the host.
class Buffer {
 public:
  Buffer(Device& device, std::size_t bytes)
      : host(bytes),
        device_(&device),
        memory_(device, OCT_MEMORY_DEVICE, bytes + 1),
        lane_(device, "copies", 0) {}
  void* data() const { return memory_.data(); }
  void upload() { move(memory_.data(), host.data()); }
  void download() { move(host.data(), memory_.data()); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(host.data());
  }

  std::vector<std::byte> host;

 private:
  void move(void* to, const void* from) {
    DeviceMemory pinned(*device_, OCT_MEMORY_PINNED, host.size() + 1);
    if (from == host.data()) std::copy(host.begin(), host.end(), pinned.data());
    device_->copy(to == host.data() ? pinned.data() : to, from == host.data() ? pinned.data() : from,
                  host.size(), lane_.handle());
    DeviceEvent done(*device_);
    done.record(lane_.handle());
    done.synchronize();
    if (to == host.data()) std::copy(pinned.data(), pinned.data() + host.size(), host.begin());
  }
  Device* device_;
  DeviceMemory memory_;
  DeviceLane lane_;
};

/// Tests run on memory of the host and on memory that the host cannot read.
class CommTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { world = std::make_unique<World>(GetParam()); }
  void TearDown() override {
    if (world == nullptr) return;
    world->device.synchronize();
    EXPECT_EQ(world->comm.poll_error(), "");
  }
  int rank() const { return world->rank(); }
  int size() const { return world->size(); }

  std::unique_ptr<World> world;
};

/// "./lib/device-cpu.so" -> "device_cpu_so": what GoogleTest accepts as a name.
inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(info.param.rfind('/') + 1);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

inline std::vector<std::string> test_devices() {
  const std::string device = chosen("OCTACHORON_TEST_DEVICE", "");
  return device.empty() ? std::vector<std::string>{"thread", "hidden"} : std::vector<std::string>{device};
}

}  // namespace octachoron
