// What every comm plugin does with time: several lanes at once, progress beside work, aborts and mistakes.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/conformance/comm_world.h"

namespace octachoron {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// An environment variable that is read when a plugin is created.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

class CommLanes : public CommTest {};
INSTANTIATE_TEST_SUITE_P(Devices, CommLanes, testing::ValuesIn(test_devices()), test_name);

/// A group with a lane and a buffer that is all-reduced in place by MAX of (rank's place + step).
struct Channel {
  Channel(World& world, const std::vector<int>& ranks, const std::string& purpose, std::int64_t count)
      : group(world.comm.create_group(ranks, purpose)),
        members(int(ranks.size())),
        count(count),
        lane(world.device, purpose, 0),
        data(world.device, std::size_t(count) * 4) {}
  int group, members;
  std::int64_t count;
  DeviceLane lane;
  Buffer data;
};

std::vector<std::vector<int>> halves(int size, bool strided) {
  std::vector<std::vector<int>> result(2);
  for (int r = 0; r < size; ++r) result[std::size_t(strided ? r % 2 : r * 2 / size)].push_back(r);
  return result;
}

TEST_P(CommLanes, ManyGroupsInFlightInRandomOrderNeverHang) {  // faults I01
  std::vector<std::unique_ptr<Channel>> channels;
  const std::vector<int> everyone = world->everyone();
  const auto add = [&](const std::vector<int>& ranks, const char* purpose, std::int64_t count) {
    if (std::find(ranks.begin(), ranks.end(), rank()) != ranks.end())
      channels.push_back(std::make_unique<Channel>(*world, ranks, purpose, count));
  };
  for (const auto& half : halves(size(), false)) add(half, "tp", 300);
  for (const auto& half : halves(size(), true)) add(half, "dp", 2000);
  add(everyone, "amax", 5);
  add(everyone, "gradient", 1500);
  for (auto& channel : channels) {
    for (std::int64_t i = 0; i < channel->count; ++i) channel->data.as<float>()[i] = 1;
    channel->data.upload();
  }
  // Another order on each rank, where the plugin allows that.
  std::mt19937 random(world->comm.is_concurrent() ? unsigned(rank()) + 17 : 17);
  std::vector<std::size_t> order(channels.size());
  std::iota(order.begin(), order.end(), 0u);
  for (int step = 0; step < 500; ++step) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t which : order) {
      Channel& channel = *channels[which];
      // The sum of equal values multiplies by the members, the maximum of equal values keeps them.
      const oct_reduction reduction = step < 3 ? OCT_SUM : OCT_MAX;
      world->enqueue(message(OCT_ALL_REDUCE, channel.group, OCT_F32, channel.count, 0, reduction),
                     channel.data.data(), channel.data.data(), channel.lane.handle());
    }
    if (step % 50 == rank()) std::this_thread::sleep_for(1ms);  // ranks drift apart
  }
  world->device.synchronize();
  for (auto& channel : channels) {
    channel->data.download();
    const float expected = float(channel->members) * float(channel->members) * float(channel->members);
    const float* first = channel->data.as<float>();
    EXPECT_EQ(std::count(first, first + channel->count, expected), channel->count);
  }
}

TEST_P(CommLanes, PurposesNeverMatchEachOther) {  // faults I02
  const std::vector<int> everyone = world->everyone();
  Channel amax(*world, everyone, "amax", 4), gradient(*world, everyone, "gradient", 4);
  for (int repeat = 0; repeat < 50; ++repeat) {
    for (int i = 0; i < 4; ++i) {
      amax.data.as<float>()[i] = float(1 + i + repeat);
      gradient.data.as<float>()[i] = float(1000 + i + repeat);
    }
    amax.data.upload();
    gradient.data.upload();
    Channel* order[] = {&amax, &gradient};
    if (rank() % 2 == 1 && world->comm.is_concurrent()) std::swap(order[0], order[1]);
    for (Channel* channel : order)
      world->enqueue(message(OCT_ALL_REDUCE, channel->group, OCT_F32, 4), channel->data.data(),
                     channel->data.data(), channel->lane.handle());
    world->device.synchronize();
    amax.data.download();
    gradient.data.download();
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(amax.data.as<float>()[i], float(size() * (1 + i + repeat)));
      EXPECT_EQ(gradient.data.as<float>()[i], float(size() * (1000 + i + repeat)));
    }
  }
}

TEST_P(CommLanes, LaneIsPastAMessageOnlyWhenItIsThrough) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  Channel channel(*world, world->everyone(), "late", 1000);
  DeviceEvent event(world->device);
  const auto enqueue = [&] {
    world->comm.enqueue(message(OCT_ALL_REDUCE, channel.group, OCT_F32, 1000), channel.data.data(),
                        channel.data.data(), nullptr, channel.lane.handle());
    event.record(channel.lane.handle());
  };
  if (rank() != 0) {
    enqueue();
    std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(event.past()) << "rank 0 has not given anything yet";
  }
  MPI_Barrier(world->run);
  if (rank() == 0) enqueue();
  event.synchronize();
}

