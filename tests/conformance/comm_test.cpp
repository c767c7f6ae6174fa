// Checks of one rank must not end the test there, or the others would wait for it: EXPECT, never ASSERT.
// What every comm plugin computes: each kind of message with each type and awkward counts, on any device.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/conformance/comm_world.h"

namespace octachoron {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 3, 7, 513, 1025, 4099, 20011};

/// A small whole number, exact in all types even when summed over eight ranks.
int element(int rank, std::int64_t i) {
  return int((i * 7 + rank * 5 + i / 3) % 9);
}

void store(std::byte* at, oct_dtype type, double value) {
  const auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (type) {
    case OCT_F32:
      return put(float(value));
    case OCT_F64:
      return put(value);
    case OCT_BF16:
      return put(std::uint16_t(std::bit_cast<std::uint32_t>(float(value)) >> 16));
    case OCT_I32:
      return put(std::int32_t(value));
    case OCT_U32:
      return put(std::uint32_t(value));
    case OCT_U64:
      return put(std::uint64_t(value));
    default:
      return put(std::uint8_t(value));
  }
}

/// `count` elements of a rank, beginning at element `first` of its vector.
void fill(Buffer& buffer, oct_dtype type, std::int64_t count, int rank, std::int64_t first = 0) {
  for (std::int64_t i = 0; i < count; ++i)
    store(buffer.host.data() + i * size_of(type), type, element(rank, first + i));
}

class CommResults : public CommTest {
 protected:
  void SetUp() override {
    CommTest::SetUp();
    group = world->all("results");
    lane = std::make_unique<DeviceLane>(world->device, "lane", 0);
  }
  void TearDown() override {
    CommTest::TearDown();
    lane.reset();
  }
  void run(const oct_message& m, Buffer& send, Buffer& receive) {
    send.upload();
    receive.upload();
    Buffer workspace(world->device, std::size_t(world->comm.workspace(m)));
    world->comm.enqueue(m, send.data(), receive.data(), workspace.data(), lane->handle());
    world->device.synchronize();
    receive.download();
  }
  Buffer buffer(oct_dtype type, std::int64_t count) {
    return {world->device, std::size_t(count * size_of(type))};
  }

  int group = 0;
  std::unique_ptr<DeviceLane> lane;
};
INSTANTIATE_TEST_SUITE_P(Devices, CommResults, testing::ValuesIn(test_devices()), test_name);

TEST_P(CommResults, AllGatherStacksInGroupOrder) {
  for (oct_dtype type :
       {OCT_F32, OCT_F64, OCT_BF16, OCT_F16, OCT_E4M3, OCT_E5M2, OCT_E8M0, OCT_U8, OCT_I32, OCT_U32, OCT_U64})
    for (std::int64_t count : kCounts) {
      Buffer send = buffer(type, count), receive = buffer(type, count * size()),
             expected = buffer(type, count * size());
      fill(send, type, count, rank());
      for (int r = 0; r < size(); ++r)
        for (std::int64_t i = 0; i < count; ++i)
          store(expected.host.data() + (r * count + i) * size_of(type), type, element(r, i));
      run(message(OCT_ALL_GATHER, group, type, count), send, receive);
      EXPECT_EQ(receive.host, expected.host) << name(type) << " x " << count;
    }
}

double reduced(oct_reduction reduction, int ranks, std::int64_t i) {
  double result = element(0, i);
  for (int r = 1; r < ranks; ++r) {
    const double x = element(r, i);
    result = reduction == OCT_SUM ? result + x : std::max(result, x);
  }
  return result;
}

const std::pair<oct_reduction, oct_dtype> kReductions[] = {
    {OCT_SUM, OCT_F32}, {OCT_SUM, OCT_F64}, {OCT_SUM, OCT_BF16}, {OCT_SUM, OCT_U64},
    {OCT_MAX, OCT_F32}, {OCT_MAX, OCT_F64}, {OCT_MAX, OCT_U32},  {OCT_MAX, OCT_I32}};

