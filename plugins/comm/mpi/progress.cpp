#include "plugins/comm/mpi/progress.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>

#include "core/plugin/export.h"

namespace octachoron::mpi {

namespace {

constexpr std::int64_t kPiece = std::int64_t(1) << 30;  // MPI counts are int
constexpr std::size_t kLanes = 16, kRequests = 256;     // more of them cost an allocation
constexpr auto kPatience = std::chrono::milliseconds(500);

int pieces(std::int64_t bytes) {
  return int(std::max<std::int64_t>(1, (bytes + kPiece - 1) / kPiece));
}

std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, std::size_t(length));
}

/// First yields, then sleeps longer and longer: latency where messages are short, idle cores where they are
/// not.
void rest(int polls_without_news) {
  if (polls_without_news < 100) {
    sched_yield();
    return;
  }
  const int us = std::min(50, 20 + polls_without_news / 50);
  std::this_thread::sleep_for(std::chrono::microseconds(us));
}

int start_piece(const Transfer& transfer, std::int64_t offset, std::int64_t bytes, MPI_Request* request) {
  char* data = static_cast<char*>(transfer.data) + offset;
  switch (transfer.kind) {
    case Transfer::Kind::send:
      return MPI_Isend(data, int(bytes), MPI_BYTE, transfer.peer, transfer.tag, transfer.communicator,
                       request);
    case Transfer::Kind::receive:
      return MPI_Irecv(data, int(bytes), MPI_BYTE, transfer.peer, transfer.tag, transfer.communicator,
                       request);
    case Transfer::Kind::broadcast:
      return MPI_Ibcast(data, int(bytes), MPI_BYTE, transfer.peer, transfer.communicator, request);
  }
  return MPI_ERR_ARG;
}

}  // namespace

void Progress::run(Job& job) {
  if (job.transfers.empty()) return;
  std::unique_lock lock(mutex_);
  if (!error_.empty()) throw plugin::Failure(OCT_COMM_ERROR, error_);
  job.done = false;
  job.outstanding = 0;
  for (Transfer& transfer : job.transfers) job.outstanding += transfer.pending = pieces(transfer.bytes);
  posted_.push_back(&job);
  wake_.notify_one();
  // The thread itself ends jobs after an abort; if it hangs inside MPI, the lane must go on without it.
  while (!job.done) {
    job.changed.wait_for(lock, std::chrono::milliseconds(100));
    if (!error_.empty() && Clock::now() - failed_at_ > kPatience) break;
  }
  if (!error_.empty()) throw plugin::Failure(OCT_COMM_ERROR, error_);
}

void Progress::abort(const std::string& why) {
  std::lock_guard lock(mutex_);
  fail_locked(why);
}

void Progress::explain(const std::string& why) {
  std::lock_guard lock(mutex_);
  fail_locked(why);
  error_ = why;
}

void Progress::fail_locked(const std::string& why) {
  if (error_.empty()) {
    error_ = why.empty() ? "aborted" : why;
    failed_at_ = Clock::now();
  }
  wake_.notify_one();
}

std::string Progress::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

bool Progress::failed() const {
  std::lock_guard lock(mutex_);
  return !error_.empty();
}

bool Progress::stop() {
  if (!thread_.joinable()) return true;
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    wake_.notify_one();
    if (!error_.empty() && !end_.wait_for(lock, 2 * kPatience, [&] { return ended_; })) return false;
  }
  thread_.join();
  return true;
}

std::vector<int> Progress::waiting_for(const Job& job) const {
  std::lock_guard lock(mutex_);
  std::vector<int> peers;
  if (job.done) return peers;
  for (const Transfer& transfer : job.transfers)
    if (transfer.pending > 0 && std::find(peers.begin(), peers.end(), transfer.peer) == peers.end())
      peers.push_back(transfer.peer);
  return peers;
}

