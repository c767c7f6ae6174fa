#include "core/parallel/world.h"

#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "core/base/error.h"

namespace octachoron {

namespace {

bool completes(MPI_Request& request, double limit_s) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (int polls = 0;; ++polls) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return true;
    if (std::chrono::duration<double>(Clock::now() - begin).count() > limit_s) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(polls < 20 ? 5 : 100));
  }
}

}  // namespace

World::World(MPI_Comm comm) {
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE)
    fail(ExitStatus::environment, "this MPI library gives thread level ", provided, " (",
         int(MPI_THREAD_MULTIPLE),
         ", MPI_THREAD_MULTIPLE, is needed for transfers that progress under computation); use another MPI "
         "library");
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_dup(comm, &end_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank_);
  MPI_Comm_size(node, &local_size_);
  MPI_Comm_free(&node);
}

World::~World() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  MPI_Comm_free(&comm_);
  MPI_Comm_free(&end_);
}

void World::allgather(const void* send, void* receive, std::size_t bytes) const {
  MPI_Allgather(send, int(bytes), MPI_BYTE, receive, int(bytes), MPI_BYTE, comm_);
}

std::int64_t World::maximum(std::int64_t value) const {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, comm_);
  return value;
}

double World::maximum(double value) const {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, comm_);
  return value;
}

std::string World::broadcast(const std::string& value, int root) const {
  std::string text = value;
  text.resize(broadcast(std::uint64_t(value.size()), root));
  MPI_Bcast(text.data(), int(text.size()), MPI_CHAR, root, comm_);
  return text;
}

std::uint64_t World::broadcast(std::uint64_t value, int root) const {
  MPI_Bcast(&value, 1, MPI_UINT64_T, root, comm_);
  return value;
}

std::vector<std::string> World::hosts() const {
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  MPI_Get_processor_name(name, &length);
  std::vector<char> all(std::size_t(size_) * sizeof name);
  allgather(name, all.data(), sizeof name);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < size_; ++rank) hosts.emplace_back(all.data() + std::size_t(rank) * sizeof name);
  return hosts;
}

void World::barrier() const {
  MPI_Barrier(comm_);
}

void World::collect(const std::string& mine,
                    const std::function<void(int rank, const std::string& text)>& take) const {
  constexpr int kTag = 1;
  if (rank_ != 0) {
    MPI_Send(mine.data(), int(mine.size()), MPI_CHAR, 0, kTag, comm_);
    return;
  }
  take(0, mine);
  for (int rank = 1; rank < size_; ++rank) {
    MPI_Status status;
    MPI_Probe(rank, kTag, comm_, &status);
    int size = 0;
    MPI_Get_count(&status, MPI_CHAR, &size);
    std::string text(std::size_t(size), '\0');
    MPI_Recv(text.data(), size, MPI_CHAR, rank, kTag, comm_, MPI_STATUS_IGNORE);
    take(rank, text);
  }
}

std::uint64_t World::combine_flags(std::uint64_t flags, double limit_s) const {
  // On the heap: when the limit passes, MPI may still write there.
  auto words = std::make_unique<std::array<std::uint64_t, 2>>(std::array<std::uint64_t, 2>{flags, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&(*words)[0], &(*words)[1], 1, MPI_UINT64_T, MPI_BOR, comm_, &request);
  if (completes(request, limit_s)) return (*words)[1];
  words.release();
  fail(ExitStatus::peer_failed, "the ranks did not agree within ", limit_s,
       " s (a peer has ended or hangs); resubmit the job");
}

std::vector<std::uint64_t> World::meet(std::uint64_t value, double limit_s) const {
  auto values = std::make_unique<std::vector<std::uint64_t>>(std::size_t(size_) + 1, value);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(values->data() + size_, 1, MPI_UINT64_T, values->data(), 1, MPI_UINT64_T, end_, &request);
  if (!completes(request, limit_s)) {
    values.release();
    return {};
  }
  values->pop_back();
  return *values;
}

}  // namespace octachoron