TEST_P(CommResults, AllReduce) {
  for (const auto& [reduction, type] : kReductions)
    for (std::int64_t count : kCounts) {
      Buffer send = buffer(type, count), receive = buffer(type, count), expected = buffer(type, count);
      fill(send, type, count, rank());
      for (std::int64_t i = 0; i < count; ++i)
        store(expected.host.data() + i * size_of(type), type, reduced(reduction, size(), i));
      run(message(OCT_ALL_REDUCE, group, type, count, 0, reduction), send, receive);
      EXPECT_EQ(receive.host, expected.host) << name(type) << " x " << count;
      run(message(OCT_ALL_REDUCE, group, type, count, 0, reduction), send, send);
      EXPECT_EQ(send.host, expected.host) << "in place, " << name(type) << " x " << count;
    }
}

TEST_P(CommResults, ReduceScatter) {
  for (const auto& [reduction, type] : kReductions)
    for (std::int64_t count : kCounts) {
      Buffer send = buffer(type, count * size()), receive = buffer(type, count),
             expected = buffer(type, count);
      fill(send, type, count * size(), rank());
      for (std::int64_t i = 0; i < count; ++i)
        store(expected.host.data() + i * size_of(type), type, reduced(reduction, size(), rank() * count + i));
      run(message(OCT_REDUCE_SCATTER, group, type, count, 0, reduction), send, receive);
      EXPECT_EQ(receive.host, expected.host) << name(type) << " x " << count;
    }
}

TEST_P(CommResults, LongReduceScatter) {  // longer than what a plugin may handle in one piece
  const std::int64_t count = 2200003 / size();
  Buffer send = buffer(OCT_F32, count * size()), receive = buffer(OCT_F32, count);
  fill(send, OCT_F32, count * size(), rank());
  run(message(OCT_REDUCE_SCATTER, group, OCT_F32, count), send, receive);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i)
    wrong += receive.as<float>()[i] != reduced(OCT_SUM, size(), rank() * count + i);
  EXPECT_EQ(wrong, 0);
}

TEST_P(CommResults, BroadcastFromEachRoot) {
  for (int root = 0; root < size(); ++root)
    for (std::int64_t count : kCounts) {
      Buffer send = buffer(OCT_F32, count), receive = buffer(OCT_F32, count),
             expected = buffer(OCT_F32, count);
      fill(send, OCT_F32, count, rank());
      fill(expected, OCT_F32, count, root);
      run(message(OCT_BROADCAST, group, OCT_F32, count, root), send, receive);
      EXPECT_EQ(receive.host, expected.host) << "root " << root << ", " << count;
    }
}

TEST_P(CommResults, AmaxSurvivesAsBits) {
  // amax travels as the bits of a non-negative float under an integer maximum: Inf and NaN win.
  Buffer send = buffer(OCT_U32, 3), receive = buffer(OCT_U32, 3);
  const float mine[] = {float(rank()), rank() == 0 ? INFINITY : 1, rank() == size() - 1 ? NAN : INFINITY};
  std::memcpy(send.host.data(), mine, sizeof mine);
  run(message(OCT_ALL_REDUCE, group, OCT_U32, 3, 0, OCT_MAX), send, receive);
  EXPECT_EQ(receive.as<float>()[0], float(size() - 1));
  EXPECT_TRUE(std::isinf(receive.as<float>()[1]));
  EXPECT_TRUE(std::isnan(receive.as<float>()[2]));
}

