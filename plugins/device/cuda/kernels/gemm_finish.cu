/// What surrounds a matrix product of cuBLASLt: reciprocal scales before, bias, sum and type behind, numbers
/// to measure with.
#include "plugins/device/cuda/kernels/device.cuh"

namespace octachoron::cuda {
namespace {

template <class B, class D>
struct Finish {
  Rows<const float> product;
  Rows<const B> bias;
  Rows<D> d;
  bool accumulate;
  __device__ void operator()(std::int64_t row, std::int64_t column, int n) const {
    float sum[kChunk] = {}, v[kChunk];
    if (product.data != nullptr) product.load(row, column, n, sum);
    if (bias.data != nullptr) {
      bias.load(0, column, n, v);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum[i] += v[i];
    }
    if (accumulate) {
      d.load(row, column, n, v);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sum[i] += v[i];
    }
    d.save(row, column, n, sum);
  }
};

__global__ void invert_kernel(const float* a, const float* b, float* inverses) {
  if (threadIdx.x < 2) inverses[64 * threadIdx.x] = __fdiv_rn(1.f, threadIdx.x == 0 ? *a : *b);
}

__global__ void noise_kernel(std::uint32_t* words, std::int64_t n) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    std::uint32_t x = std::uint32_t(i) * 2654435761u + 12345u;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
    // Each byte, pair and word of it is a number between about 2^-8 and 2 in its format.
    words[i] = (x & 0x83838383u) | 0x3c3c3c3cu;
  }
}

}  // namespace

void gemm_finish(const Call& call, const float* product) {
  const oct_operation& op = call.operation;
  const oct_matrix& d = op.operand[5];
  by_type(call, 4, [&](auto bias) {
    by_type(call, 5, [&](auto result) {
      using B = decltype(bias);
      using D = decltype(result);
      map(call, d.rows, d.columns,
          Finish<B, D>{rows_at(product, d.columns), rows<const B>(call, 4), rows<D>(call, 5), op.i[2] == 1});
    });
  });
}

void invert_scales(const Call& call, float* inverses) {
  launch(call, invert_kernel, dim3(1), 32, 0, data<const float>(call, 2), data<const float>(call, 3),
         inverses);
}

void fill_noise(void* memory, std::int64_t bytes, cudaStream_t stream) {
  noise_kernel<<<1024, 256, 0, stream>>>(static_cast<std::uint32_t*>(memory), bytes / 4);
  check(cudaGetLastError(), "a launch");
}

}  // namespace octachoron::cuda
