#pragma once
/// The communicator of a run, and the few things the host does over it between steps.
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace octachoron {

class World {
 public:
  /// Collective. Duplicates `comm`, and frees the duplicates at the end. \throws Error(environment) without
  /// MPI_THREAD_MULTIPLE
  explicit World(MPI_Comm comm);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  MPI_Comm comm() const { return comm_; }
  int fortran_handle() const { return int(MPI_Comm_c2f(comm_)); }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  ///< among the ranks that share this node's memory
  int local_size() const { return local_size_; }

  void allgather(const void* send, void* receive, std::size_t bytes) const;
  std::int64_t maximum(std::int64_t value) const;
  double maximum(double value) const;
  /// The value of rank `root` on all ranks.
  std::string broadcast(const std::string& value, int root) const;
  std::uint64_t broadcast(std::uint64_t value, int root) const;
  std::vector<std::string> hosts() const;  ///< one name a rank
  void barrier() const;
  /// Collective: on rank 0 calls take(rank, text) with the text of every rank, in the order of ranks, one at
  /// a time.
  void collect(const std::string& mine,
               const std::function<void(int rank, const std::string& text)>& take) const;

  /// Bitwise or of a small flag word over all ranks, with a time limit so that a dead peer cannot hang it.
  /// \throws Error(peer_failed) when the limit passes
  std::uint64_t combine_flags(std::uint64_t flags, double limit_s) const;

  /// For a rank that ends with an error: a number of every rank if all ranks come here within `limit_s`, none
  /// if one does not, which then waits elsewhere for this one. Uses a communicator of its own: nothing that
  /// is under way is met.
  std::vector<std::uint64_t> meet(std::uint64_t value, double limit_s) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL, end_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace octachoron