TEST_P(CommResults, Bf16IsSummedInFp32) {
  if (size() > 2 && comm_is("nccl")) GTEST_SKIP() << "NCCL rounds to BF16 at each hop";
  // 256 + 1 is lost in BF16 (8 bits); in FP32 the ones add up before the rounding.
  Buffer send = buffer(OCT_BF16, 1), receive = buffer(OCT_BF16, 1), expected = buffer(OCT_BF16, 1);
  store(send.host.data(), OCT_BF16, rank() == 0 ? 256 : 1);
  const int ones = size() - 1;
  store(expected.host.data(), OCT_BF16, 256 + (ones / 2 + (ones % 4 == 3 ? 1 : 0)) * 2);  // ties to even
  run(message(OCT_ALL_REDUCE, group, OCT_BF16, 1), send, receive);
  EXPECT_EQ(receive.host, expected.host);
}

TEST_P(CommResults, AllReduceGivesEqualBitsOnAllRanksAndEachTime) {
  for (std::int64_t count : {5, 1024, 1025, 70001, 1100003}) {
    Buffer send = buffer(OCT_F32, count), receive = buffer(OCT_F32, count);
    std::mt19937 generator(unsigned(rank() * 1000 + count));
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count; ++i) send.as<float>()[i] = normal(generator);
    std::vector<std::byte> first;
    for (int repeat = 0; repeat < 3; ++repeat) {
      run(message(OCT_ALL_REDUCE, group, OCT_F32, count), send, receive);
      if (repeat == 0) first = receive.host;
      EXPECT_EQ(receive.host, first) << "run " << repeat;
    }
    std::vector<std::byte> root = first;
    MPI_Bcast(root.data(), int(root.size()), MPI_BYTE, 0, world->run);
    EXPECT_EQ(first, root) << "differs from rank 0";
  }
}

TEST_P(CommResults, ExchangeAroundARing) {  // faults I04: sizes around the limits of MPI's protocols
  if (size() == 1) GTEST_SKIP() << "a ring needs two ranks";
  const int right = (rank() + 1) % size(), left = (rank() + size() - 1) % size();
  for (std::int64_t bytes : {0, 1, 4096, 65536, 65537, 1 << 20}) {
    Buffer mine = buffer(OCT_U8, bytes), from_left = buffer(OCT_U8, bytes),
           from_right = buffer(OCT_U8, bytes);
    fill(mine, OCT_U8, bytes, rank());
    mine.upload();
    Communicator& comm = world->comm;
    comm.exchange_begin(lane->handle());
    // All send first: only posting them together keeps this from a deadlock.
    comm.enqueue(message(OCT_SEND, group, OCT_U8, bytes, right), mine.data(), nullptr, nullptr,
                 lane->handle());
    comm.enqueue(message(OCT_RECEIVE, group, OCT_U8, bytes, left), nullptr, from_left.data(), nullptr,
                 lane->handle());
    comm.enqueue(message(OCT_SEND, group, OCT_U8, bytes, left), mine.data(), nullptr, nullptr,
                 lane->handle());
    comm.enqueue(message(OCT_RECEIVE, group, OCT_U8, bytes, right), nullptr, from_right.data(), nullptr,
                 lane->handle());
    comm.exchange_end(lane->handle());
    world->device.synchronize();
    from_left.download();
    from_right.download();
    Buffer expected = buffer(OCT_U8, bytes);
    fill(expected, OCT_U8, bytes, left);
    EXPECT_EQ(from_left.host, expected.host) << bytes;
    fill(expected, OCT_U8, bytes, right);
    EXPECT_EQ(from_right.host, expected.host) << bytes;
  }
}

TEST_P(CommResults, SendAndReceiveAlone) {
  for (std::int64_t count : kCounts) {
    Buffer data = buffer(OCT_F32, count), expected = buffer(OCT_F32, count);
    fill(expected, OCT_F32, count, 0);
    if (rank() == 0) data.host = expected.host;
    data.upload();
    if (rank() > 0)
      world->comm.enqueue(message(OCT_RECEIVE, group, OCT_F32, count, rank() - 1), nullptr, data.data(),
                          nullptr, lane->handle());
    if (rank() + 1 < size())
      world->comm.enqueue(message(OCT_SEND, group, OCT_F32, count, rank() + 1), data.data(), nullptr, nullptr,
                          lane->handle());
    world->device.synchronize();
    data.download();
    EXPECT_EQ(data.host, expected.host) << "passed on from rank to rank, in lane order";
  }
}

