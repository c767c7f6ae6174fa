#pragma once
/// Matrices of bytes turned by way of shared memory: 128 rows a tile, four of them in a word.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {

/// Four rows of four bytes become four columns, the first row lowest.
inline __device__ void turn(std::uint32_t (&word)[4]) {
  const std::uint32_t a = __byte_perm(word[0], word[1], 0x5140), b = __byte_perm(word[2], word[3], 0x5140);
  const std::uint32_t c = __byte_perm(word[0], word[1], 0x7362), d = __byte_perm(word[2], word[3], 0x7362);
  word[0] = __byte_perm(a, b, 0x5410), word[1] = __byte_perm(a, b, 0x7632);
  word[2] = __byte_perm(c, d, 0x5410), word[3] = __byte_perm(c, d, 0x7632);
}

/// Written by 256 threads, of which eight share a row, `kInThread` columns each, and 32 the rows, four each.
/// A column's pieces of 16 rows are moved about so that neither writing words nor reading pieces meets in a
/// bank.
template <int Columns>
struct ByteTile {
  static constexpr int kRows = 128, kThreads = 256, kInThread = Columns / 8;
  uint4 pieces[Columns][kRows / 16];

  static __device__ int place(int column, int piece) { return piece ^ (column / kInThread); }
  /// The word of rows 4 quad .. 4 quad + 3.
  __device__ void put(int column, int quad, std::uint32_t word) {
    reinterpret_cast<std::uint32_t*>(&pieces[column][place(column, quad / 4)])[quad % 4] = word;
  }
  /// By the whole block, after a barrier: the columns as rows of `out`, of which `columns` x `rows` exist.
  /// \param aligned whether all rows of `out` begin at multiples of 16 bytes, as this tile does in them
  __device__ void save(std::uint8_t* out, std::int64_t pitch, bool aligned, std::int64_t rows,
                       std::int64_t columns) const {
#pragma unroll 2
    for (int i = threadIdx.x; i < Columns * (kRows / 16); i += kThreads) {
      const int column = i / (kRows / 16), piece = i % (kRows / 16);
      const std::int64_t left = rows - piece * 16;
      if (column >= columns || left <= 0) continue;
      const uint4 bytes = pieces[column][place(column, piece)];
      std::uint8_t* to = out + column * pitch + piece * 16;
      if (aligned && left >= 16) {
        *reinterpret_cast<uint4*>(to) = bytes;
        continue;
      }
      const std::uint32_t word[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
      for (int k = 0; k < 16; ++k)
        if (k < left) to[k] = std::uint8_t(word[k / 4] >> (8 * (k % 4)));
    }
  }
};

}  // namespace octachoron::cuda