void Progress::loop() {
  prctl(PR_SET_TIMERSLACK, 1000ul);  // ns: a sleep of 20 us shall not take 70
  // How much is in flight at once depends on timing: a late step shall not be the first to allocate for it.
  std::vector<Job*> jobs;
  jobs.reserve(kLanes);
  {
    std::lock_guard lock(mutex_);
    posted_.reserve(kLanes);
  }
  requests_.reserve(kRequests);
  owners_.reserve(kRequests);
  indices_.reserve(kRequests);
  statuses_.reserve(kRequests);
  int polls_without_news = 0;
  for (;;) {
    bool failed = false;
    {
      std::unique_lock lock(mutex_);
      if (requests_.empty()) wake_.wait(lock, [&] { return stop_ || !error_.empty() || !posted_.empty(); });
      jobs.swap(posted_);
      failed = !error_.empty();
      if (stop_ && !failed && jobs.empty() && requests_.empty()) break;
    }
    if (failed) {
      cancel_all();
      end_jobs(jobs);
      break;
    }
    for (Job* job : jobs) start(*job);
    if (!jobs.empty()) polls_without_news = 0;
    jobs.clear();
    if (poll())
      polls_without_news = 0;
    else
      rest(polls_without_news++);
  }
  std::lock_guard lock(mutex_);
  ended_ = true;
  end_.notify_all();
}

void Progress::start(Job& job) {
  for (std::size_t index = 0; index < job.transfers.size(); ++index) {
    const Transfer& transfer = job.transfers[index];
    for (int piece = 0; piece < pieces(transfer.bytes); ++piece) {
      const std::int64_t offset = piece * kPiece, bytes = std::min(kPiece, transfer.bytes - offset);
      MPI_Request request = MPI_REQUEST_NULL;
      const int code = start_piece(transfer, offset, bytes, &request);
      requests_.push_back(request);
      owners_.push_back({&job, int(index), bytes});
      if (code != MPI_SUCCESS) abort("MPI could not start a transfer: " + mpi_text(code));
    }
  }
}

/// \return whether anything was completed
bool Progress::poll() {
  if (requests_.empty()) return false;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int completed = 0;
  const int code =
      MPI_Testsome(int(requests_.size()), requests_.data(), &completed, indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
    abort("MPI could not test its requests: " + mpi_text(code));
    return true;
  }
  if (completed == MPI_UNDEFINED || completed == 0) return false;
  {
    std::lock_guard lock(mutex_);
    for (int i = 0; i < completed; ++i)
      finish_piece(owners_[indices_[i]], code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[i].MPI_ERROR,
                   statuses_[i]);
  }
  compact();
  return true;
}

/// With the mutex held.
void Progress::finish_piece(const Owner& owner, int code, const MPI_Status& status) {
  Transfer& transfer = owner.job->transfers[owner.transfer];
  if (code != MPI_SUCCESS) {
    fail_locked("MPI reports of a transfer with rank " + std::to_string(transfer.peer) +
                " of its group: " + mpi_text(code));
    owner.job->done = true;  // cancel_all() sees only jobs that still have requests
    owner.job->changed.notify_all();
    return;
  }
  --transfer.pending;
  if (transfer.kind == Transfer::Kind::receive) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != owner.bytes)
      fail_locked("rank " + std::to_string(transfer.peer) + " of the group sent " + std::to_string(bytes) +
                  " bytes where " + std::to_string(owner.bytes) + " were expected");
  }
  if (--owner.job->outstanding > 0) return;
  owner.job->done = true;
  owner.job->changed.notify_all();
}

/// Drops completed requests; the order of the others does not matter.
void Progress::compact() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    owners_[kept++] = owners_[i];
  }
  requests_.resize(kept);
  owners_.resize(kept);
}

void Progress::cancel_all() {
  std::vector<Job*> jobs;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    jobs.push_back(owners_[i].job);
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    // Only receives can be cancelled; what is left of the others ends with the process.
    const Transfer& transfer = owners_[i].job->transfers[owners_[i].transfer];
    if (transfer.kind == Transfer::Kind::receive) {
      MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);
    }
  }
  requests_.clear();
  owners_.clear();
  end_jobs(jobs);
}

void Progress::end_jobs(std::vector<Job*>& jobs) {
  std::lock_guard lock(mutex_);
  for (Job* job : jobs) {
    job->done = true;
    job->changed.notify_all();
  }
}

}  // namespace octachoron::mpi