TEST_P(CommResults, GroupsHaveTheirOwnOrder) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  std::vector<int> reversed;
  for (int r = size() - 1; r >= 0; --r) reversed.push_back(r);
  const int backwards = world->comm.create_group(reversed, "reversed");
  Buffer send = buffer(OCT_I32, 1), receive = buffer(OCT_I32, size());
  send.as<std::int32_t>()[0] = rank();
  run(message(OCT_ALL_GATHER, backwards, OCT_I32, 1), send, receive);
  for (int place = 0; place < size(); ++place)
    EXPECT_EQ(receive.as<std::int32_t>()[place], size() - 1 - place);
}

TEST_P(CommResults, CountersAreThoseOfARing) {
  const std::int64_t n = size(), count = 12 * n;
  Buffer send = buffer(OCT_F32, count * n), receive = buffer(OCT_F32, count * n);
  const auto bytes_of = [&](oct_op kind) {
    run(message(kind, group, OCT_F32, count), send, receive);
    const oct_comm_counters counters = world->comm.counters(group, true);
    EXPECT_EQ(counters.calls, n == 1 ? 0 : 1) << "a group of one makes no call";
    return counters.bytes_sent;
  };
  EXPECT_EQ(bytes_of(OCT_ALL_GATHER), (n - 1) * count * 4);
  EXPECT_EQ(bytes_of(OCT_REDUCE_SCATTER), (n - 1) * count * 4);
  EXPECT_EQ(bytes_of(OCT_ALL_REDUCE), 2 * (n - 1) * count * 4 / n);
  EXPECT_EQ(world->comm.counters(group, false).calls, 0) << "reset";
}

TEST_P(CommResults, RefusesWhatMakesNoSense) {
  Buffer data = buffer(OCT_F32, 8);
  const auto status = [&](const oct_message& m, const void* send, void* receive) {
    try {
      world->comm.enqueue(m, send, receive, nullptr, lane->handle());
    } catch (const Error& error) {
      return error.status();
    }
    return ExitStatus::done;
  };
  void* x = data.data();
  EXPECT_EQ(status(message(OCT_GEMM, group, OCT_F32, 1), x, x), ExitStatus::usage) << "kind";
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, 99, OCT_F32, 1), x, x), ExitStatus::usage) << "group";
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, group, OCT_DTYPES, 1), x, x), ExitStatus::usage) << "type";
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, group, OCT_F32, -1), x, x), ExitStatus::usage) << "count";
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, group, OCT_F32, 1), nullptr, x), ExitStatus::usage) << "null";
  EXPECT_EQ(status(message(OCT_BROADCAST, group, OCT_F32, 1, size()), x, x), ExitStatus::usage) << "root";
  EXPECT_EQ(status(message(OCT_SEND, group, OCT_F32, 1, rank()), x, x), ExitStatus::usage) << "to itself";
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, group, OCT_E4M3, 1), x, x), ExitStatus::environment)
      << "no such sum";
  world->comm.exchange_begin(lane->handle());
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, group, OCT_F32, 1), x, x), ExitStatus::usage) << "in an exchange";
  EXPECT_THROW(world->comm.exchange_begin(lane->handle()), Error);
  world->comm.exchange_end(lane->handle());
  EXPECT_THROW(world->comm.exchange_end(lane->handle()), Error);
  EXPECT_THROW(world->comm.create_group(std::vector<int>{}, "empty"), Error);
  EXPECT_THROW(world->comm.create_group(std::vector<int>{rank(), size()}, "beyond"), Error);
  EXPECT_THROW(world->comm.create_group(std::vector<int>{rank(), rank()}, "twice"), Error);
}

}  // namespace
}  // namespace octachoron
