#pragma once
/// The one thread that makes MPI calls. MPI libraries move large messages only inside calls, so this thread
/// polls while anything is in flight, with short sleeps because ranks share cores, and makes no call at all
/// while nothing is.
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace octachoron::mpi {

using Clock = std::chrono::steady_clock;

struct Transfer {
  enum class Kind { send, receive, broadcast } kind;
  void* data;
  std::int64_t bytes;
  int peer;  ///< place in the communicator: the other end, or the root
  int tag;
  MPI_Comm communicator;
  int pending = 0;  ///< pieces on their way
};

/// Transfers that are started in their order and waited for together. A job lives in its lane and is used
/// again and again, so that its vectors are allocated once.
struct Job {
  std::vector<Transfer> transfers;
  int outstanding = 0;
  bool done = true;  ///< no thread but its lane looks at the transfers
  std::condition_variable changed;
};

class Progress {
 public:
  Progress() : thread_([this] { loop(); }) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { stop(); }

  /// Blocks the caller until all transfers of the job are through.
  /// \throws plugin::Failure(OCT_COMM_ERROR) after abort() or an error of MPI, which ends all jobs
  void run(Job& job);
  /// What is in flight is cancelled and ends with `why`, as does whatever comes later. The first reason is
  /// kept.
  void abort(const std::string& why);
  /// As abort(), but in place of the reason that is kept: for who knows more than MPI.
  void explain(const std::string& why);
  /// Empty while nothing went wrong.
  std::string error() const;
  bool failed() const;
  /// Ends the thread; \return false if it hangs inside MPI, and then this object must not be destroyed
  bool stop();
  /// Places of the peers whose transfers are on their way, for messages.
  std::vector<int> waiting_for(const Job& job) const;

 private:
  struct Owner {
    Job* job;
    int transfer;
    std::int64_t bytes;  ///< of this piece
  };
  void loop();
  void start(Job& job);
  bool poll();
  void finish_piece(const Owner& owner, int code, const MPI_Status& status);
  void compact();
  void cancel_all();
  void end_jobs(std::vector<Job*>& jobs);
  void fail_locked(const std::string& why);

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job*> posted_;
  std::string error_;
  Clock::time_point failed_at_;
  bool stop_ = false, ended_ = false;
  std::condition_variable end_;

  // Of the thread alone.
  std::vector<MPI_Request> requests_;
  std::vector<Owner> owners_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace octachoron::mpi