/// A plugin may connect two ranks at their first transfer, for which both must be there.
void connect_neighbours(World& world, int group, const DeviceLane& lane, const Buffer& data) {
  const int right = (world.rank() + 1) % world.size(),
            left = (world.rank() + world.size() - 1) % world.size();
  Buffer from_left(world.device, 1), from_right(world.device, 1);
  const auto exchange = [&](int peer, const Buffer& arrives) {
    world.comm.enqueue(message(OCT_SEND, group, OCT_U8, 1, peer), data.data(), nullptr, nullptr,
                       lane.handle());
    world.comm.enqueue(message(OCT_RECEIVE, group, OCT_U8, 1, peer), nullptr, arrives.data(), nullptr,
                       lane.handle());
  };
  world.comm.exchange_begin(lane.handle());
  exchange(left, from_left);
  exchange(right, from_right);
  world.comm.exchange_end(lane.handle());
  world.device.synchronize();
}

TEST_P(CommLanes, AbortReleasesAWaitingLane) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  const int group = world->all("abort");
  {
    DeviceLane lane(world->device, "waits", 0);
    Buffer data(world->device, 64);
    const int peer = (rank() + 1) % size();
    connect_neighbours(*world, group, lane, data);
    EXPECT_EQ(world->comm.pending(), "");
    world->comm.enqueue(message(OCT_RECEIVE, group, OCT_F32, 16, peer, OCT_SUM, 0xabc), nullptr, data.data(),
                        nullptr, lane.handle());
    std::this_thread::sleep_for(20ms);
    EXPECT_THAT(world->comm.pending(),
                AllOf(HasSubstr("receive of 16 f32"), HasSubstr("0xabc"), HasSubstr("'abort'"),
                      HasSubstr("rank " + std::to_string(peer))));
    const auto start = Clock::now();
    std::thread other([&] {
      world->comm.abort();
      world->comm.abort();  // idempotent
    });
    world->device.synchronize();
    EXPECT_LT(seconds_since(start), 1.0);
    other.join();
    EXPECT_THAT(world->comm.poll_error(), HasSubstr("aborted"));
    try {
      world->comm.enqueue(message(OCT_ALL_REDUCE, group, OCT_F32, 1), data.data(), data.data(), nullptr,
                          lane.handle());
      ADD_FAILURE() << "accepted after abort";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::peer_failed);
    }
  }
  const auto start = Clock::now();
  world.reset();
  EXPECT_LT(seconds_since(start), 1.0) << "destroying it does not wait either";
}

TEST_P(CommLanes, AMessageTakesWhatItsLaneHasWrittenBefore) {  // faults E08, I03
  // The gradient is late, on another lane: the reduction waits for it by an event.
  Channel channel(*world, world->everyone(), "gradient", 1000);
  DeviceLane writer(world->device, "writer", 0);
  Buffer late(world->device, 4000);
  DeviceEvent written(world->device);
  for (int i = 0; i < 1000; ++i) {
    channel.data.as<float>()[i] = -100;
    late.as<float>()[i] = float(rank() + i);
  }
  channel.data.upload();
  late.upload();
  const auto nap = [](void*) { std::this_thread::sleep_for(20ms); };
  const Device& device = world->device;
  device.check(device.table().enqueue_host(device.handle(), writer.handle(), nap, nullptr), "enqueue_host");
  world->device.copy(channel.data.data(), late.data(), 4000, writer.handle());
  written.record(writer.handle());
  written.wait(channel.lane.handle());
  world->enqueue(message(OCT_ALL_REDUCE, channel.group, OCT_F32, 1000), channel.data.data(),
                 channel.data.data(), channel.lane.handle());
  world->device.synchronize();
  channel.data.download();
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(channel.data.as<float>()[i], float(size() * i + size() * (size() - 1) / 2)) << i;
}

TEST_P(CommLanes, MessagesStandInAGraph) {
  if (!world->comm.is_capturable() || world->device.properties().has_graphs == 0)
    GTEST_SKIP() << "not with this pair";
  Channel channel(*world, world->everyone(), "graph", 3000);
  const Device& device = world->device;
  oct_lane* lane = channel.lane.handle();
  int32_t graph = -1;
  device.check(device.table().capture_begin(device.handle(), &lane, 1), "capture_begin");
  world->comm.enqueue(message(OCT_ALL_REDUCE, channel.group, OCT_F32, 3000), channel.data.data(),
                      channel.data.data(), nullptr, lane);
  device.check(device.table().capture_end(device.handle(), &graph), "capture_end");
  for (int i = 0; i < 3000; ++i) channel.data.as<float>()[i] = 1;
  channel.data.upload();
  for (int replay = 0; replay < 3; ++replay)
    device.check(device.table().graph_launch(device.handle(), graph, lane), "graph_launch");
  world->device.synchronize();
  channel.data.download();
  const float expected = float(size()) * float(size()) * float(size());
  const float* first = channel.data.as<float>();
  EXPECT_EQ(std::count(first, first + 3000, expected), 3000);
  device.table().graph_destroy(device.handle(), graph);
}

