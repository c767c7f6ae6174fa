// Which calls of NCCL the plugin makes, when, and what it does if one fails or waits: against a fake.
#include "plugins/comm/nccl/nccl_comm.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "core/plugin/export.h"
#include "plugins/comm/nccl/mapping.h"
#include "plugins/comm/table.h"
#include "tests/comm/fake_nccl.h"

namespace octachoron::nccl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace std::chrono_literals;

/// This process is one rank of a run whose other ranks exist on paper.
class NcclCommTest : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override {
    if (comm != nullptr) NcclComm::destroy(comm);
  }
  void create(int rank, int size) {
    host = {sizeof host, this, rank, size, rank, size, nullptr, allgather};
    const oct_comm_host services{sizeof services, &host, 0, &fake::device_table(), fake::device()};
    comm = new NcclComm(services);
  }
  int group(std::vector<std::int32_t> ranks, const char* purpose) {
    return comm->create_group(ranks.data(), int(ranks.size()), purpose);
  }
  oct_message message(oct_op kind, int group, oct_dtype type, std::int64_t count, int peer = 0) {
    return {sizeof(oct_message), kind, group, peer, type, OCT_SUM, count, 0xabc};
  }
  void enqueue(const oct_message& m, int lane = 1) { comm->enqueue(m, send, receive, fake::lane(lane)); }
  oct_status status(const oct_message& m) {
    return plugin::guard([&] { enqueue(m); });
  }
  std::string failure(int rank, int size) {
    try {
      create(rank, size);
    } catch (const plugin::Failure& failure) {
      EXPECT_EQ(failure.status(), OCT_DEVICE_ERROR);
      return failure.what();
    }
    return "";
  }
  /// The others have GPUs of their own, or this rank's.
  static oct_status allgather(void* user, const void* mine, void* all, size_t bytes) {
    const auto* test = static_cast<NcclCommTest*>(user);
    EXPECT_EQ(bytes, sizeof(Card));
    for (int rank = 0; rank < test->host.size; ++rank) {
      Card card;
      std::memcpy(&card, mine, sizeof card);
      if (!test->share_gpu && rank != test->host.rank) card.gpu[5] = char(rank + 1);
      std::memcpy(static_cast<char*>(all) + std::size_t(rank) * bytes, &card, bytes);
    }
    return OCT_OK;
  }

  oct_host host{};
  NcclComm* comm = nullptr;
  bool share_gpu = false;
  float send[8] = {1, 2, 3}, receive[8] = {};
};

TEST_F(NcclCommTest, ARunOfOneRankNeverCallsNccl) {
  create(0, 1);
  const int alone = group({0}, "tp");
  for (oct_op kind : {OCT_ALL_GATHER, OCT_REDUCE_SCATTER, OCT_ALL_REDUCE, OCT_BROADCAST}) {
    receive[2] = 0;
    enqueue(message(kind, alone, OCT_F32, 3));
    EXPECT_EQ(receive[2], 3) << kind;
  }
  EXPECT_EQ(fake::state().copies, 4);
  comm->enqueue(message(OCT_ALL_REDUCE, alone, OCT_F32, 3), send, send, fake::lane(1));
  EXPECT_EQ(fake::state().copies, 4) << "in place nothing is to do";
  oct_comm_counters counters{};
  comm->counters(alone, false, counters);
  EXPECT_EQ(counters.calls, 0);
  EXPECT_THAT(fake::take_calls(), IsEmpty());
}

TEST_F(NcclCommTest, GroupsAreMadeByTheirMembersAndSplitWhereTheyAgree) {
  create(0, 4);
  EXPECT_THAT(fake::take_calls(), ElementsAre("identity", "init comm1 0 of 4 blocking"));
  group({0, 2}, "dp");
  EXPECT_THAT(fake::take_calls(), ElementsAre("identity", "begin", "send comm1 128 t1 to 2", "end",
                                              "init comm2 0 of 2 blocking"));
  group({0, 2}, "amax");
  EXPECT_THAT(fake::take_calls(), ElementsAre("split comm3 from comm2 as 0"));
  group({2, 0}, "backwards");
  EXPECT_THAT(fake::take_calls(), ElementsAre("split comm4 from comm2 as 1"));
  group({3, 0, 1, 2}, "all");
  EXPECT_THAT(fake::take_calls(),
              ElementsAre("begin", "receive comm1 128 t1 from 3", "end", "init comm5 1 of 4 blocking"));
  group({0}, "alone");
  EXPECT_THAT(fake::take_calls(), IsEmpty());
  NcclComm::destroy(std::exchange(comm, nullptr));
  EXPECT_THAT(fake::take_calls(), ElementsAre("destroy comm5", "destroy comm4", "destroy comm3",
                                              "destroy comm2", "destroy comm1"));
}

