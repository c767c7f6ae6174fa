#pragma once
/// Warps that treat one row of a matrix together, in pieces of 16 bytes.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {

/// A block is one team, or several of one warp each, or, if Mixed, several of several warps, each with a
/// barrier of its own. A kernel that has such barriers takes sixteen, of which a processor has 64.
template <bool Mixed>
struct Team {
  int warps, threads, number, place;  ///< place of this thread in it

  __device__ explicit Team(int team_warps)
      : warps(team_warps),
        threads(32 * team_warps),
        number(int(threadIdx.x) / (32 * team_warps)),
        place(int(threadIdx.x) - number * threads) {}
  __device__ int teams() const { return int(blockDim.x) / threads; }
  __device__ void meet() const {
    if constexpr (!Mixed) return __syncthreads();
    asm volatile("bar.sync %0, %1;" ::"r"(number + 1), "r"(threads) : "memory");
  }
};

/// Sums of N numbers over the team, the same in all its threads, in a fixed order. \param shared room for N *
/// 16 numbers, one for all teams of the block; it may be used again after another meeting
template <int N, bool Mixed>
inline __device__ void team_sum(const Team<Mixed>& team, float (&v)[N], float (&shared)[N][16]) {
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = warp_sum(v[i]);
  if (team.warps == 1) return;
  const int warp = int(threadIdx.x) / 32, first = team.number * team.warps;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (threadIdx.x % 32 == 0) shared[i][warp] = v[i];
  team.meet();
#pragma unroll
  for (int i = 0; i < N; ++i) {
    v[i] = 0;
    for (int w = 0; w < team.warps; ++w) v[i] += shared[i][first + w];
  }
}

/// Places of 16 bytes in shared memory that are filled while the thread works on others. Each thread waits
/// for its own copies only, so it may read its own places only.
inline __device__ void copy_ahead(uint4* to_shared, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared))),
               "l"(from)
               : "memory");
}
inline __device__ void end_group_of_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until all but the last `Groups` groups are there.
template <int Groups>
inline __device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}

}  // namespace octachoron::cuda
