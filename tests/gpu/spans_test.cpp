/// Spans on a GPU: the times of what ran, by what the device recorded, against stamps on either side.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <thread>

#include "tests/conformance/device_rig.h"
#include "tests/gpu/raw_device.h"

namespace octachoron::gpu {
namespace {

constexpr double kClocksAgree_s = 10e-6;

/// Copies within the device: about 0.25 ms of an H200 each.
class Copies {
 public:
  explicit Copies(const Device& device)
      : device_(device),
        from_(device.allocate(OCT_MEMORY_DEVICE, kBytes)),
        to_(device.allocate(OCT_MEMORY_DEVICE, kBytes)),
        id_(device.prepare(describe(OCT_COPY, {kMatrix, kMatrix}))) {}
  ~Copies() {
    device_.release(OCT_MEMORY_DEVICE, from_);
    device_.release(OCT_MEMORY_DEVICE, to_);
  }
  Copies(const Copies&) = delete;
  /// \param kernels of the device's own; else copies by the driver
  void enqueue(oct_lane* lane, int times, bool kernels = true) const {
    void* const pointers[] = {from_, to_, nullptr};
    for (int k = 0; k < times; ++k)
      device_.check(kernels ? device_.table().enqueue(device_.handle(), id_, pointers, lane)
                            : device_.table().copy(device_.handle(), to_, from_, kBytes, lane),
                    "a copy");
  }

 private:
  static constexpr std::size_t kBytes = std::size_t(512) << 20;
  static constexpr oct_matrix kMatrix = {OCT_F32, 0, 1 << 14, 1 << 13, 1 << 13};
  const Device& device_;
  void *from_, *to_;
  std::int32_t id_;
};

struct Times {
  double before = -1, begin = -1, end = -1, after = -1;
  double length() const { return end - begin; }
};

/// A span with a stamp on either side.
template <class Enqueue>
void measure(const Device& device, oct_lane* lane, Times* times, Enqueue enqueue) {
  const oct_device_table& t = device.table();
  device.check(t.stamp(device.handle(), lane, &times->before), "stamp");
  device.check(t.span_begin(device.handle(), lane, "measured", &times->begin, &times->end), "span_begin");
  enqueue();
  device.check(t.span_end(device.handle(), lane), "span_end");
  device.check(t.stamp(device.handle(), lane, &times->after), "stamp");
}

void expect_between_stamps(const Times& t) {
  EXPECT_LE(t.begin, t.end);
  EXPECT_GE(t.begin, t.before - kClocksAgree_s);
  EXPECT_LE(t.end, t.after + kClocksAgree_s);
}

TEST(Spans, HaveTheTimesBetweenStamps) {
  const Device device(conformance::plugin_under_test());
  const Copies copies(device);
  Times first;  // recording begins with it, which takes long
  measure(device, device.lane(), &first, [&] { copies.enqueue(device.lane(), 2); });
  device.synchronize();
  for (const bool kernels : {true, false}) {
    Times one, four;
    measure(device, device.lane(), &one, [&] { copies.enqueue(device.lane(), 1, kernels); });
    measure(device, device.lane(), &four, [&] { copies.enqueue(device.lane(), 4, kernels); });
    device.synchronize();
    std::printf("%s: one %.1f us (stamps %.1f us), four %.1f us (stamps %.1f us)\n",
                kernels ? "kernels" : "copies", 1e6 * one.length(), 1e6 * (one.after - one.before),
                1e6 * four.length(), 1e6 * (four.after - four.before));
    for (const Times& t : {one, four}) {
      expect_between_stamps(t);
      // The host enqueues the stamps: it may come late to them.
      EXPECT_GT(t.length(), 0.8 * (t.after - t.before) - 500e-6);
    }
    EXPECT_GT(four.length(), 2.5 * one.length());
    EXPECT_LE(one.end, four.begin + 1e-6);
  }
}

TEST(Spans, LeaveOutWhatTheLaneWaitedFor) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  const Copies copies(device);
  copies.enqueue(device.lane(), 1);
  device.synchronize();
  oct_lane* other = nullptr;
  oct_event* event = nullptr;
  device.check(t.lane_create(device.handle(), "other", 0, &other), "lane_create");
  device.check(t.event_create(device.handle(), &event), "event_create");
  Times first, second;
  measure(device, device.lane(), &first, [&] { copies.enqueue(device.lane(), 8); });
  device.check(t.event_record(device.handle(), event, device.lane()), "event_record");
  measure(device, other, &second, [&] {
    device.check(t.event_wait(device.handle(), event, other), "event_wait");
    copies.enqueue(other, 1);
  });
  device.synchronize();
  EXPECT_GE(second.begin, first.end - 1e-6);
  EXPECT_LT(second.length(), 0.5 * first.length());
  expect_between_stamps(second);
  t.event_destroy(device.handle(), event);
  t.lane_destroy(device.handle(), other);
}

TEST(Spans, OfLanesSideBySideOverlap) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  const Copies copies(device);
  copies.enqueue(device.lane(), 1);
  device.synchronize();
  oct_lane* other = nullptr;
  device.check(t.lane_create(device.handle(), "other", 0, &other), "lane_create");
  Times a, b;
  int pause_us = 20000;
  const auto sleep = [](void* us) {
    std::this_thread::sleep_for(std::chrono::microseconds(*static_cast<int*>(us)));
  };
  measure(device, other, &b,
          [&] { device.check(t.enqueue_host(device.handle(), other, sleep, &pause_us), "enqueue_host"); });
  measure(device, device.lane(), &a, [&] { copies.enqueue(device.lane(), 8); });
  device.synchronize();
  EXPECT_LT(a.begin, b.end);
  EXPECT_GE(b.length(), 0.02) << "a host function is work too";
  EXPECT_LT(b.length(), 0.2);
  expect_between_stamps(a);
  // The host's clock is compared by way of the recorder, so a little more is granted.
  EXPECT_GE(b.begin, b.before - 1e-3);
  EXPECT_LE(b.end, b.after + 1e-3);
  t.lane_destroy(device.handle(), other);
}