TEST_F(NcclCommTest, EachMessageIsOneCall) {
  create(1, 2);
  const int both = group({0, 1}, "both");
  fake::take_calls();
  enqueue(message(OCT_ALL_GATHER, both, OCT_E4M3, 5));
  enqueue(message(OCT_REDUCE_SCATTER, both, OCT_BF16, 6));
  oct_message amax = message(OCT_ALL_REDUCE, both, OCT_U32, 7);
  amax.reduction = OCT_MAX;
  enqueue(amax);
  enqueue(message(OCT_BROADCAST, both, OCT_F64, 1, 0));
  enqueue(message(OCT_BROADCAST, both, OCT_F32, 1, 1));
  comm->enqueue(message(OCT_BROADCAST, both, OCT_F32, 1, 1), send, nullptr, fake::lane(1));
  enqueue(message(OCT_SEND, both, OCT_E5M2, 3, 0));
  enqueue(message(OCT_RECEIVE, both, OCT_F16, 4, 0));
  EXPECT_THAT(fake::take_calls(),
              ElementsAre("allgather comm2 5 t1", "reducescatter comm2 6 t9 op0", "allreduce comm2 7 t3 op2",
                          "broadcast comm2 1 t8 from 0 in place", "broadcast comm2 1 t7 from 1 to another",
                          "broadcast comm2 1 t7 from 1 in place", "send comm2 3 t1 to 0",
                          "receive comm2 4 t6 from 0"));
  oct_comm_counters counters{};
  comm->counters(both, true, counters);
  EXPECT_EQ(counters.calls, 8);
  EXPECT_EQ(counters.bytes_sent, 5 + 12 + 28 + 0 + 4 + 4 + 3 + 0) << "of a ring";
  enqueue(message(OCT_ALL_REDUCE, both, OCT_F32, 0));
  EXPECT_THAT(fake::take_calls(), IsEmpty()) << "nothing travels";
}

TEST_F(NcclCommTest, AnExchangeIsHandedOverWhenItEnds) {
  create(0, 2);
  const int both = group({0, 1}, "pp");
  fake::take_calls();
  comm->exchange_begin(fake::lane(1));
  enqueue(message(OCT_SEND, both, OCT_F32, 2, 1));
  enqueue(message(OCT_RECEIVE, both, OCT_F32, 3, 1));
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, both, OCT_F32, 1)), OCT_INVALID_ARGUMENT);
  enqueue(message(OCT_ALL_REDUCE, both, OCT_F32, 4), 2);
  EXPECT_THAT(fake::take_calls(), ElementsAre("allreduce comm2 4 t7 op0")) << "of another lane";
  comm->exchange_end(fake::lane(1));
  EXPECT_THAT(fake::take_calls(),
              ElementsAre("begin", "send comm2 2 t7 to 1", "receive comm2 3 t7 from 1", "end"));
  comm->exchange_begin(fake::lane(1));
  comm->exchange_end(fake::lane(1));
  EXPECT_THAT(fake::take_calls(), IsEmpty());
}

TEST_F(NcclCommTest, SumsOfFp8AreRefused) {
  create(0, 2);
  const int both = group({0, 1}, "both");
  fake::take_calls();
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, both, OCT_E4M3, 1)), OCT_UNSUPPORTED);
  EXPECT_EQ(status(message(OCT_REDUCE_SCATTER, both, OCT_E5M2, 1)), OCT_UNSUPPORTED);
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, 7, OCT_F32, 1)), OCT_INVALID_ARGUMENT);
  EXPECT_THAT(fake::take_calls(), IsEmpty());
  EXPECT_EQ(comm->error(), "") << "a refusal is no failure";
}

TEST_F(NcclCommTest, NoGpuAndASharedGpuAreRefusedWithReasons) {
  fake::state().cuda_error = 100;
  EXPECT_THAT(failure(0, 1), AllOf(HasSubstr("no NVIDIA GPU can be used"), HasSubstr("backend.comm = mpi")));
  EXPECT_THAT(failure(1, 2), HasSubstr("rank 0 cannot use NCCL"));
  fake::state().cuda_error = 0;
  share_gpu = true;
  EXPECT_THAT(failure(1, 2), HasSubstr("ranks 0 and 1 use one GPU"));
  EXPECT_THAT(fake::take_calls(), IsEmpty()) << "before any communicator";
}

TEST_F(NcclCommTest, AFailedCallEndsAllCommunication) {
  create(0, 2);
  const int both = group({0, 1}, "both");
  fake::state().results["send"] = 2;
  fake::take_calls();
  comm->exchange_begin(fake::lane(1));
  enqueue(message(OCT_SEND, both, OCT_F32, 2, 1));
  enqueue(message(OCT_RECEIVE, both, OCT_F32, 2, 1));
  EXPECT_EQ(plugin::guard([&] { comm->exchange_end(fake::lane(1)); }), OCT_COMM_ERROR);
  EXPECT_THAT(fake::take_calls(), ElementsAre("begin", "send comm2 2 t7 to 1", "end"))
      << "no bracket is open";
  EXPECT_THAT(comm->error(), AllOf(HasSubstr("send of 2 f32"), HasSubstr("'both'"),
                                   HasSubstr("unhandled system error (the cable is cut)")));
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, both, OCT_F32, 1)), OCT_COMM_ERROR);
  EXPECT_EQ(plugin::guard([&] { group({0, 1}, "late"); }), OCT_COMM_ERROR);
  NcclComm::destroy(std::exchange(comm, nullptr));
  EXPECT_THAT(fake::take_calls(), ElementsAre("begin", "abort comm1", "abort comm2", "end"));
}

