/// Memory, order within a lane, events across lanes, host functions, time stamps and errors.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "tests/conformance/device_rig.h"

namespace octachoron::conformance {
namespace {

void* host_memory(Rig& rig, std::size_t bytes) {
  void* memory = nullptr;
  EXPECT_EQ(rig.table().allocate(rig.device(), OCT_MEMORY_PINNED, bytes, &memory), OCT_OK);
  return memory;
}

TEST(DeviceLanes, PluginIsWhatItSays) {
  const oct_plugin& plugin = plugin_under_test();
  EXPECT_EQ(plugin.abi_major, std::uint32_t(OCT_ABI_MAJOR));
  EXPECT_EQ(plugin.family, OCT_DEVICE);
  Rig rig;
  oct_device_properties p{};
  p.struct_size = sizeof p;
  ASSERT_EQ(rig.table().properties(rig.device(), &p), OCT_OK);
  EXPECT_NE(p.description[0], 0);
  EXPECT_EQ(p.struct_size, sizeof p);
}

TEST(DeviceLanes, MemoryIsAligned) {
  Rig rig;
  for (const std::size_t bytes : {std::size_t(0), std::size_t(1), std::size_t(4097), std::size_t(5) << 20}) {
    void* memory = nullptr;
    ASSERT_EQ(rig.table().allocate(rig.device(), OCT_MEMORY_DEVICE, bytes, &memory), OCT_OK);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    rig.table().release(rig.device(), OCT_MEMORY_DEVICE, memory);
  }
  void* memory = nullptr;
  EXPECT_EQ(rig.table().allocate(rig.device(), OCT_MEMORY_DEVICE, std::size_t(1) << 60, &memory),
            OCT_OUT_OF_MEMORY);
}

struct Append {
  std::vector<int>* list;
  int value;
};
void append(void* argument) {
  const auto* a = static_cast<Append*>(argument);
  if (a->value % 997 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  a->list->push_back(a->value);
}

TEST(DeviceLanes, LaneKeepsOrderBeyondItsCapacity) {
  Rig rig;
  constexpr int n = 5000;
  std::vector<int> list;
  std::vector<Append> arguments;
  for (int k = 0; k < n; ++k) arguments.push_back({&list, k});
  for (Append& a : arguments)
    ASSERT_EQ(rig.table().enqueue_host(rig.device(), rig.lane(), append, &a), OCT_OK);
  ASSERT_EQ(rig.table().synchronize(rig.device()), OCT_OK);
  ASSERT_EQ(list.size(), std::size_t(n));
  for (int k = 0; k < n; ++k) ASSERT_EQ(list[std::size_t(k)], k);
}

void delay(void* argument) {
  std::this_thread::sleep_for(std::chrono::microseconds(*static_cast<int*>(argument)));
}

/// A token walks over the lanes in random order; every hop copies the last place to the next and waits for it
/// by an event that is recorded again and again.
TEST(DeviceLanes, EventsOrderLanesUnderRandomDelays) {
  Rig rig;
  const oct_device_table& t = rig.table();
  constexpr int lanes = 4, hops = 400;
  oct_lane* lane[lanes];
  oct_event* event = nullptr;
  for (auto& l : lane) ASSERT_EQ(t.lane_create(rig.device(), "l", 0, &l), OCT_OK);
  ASSERT_EQ(t.event_create(rig.device(), &event), OCT_OK);
  auto* place = static_cast<int*>(host_memory(rig, (hops + 1) * sizeof(int)));
  std::memset(place, 0, (hops + 1) * sizeof(int));
  place[0] = 42;
  std::mt19937 generator(7);
  std::vector<int> delays(hops);
  for (int& d : delays) d = int(generator() % 200);
  for (int hop = 0; hop < hops; ++hop) {
    oct_lane* on = lane[generator() % lanes];
    ASSERT_EQ(t.event_wait(rig.device(), event, on), OCT_OK);
    ASSERT_EQ(t.enqueue_host(rig.device(), on, delay, &delays[std::size_t(hop)]), OCT_OK);
    ASSERT_EQ(t.copy(rig.device(), place + hop + 1, place + hop, sizeof(int), on), OCT_OK);
    ASSERT_EQ(t.event_record(rig.device(), event, on), OCT_OK);
  }
  ASSERT_EQ(t.event_synchronize(rig.device(), event), OCT_OK);
  EXPECT_EQ(place[hops], 42);
  std::int32_t past = 0;
  ASSERT_EQ(t.event_query(rig.device(), event, &past), OCT_OK);
  EXPECT_EQ(past, 1);
  for (auto* l : lane) t.lane_destroy(rig.device(), l);
  t.event_destroy(rig.device(), event);
  t.release(rig.device(), OCT_MEMORY_PINNED, place);
}

void block(void* argument) {
  while (!static_cast<std::atomic<bool>*>(argument)->load())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}
void set(void* argument) {
  *static_cast<std::atomic<bool>*>(argument) = true;
}

/// A wait is for the record as of the call: a later record, even one that is past already, changes nothing.
TEST(DeviceLanes, WaitIsForTheRecordAsOfTheCall) {
  Rig rig;
  const oct_device_table& t = rig.table();
  oct_lane *slow = nullptr, *quick = nullptr, *waiting = nullptr;
  for (auto* l : {&slow, &quick, &waiting}) ASSERT_EQ(t.lane_create(rig.device(), "l", 0, l), OCT_OK);
  oct_event *event = nullptr, *never = nullptr;
  ASSERT_EQ(t.event_create(rig.device(), &event), OCT_OK);
  ASSERT_EQ(t.event_create(rig.device(), &never), OCT_OK);
  std::atomic<bool> open = false, went_on = false, other = false;
  ASSERT_EQ(t.enqueue_host(rig.device(), slow, block, &open), OCT_OK);
  ASSERT_EQ(t.event_record(rig.device(), event, slow), OCT_OK);
  ASSERT_EQ(t.event_wait(rig.device(), event, waiting), OCT_OK);
  ASSERT_EQ(t.enqueue_host(rig.device(), waiting, set, &went_on), OCT_OK);
  ASSERT_EQ(t.event_record(rig.device(), event, quick), OCT_OK);  // past at once
  ASSERT_EQ(t.event_synchronize(rig.device(), event), OCT_OK);
  ASSERT_EQ(t.event_wait(rig.device(), never, quick), OCT_OK);  // never recorded: goes on
  ASSERT_EQ(t.enqueue_host(rig.device(), quick, set, &other), OCT_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(went_on);
  EXPECT_TRUE(other);
  open = true;
  ASSERT_EQ(t.synchronize(rig.device()), OCT_OK);
  EXPECT_TRUE(went_on);
  t.event_destroy(rig.device(), event);
  t.event_destroy(rig.device(), never);
  for (auto* l : {slow, quick, waiting}) t.lane_destroy(rig.device(), l);
}

TEST(DeviceLanes, LanesRunAtTheSameTime) {
  Rig rig;
  const oct_device_table& t = rig.table();
  oct_lane* other = nullptr;
  ASSERT_EQ(t.lane_create(rig.device(), "other", 0, &other), OCT_OK);
  std::atomic<bool> open = false;
  ASSERT_EQ(t.enqueue_host(rig.device(), rig.lane(), block, &open), OCT_OK);
  ASSERT_EQ(t.enqueue_host(rig.device(), other, set, &open), OCT_OK);  // only this lets the first go on
  ASSERT_EQ(t.synchronize(rig.device()), OCT_OK);
  t.lane_destroy(rig.device(), other);
}

TEST(DeviceLanes, StampsAreSecondsInLaneOrder) {
  Rig rig;
  auto* seconds = static_cast<double*>(host_memory(rig, 2 * sizeof(double)));
  int pause = 20000;
  ASSERT_EQ(rig.table().stamp(rig.device(), rig.lane(), seconds), OCT_OK);
  ASSERT_EQ(rig.table().enqueue_host(rig.device(), rig.lane(), delay, &pause), OCT_OK);
  ASSERT_EQ(rig.table().stamp(rig.device(), rig.lane(), seconds + 1), OCT_OK);
  ASSERT_EQ(rig.table().synchronize(rig.device()), OCT_OK);
  EXPECT_GE(seconds[1] - seconds[0], 0.02);
  EXPECT_LT(seconds[1] - seconds[0], 5);
  rig.table().release(rig.device(), OCT_MEMORY_PINNED, seconds);
}

TEST(DeviceLanes, EqualDescriptionsShareAnId) {
  Rig rig;
  std::vector<Operand> operands = {random(OCT_F32, 3, 5, 1), zeros(OCT_F32, 3, 5)};
  oct_operation description = describe(OCT_GELU, operands);
  std::int32_t first = -1, second = -1, third = -1;
  ASSERT_EQ(rig.table().prepare(rig.device(), &description, &first), OCT_OK);
  ASSERT_EQ(rig.table().prepare(rig.device(), &description, &second), OCT_OK);
  description.operand[0].pitch = 6;
  ASSERT_EQ(rig.table().prepare(rig.device(), &description, &third), OCT_OK);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
}

TEST(DeviceLanes, ErrorOfEnqueuedWorkIsPolledOnce) {
  Rig rig;
  const oct_device_table& t = rig.table();
  std::vector<Operand> operands = {random(OCT_F32, 1, 4, 1), filled(OCT_I32, 1, 1, {64}),
                                   zeros(OCT_F32, 1, 3)};
  const oct_operation description = describe(OCT_LOSS_STATISTICS, operands, {.i = {0, 4}});
  std::int32_t id = -1;
  ASSERT_EQ(t.prepare(rig.device(), &description, &id), OCT_OK);
  void* memory[3];
  for (void*& m : memory) m = host_memory(rig, 4 * sizeof(float));
  std::memset(memory[0], 0, 4 * sizeof(float));
  *static_cast<std::int32_t*>(memory[1]) = 64;  // not an id of the vocabulary of 4
  void* const pointers[] = {memory[0], memory[1], memory[2], nullptr};
  ASSERT_EQ(t.enqueue(rig.device(), id, pointers, rig.lane()), OCT_OK);
  ASSERT_EQ(t.synchronize(rig.device()), OCT_OK);
  const std::string text = rig.poll_error();
  EXPECT_NE(text.find("target 64"), std::string::npos) << text;
  EXPECT_EQ(rig.poll_error(), "");
  for (void* m : memory) t.release(rig.device(), OCT_MEMORY_PINNED, m);
}

}  // namespace
}  // namespace octachoron::conformance