TEST(Spans, WithoutWorkAreTheEndOfTheOneBefore) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  const Copies copies(device);
  Times work, none, outer, inner;
  measure(device, device.lane(), &work, [&] { copies.enqueue(device.lane(), 1); });
  device.check(t.span_begin(device.handle(), nullptr, "a name", nullptr, nullptr), "span_begin");
  measure(device, device.lane(), &none, [] {});
  device.check(t.span_end(device.handle(), nullptr), "span_end");
  measure(device, device.lane(), &outer, [&] {
    copies.enqueue(device.lane(), 1);
    measure(device, device.lane(), &inner, [&] { copies.enqueue(device.lane(), 1); });
  });
  device.synchronize();
  // In stamps' stead, where nothing is recorded, a span has the length of two stamps.
  EXPECT_NEAR(none.begin, work.end, 50e-6);
  EXPECT_NEAR(none.end, none.begin, 50e-6);
  EXPECT_GT(inner.length(), 0);
  EXPECT_GE(inner.begin, outer.begin);
  EXPECT_EQ(t.span_end(device.handle(), device.lane()), OCT_INVALID_ARGUMENT);
}

TEST(Spans, ManyAreAssignedOneByOne) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  const oct_matrix small = {OCT_F32, 0, 64, 64, 64};
  const std::int32_t fill = device.prepare(describe(OCT_FILL, {small}, {}, {1}));
  void* memory = device.allocate(OCT_MEMORY_DEVICE, 64 * 64 * 4);
  void* const pointers[] = {memory, nullptr};
  for (int round = 0; round < 2; ++round) {  // recording stops and begins again
    std::vector<double> begin(5000, -1), end(5000, -1);
    for (std::size_t i = 0; i < begin.size(); ++i) {
      device.check(t.span_begin(device.handle(), device.lane(), "fill", &begin[i], &end[i]), "span_begin");
      device.check(t.enqueue(device.handle(), fill, pointers, device.lane()), "enqueue");
      device.check(t.span_end(device.handle(), device.lane()), "span_end");
    }
    device.synchronize();
    for (std::size_t i = 0; i < begin.size(); ++i) {
      ASSERT_LT(begin[i], end[i]) << i;
      ASSERT_LT(end[i] - begin[i], 1e-3) << i;
      if (i > 0) {
        ASSERT_GE(begin[i], end[i - 1] - 1e-6) << i;
      }
    }
  }
  device.release(OCT_MEMORY_DEVICE, memory);
}