TEST_P(CommLanes, TransfersRunBesideWorkOfTheHost) {
  if (!comm_is("mpi")) GTEST_SKIP() << "only comm mpi can be made slow";
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  const Setting delay("OCTACHORON_COMM_DELAY_US", "20000");
  World slow(GetParam());
  const int group = slow.all("overlap");
  DeviceLane lane(slow.device, "transfer", 0);
  Buffer data(slow.device, 4000);
  double alone = 1, beside = 1;
  for (int attempt = 0; attempt < 5; ++attempt) {  // the best of some: ranks share cores
    for (double* best : {&alone, &beside}) {
      MPI_Barrier(slow.run);
      const auto start = Clock::now();
      slow.comm.enqueue(message(OCT_ALL_REDUCE, group, OCT_F32, 1000), data.data(), data.data(), nullptr,
                        lane.handle());
      if (best == &beside) std::this_thread::sleep_for(20ms);
      slow.device.synchronize();
      *best = std::min(*best, seconds_since(start));
    }
  }
  EXPECT_GE(alone, 0.020) << "each message takes the delay";
  EXPECT_LT(beside, 1.6 * alone) << "20 ms of work and 20 ms of transfer at the same time";
  EXPECT_EQ(slow.comm.poll_error(), "");
}

TEST_P(CommLanes, LargeTransferNeedsNoCallsOfTheHost) {
  // An MPI library moves a large message only inside calls: somebody must make them while the host does other
  // things.
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  const int group = world->all("large");
  DeviceLane lane(world->device, "transfer", 0);
  Buffer data(world->device, 4 << 20);
  DeviceEvent done(world->device);
  world->comm.enqueue(message(OCT_ALL_REDUCE, group, OCT_F32, 1 << 20), data.data(), data.data(), nullptr,
                      lane.handle());
  done.record(lane.handle());
  const auto start = Clock::now();
  while (!done.past() && seconds_since(start) < 20) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(done.past());
}

class CommLabels : public testing::TestWithParam<std::string> {
 protected:
  /// What poll_error() says on this rank after one message whose label and count the last rank may get wrong.
  std::string error_of(oct_op kind, std::uint64_t wrong_label, std::int64_t wrong_count) {
    const Setting check("OCTACHORON_CHECK_LABELS", "1");
    World world(GetParam());
    const int group = world.all("labels");
    const bool wrong = world.rank() == world.size() - 1;
    DeviceLane lane(world.device, "labels", 0);
    Buffer data(world.device, 4096), other(world.device, 4096);
    oct_message m =
        message(kind, group, OCT_F32, wrong ? wrong_count : 8, 0, OCT_SUM, wrong ? wrong_label : 0x11);
    if (kind == OCT_SEND) {  // from the last rank to the first
      m.kind = wrong ? OCT_SEND : OCT_RECEIVE;
      m.peer = wrong ? 0 : world.size() - 1;
      if (!wrong && world.rank() != 0) return "";
    }
    world.comm.enqueue(m, data.data(), other.data(), nullptr, lane.handle());
    world.device.synchronize();
    return world.comm.poll_error();
  }
  void SetUp() override {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size == 1) GTEST_SKIP() << "needs two ranks";
    if (!comm_is("mpi")) GTEST_SKIP() << "only comm mpi compares labels";
  }
  int rank = 0;
};
INSTANTIATE_TEST_SUITE_P(Devices, CommLabels, testing::ValuesIn(test_devices()), test_name);

TEST_P(CommLabels, EqualLabelsPass) {
  for (oct_op kind : {OCT_ALL_GATHER, OCT_REDUCE_SCATTER, OCT_ALL_REDUCE, OCT_BROADCAST, OCT_SEND})
    EXPECT_EQ(error_of(kind, 0x11, 8), "") << kind;
}

TEST_P(CommLabels, MismatchNamesBoth) {
  const std::string label = error_of(OCT_ALL_REDUCE, 0x22, 8);
  EXPECT_THAT(label, AllOf(HasSubstr("0x11"), HasSubstr("0x22"), HasSubstr("'labels'")));
  const std::string count = error_of(OCT_ALL_GATHER, 0x11, 9);
  EXPECT_THAT(count, AllOf(HasSubstr("all-gather of 8 f32"), HasSubstr("all-gather of 9 f32")));
}

TEST_P(CommLabels, MismatchOfATransferIsSeenByTheReceiver) {
  for (const auto& [label, count] : {std::pair{0x22, 8}, std::pair{0x11, 9}, std::pair{0x11, 7}}) {
    const std::string error = error_of(OCT_SEND, std::uint64_t(label), count);
    if (rank == 0) {
      EXPECT_THAT(error, AllOf(HasSubstr("receive of 8 f32 with label 0x11"), HasSubstr("send of"))) << count;
    }
  }
}

}  // namespace
}  // namespace octachoron