TEST_F(NcclCommTest, ErrorsBehindTheCallsAreFound) {
  create(0, 2);
  EXPECT_EQ(comm->error(), "");
  fake::state().async_error = ncclInProgress;
  EXPECT_EQ(comm->error(), "");
  fake::state().async_error = ncclRemoteError;
  EXPECT_THAT(comm->error(), HasSubstr("the cable is cut"));
  fake::state().async_error = 0;
  EXPECT_THAT(comm->error(), HasSubstr("the cable is cut")) << "kept";
}

TEST_F(NcclCommTest, AbortEndsAllAtOnceAndOnlyOnce) {
  create(0, 2);
  const int both = group({0, 1}, "both");
  group({0, 1}, "more");
  fake::take_calls();
  std::thread other([&] { comm->abort(); });
  other.join();
  comm->abort();
  EXPECT_THAT(fake::take_calls(), ElementsAre("begin", "abort comm1", "abort comm2", "abort comm3", "end"));
  EXPECT_THAT(comm->error(), HasSubstr("aborted"));
  EXPECT_EQ(status(message(OCT_ALL_REDUCE, both, OCT_F32, 1)), OCT_COMM_ERROR);
  EXPECT_THAT(fake::take_calls(), IsEmpty());
}

TEST_F(NcclCommTest, AbortFreesACallThatWaits) {
  create(0, 2);
  const int both = group({0, 1}, "both");
  fake::state().waits = true;
  oct_status ended = OCT_OK;
  std::thread waiting([&] { ended = status(message(OCT_ALL_REDUCE, both, OCT_F32, 1)); });
  std::this_thread::sleep_for(20ms);
  EXPECT_THAT(comm->describe_pending(), HasSubstr("waits for other ranks"));
  EXPECT_EQ(comm->error(), "");
  const auto start = Clock::now();
  comm->abort();
  waiting.join();
  EXPECT_LT(Clock::now() - start, 2s);
  EXPECT_EQ(ended, OCT_COMM_ERROR);
  EXPECT_THAT(comm->error(), HasSubstr("aborted")) << "the first reason is kept";
}

TEST_F(NcclCommTest, PendingMessagesAreNamedUntilTheyAreThrough) {
  create(1, 3);
  const int all = group({0, 1, 2}, "tp");
  EXPECT_EQ(comm->describe_pending(), "");
  for (int i = 0; i < 200; ++i) enqueue(message(OCT_ALL_REDUCE, all, OCT_F32, 4));
  enqueue(message(OCT_RECEIVE, all, OCT_F32, 4, 2), 2);
  EXPECT_THAT(comm->describe_pending(),
              AllOf(HasSubstr("all-reduce of 4 f32 with label 0xabc in group 'tp' of 3, enqueued 0.0 s ago, "
                              "waiting for one of ranks 0 2"),
                    HasSubstr("receive of 4 f32"), HasSubstr("waiting for rank 2"), HasSubstr("; ")));
  fake::state().events_past = true;
  EXPECT_EQ(comm->describe_pending(), "");
}

TEST_F(NcclCommTest, CapturedMessagesAreNotPending) {
  create(0, 2);
  const int both = group({0, 1}, "tp");
  fake::state().is_capturing = true;
  enqueue(message(OCT_ALL_REDUCE, both, OCT_F32, 4));
  EXPECT_EQ(comm->describe_pending(), "");
}

TEST_F(NcclCommTest, SettingsOfTheUserStay) {
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  unsetenv("NCCL_RUNTIME_CONNECT");
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  create(0, 1);
  EXPECT_STREQ(getenv("NCCL_NVLS_ENABLE"), "1");
  EXPECT_STREQ(getenv("NCCL_RUNTIME_CONNECT"), "0");
  EXPECT_STREQ(getenv("NCCL_COMM_BLOCKING"), "1") << "but for what this plugin is made for";
  unsetenv("NCCL_NVLS_ENABLE");
}

TEST_F(NcclCommTest, TheTableSaysHowTheEngineMayUseIt) {
  const oct_comm_table& table = comm::table<NcclComm>;
  create(0, 1);
  auto* handle = reinterpret_cast<oct_comm*>(comm);
  EXPECT_STREQ(table.device, "cuda");
  EXPECT_EQ(table.is_capturable(handle), 1);
  EXPECT_EQ(table.is_concurrent(handle), 0);
  char text[64] = "";
  EXPECT_EQ(table.poll_error(handle, text, sizeof text), OCT_OK);
  table.abort(handle);
  EXPECT_EQ(table.poll_error(handle, text, sizeof text), OCT_COMM_ERROR);
  EXPECT_THAT(std::string(text), HasSubstr("aborted"));
}

}  // namespace
}  // namespace octachoron::nccl