TEST(Spans, OfAGraphHaveTimesInEachLaunch) {
  const Device device(conformance::plugin_under_test());
  const oct_device_table& t = device.table();
  const Copies copies(device);
  oct_lane* lanes[] = {device.lane()};
  double unused[2] = {-1, -1};
  const auto capture = [&](int times) {
    device.check(t.span_begin(device.handle(), device.lane(), "captured", &unused[0], &unused[1]),
                 "span_begin");
    copies.enqueue(device.lane(), times);
    device.check(t.span_end(device.handle(), device.lane()), "span_end");
  };
  device.check(t.capture_begin(device.handle(), lanes, 1), "capture_begin");
  for (const int times : {1, 4, 0, 1}) capture(times);
  device.check(t.span_begin(device.handle(), device.lane(), "a name", nullptr, nullptr), "span_begin");
  copies.enqueue(device.lane(), 1);  // in no span with times
  device.check(t.span_end(device.handle(), device.lane()), "span_end");
  std::int32_t graph = -1;
  device.check(t.capture_end(device.handle(), &graph), "capture_end");
  device.check(t.graph_launch(device.handle(), graph, device.lane()), "graph_launch");
  device.synchronize();
  double first[8], second[8];
  const oct_status status = t.graph_launch_timed(device.handle(), graph, device.lane(), first);
  if (status == OCT_UNSUPPORTED) GTEST_SKIP() << conformance::plugin_under_test().last_error();
  device.check(status, "graph_launch_timed");
  device.check(t.graph_launch_timed(device.handle(), graph, device.lane(), second), "graph_launch_timed");
  device.synchronize();
  EXPECT_EQ(unused[0], -1);
  double last_end = 0;
  for (const double* times : {first, second}) {
    std::printf("graph: one %.1f us, four %.1f us, none %.1f us, one %.1f us\n", 1e6 * (times[1] - times[0]),
                1e6 * (times[3] - times[2]), 1e6 * (times[5] - times[4]), 1e6 * (times[7] - times[6]));
    for (int k = 0; k < 4; ++k) {
      EXPECT_GE(times[2 * k], last_end - 1e-6) << k;
      EXPECT_GE(times[2 * k + 1], times[2 * k]) << k;
      last_end = times[2 * k + 1];
    }
    EXPECT_GT(times[1] - times[0], 50e-6);
    EXPECT_GT(times[3] - times[2], 2.5 * (times[1] - times[0]));
    EXPECT_EQ(times[5], times[3]) << "without work: the end of the one before";
    EXPECT_GT(times[7] - times[6], 50e-6);
  }
  EXPECT_GT(second[0], first[7] + 50e-6) << "the copy that no span holds lies between";
  t.graph_destroy(device.handle(), graph);
}

/// For people: whether clocks of the GPUs of a node may be taken for one.
TEST(Spans, ClockOfTheDeviceBesideThatOfTheHost) {
  const Device device(conformance::plugin_under_test());
  double least = 1e300, most = -1e300;
  for (int k = 0; k < 20; ++k) {
    const auto now = [] {
      timespec t{};
      clock_gettime(CLOCK_REALTIME, &t);
      return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
    };
    double stamp = -1;
    const double before = now();
    device.check(device.table().stamp(device.handle(), device.lane(), &stamp), "stamp");
    device.synchronize();
    const double after = now();
    least = std::min(least, stamp - before), most = std::max(most, stamp - after);
  }
  std::printf("the device's clock is ahead of CLOCK_REALTIME by %.1f to %.1f us\n", 1e6 * most, 1e6 * least);
  EXPECT_TRUE(std::isfinite(least));
}

}  // namespace
}  // namespace octachoron::gpu
