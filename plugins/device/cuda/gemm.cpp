#include "plugins/device/cuda/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/dtype.h"
#include "core/plugin/export.h"
#include "plugins/device/common/check.h"
#include "plugins/device/cuda/gemm_plan.h"
#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

/// The largest power of two, up to 16, that divides the addresses of all rows if it divides that of the
/// first.
std::int64_t alignment_of(const oct_operation& op) {
  std::int64_t alignment = 16;
  for (const int k : {0, 1, 5}) {
    const oct_matrix& m = op.operand[k];
    while (m.pitch * size_of(DType(m.dtype)) % alignment != 0) alignment /= 2;
  }
  return alignment;
}
std::int64_t element_alignment(const oct_operation& op) {
  return std::min(size_of(DType(op.operand[0].dtype)), size_of(DType(op.operand[5].dtype)));
}

/// All that an algorithm depends on, in words.
std::string key_of(const oct_operation& op, std::int64_t alignment) {
  const auto matrix = [&](int k) {
    const oct_matrix& m = op.operand[k];
    return std::string(name(DType(m.dtype))) + " " + std::to_string(m.rows) + "x" +
           std::to_string(m.columns) + "/" + std::to_string(m.pitch);
  };
  std::string key =
      matrix(0) + (op.i[0] == 1 ? " t * " : " n * ") + matrix(1) + (op.i[1] == 1 ? " t -> " : " n -> ");
  key += matrix(5) + (op.i[2] == 1 ? " add" : "") + (op.operand[4].rows > 0 ? " bias" : "");
  return key + (op.i[3] == 1 ? " fast" : "") + " align " + std::to_string(alignment);
}

/// Memory and events for measurements.
class Bench {
 public:
  Bench() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "an event");
  }
  ~Bench() {
    for (void* memory : memory_) (void)cudaFree(memory);
    for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
    (void)cudaStreamDestroy(stream_);
  }
  Bench(const Bench&) = delete;

  /// Filled with noise; null if there is no room.
  void* allocate(std::int64_t bytes) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, std::size_t(bytes) + 256) != cudaSuccess) {
      (void)cudaGetLastError();
      return nullptr;
    }
    memory_.push_back(memory);
    fill_noise(memory, bytes + 256, stream_);
    return memory;
  }
  /// Milliseconds of one execution, the least of four after one for warming; infinite if it cannot run.
  double measure(const GemmPlan& plan, const GemmPointers& pointers) {
    float least = INFINITY;
    for (int k = 0; k < 5; ++k) {
      check(cudaEventRecord(events_[0], stream_), "an event");
      if (plan.run(pointers, stream_) != CUBLAS_STATUS_SUCCESS) return INFINITY;
      check(cudaEventRecord(events_[1], stream_), "an event");
      check(cudaStreamSynchronize(stream_), "a measurement");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "a measurement");
      if (k > 0) least = std::min(least, ms);
    }
    return least;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t events_[2] = {};
  std::vector<void*> memory_;
};

std::int64_t bytes_of(const oct_matrix& m) {
  return m.rows * m.pitch * size_of(DType(m.dtype));
}

/// The fastest candidate; -1 without the memory to measure.
int fastest(const oct_operation& op, GemmPlan& plan, const std::vector<Candidate>& candidates) {
  const GemmLayout layout = gemm_layout(op);
  Bench bench;
  const void* bias = op.operand[4].rows > 0 ? bench.allocate(4 * layout.n) : nullptr;
  auto* scales = static_cast<const float*>(bench.allocate(512));
  void* a = bench.allocate(bytes_of(op.operand[0]));
  void* b = bench.allocate(bytes_of(op.operand[1]));
  void* d = bench.allocate(std::max(bytes_of(op.operand[5]), 4 * layout.m * layout.n));
  void* workspace = bench.allocate(layout.library_bytes);
  if (a == nullptr || b == nullptr || d == nullptr || workspace == nullptr || scales == nullptr) return -1;
  int best = -1;
  double least = INFINITY;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    plan.choose(candidates[i].algo);
    const double ms = bench.measure(plan, {a, b, bias, d, scales, workspace});
    if (ms < least) least = ms, best = int(i);
  }
  return best;
}

/// Below this many operations a launch costs more than any algorithm.
constexpr double kWorthMeasuring = 1e9;

/// False if the library has none.
bool choose_algorithm(const oct_operation& op, std::int64_t alignment, Tuning& tuning, GemmPlan* plan) {
  const std::string key = key_of(op, alignment);
  cublasLtMatmulAlgo_t algorithm = {};
  static_assert(sizeof algorithm.data == sizeof(Tuning::Choice));
  if (const Tuning::Choice* known = tuning.find(key)) {
    std::memcpy(algorithm.data, known->data(), sizeof algorithm.data);
    plan->choose(algorithm);
    if (plan->accepts(algorithm)) return true;
  }
  const std::vector<Candidate> candidates = plan->candidates();
  if (candidates.empty()) return false;
  const GemmLayout layout = gemm_layout(op);
  const double work = 2. * double(layout.m) * double(layout.n) * double(layout.k);
  const int best = candidates.size() > 1 && work > kWorthMeasuring ? fastest(op, *plan, candidates) : -1;
  algorithm = candidates[std::size_t(std::max(0, best))].algo;
  plan->choose(algorithm);
  Tuning::Choice choice;
  std::memcpy(choice.data(), algorithm.data, sizeof algorithm.data);
  tuning.remember(key, choice);
  return true;
}

class GemmOperation : public Prepared {
 public:
  GemmOperation(const oct_operation& operation, cublasLtHandle_t handle, Tuning& tuning)
      : operation_(operation), layout_(gemm_layout(operation)), alignment_(alignment_of(operation)) {
    if (layout_.multiplies) {
      aligned_ = plan(handle, alignment_, tuning);
      const std::int64_t least = element_alignment(operation);
      if (least < alignment_ && !layout_.is_fp8) unaligned_ = plan(handle, least, tuning);
      if (aligned_ == nullptr && layout_.is_fp8) {
        throw plugin::Failure(OCT_UNSUPPORTED,
                              "gemm: cuBLASLt has no algorithm for " + key_of(operation, alignment_));
      }
    }
    void* const none[kPointers] = {};
    const Call load = {operation_, none, nullptr, true, nullptr, nullptr};
    if (layout_.is_fp8) invert_scales(load, nullptr);
    if (layout_.finishes) gemm_finish(load, nullptr);
    if (!layout_.is_fp8) gemm_simple(load);
  }

  void run(void* const* pointers, cudaStream_t stream) override {
    const Call call = {operation_, pointers, stream, false, nullptr, nullptr};
    char* workspace = static_cast<char*>(pointers[kWorkspace]);
    auto* scales = reinterpret_cast<float*>(workspace + layout_.scales);
    const GemmPlan* plan = plan_for(pointers);
    if (layout_.multiplies && plan == nullptr) return gemm_simple(call);
    auto* product = layout_.multiplies ? reinterpret_cast<float*>(workspace + layout_.product) : nullptr;
    if (layout_.is_fp8) {
      for (const int k : {2, 3}) {
        if (reinterpret_cast<std::uintptr_t>(pointers[k]) % 16 != 0)
          throw std::invalid_argument(std::string("gemm: the pointer of ") +
                                      device_common::operand_name(operation_, k) + " is not a multiple of 16");
      }
      invert_scales(call, scales);
    }
    if (layout_.multiplies) {
      void* d = layout_.finishes ? product : pointers[5];
      const GemmPointers p = {pointers[0], pointers[1], pointers[4], d, scales, workspace + layout_.library};
      check(plan->run(p, stream), "a matrix product");
    }
    if (layout_.finishes) gemm_finish(call, product);
  }

 private:
  std::unique_ptr<GemmPlan> plan(cublasLtHandle_t handle, std::int64_t alignment, Tuning& tuning) const {
    auto plan = std::make_unique<GemmPlan>(operation_, handle, alignment);
    return choose_algorithm(operation_, alignment, tuning, plan.get()) ? std::move(plan) : nullptr;
  }
  const GemmPlan* plan_for(void* const* pointers) const {
    std::uintptr_t bits = 0;
    for (const int k : {0, 1, 5}) bits |= reinterpret_cast<std::uintptr_t>(pointers[k]);
    if (bits % std::uintptr_t(alignment_) == 0) return aligned_.get();
    if (layout_.is_fp8)
      throw std::invalid_argument("gemm: operands in FP8 must be at multiples of " +
                                  std::to_string(alignment_) + " bytes");
    return unaligned_.get();
  }

  oct_operation operation_;
  GemmLayout layout_;
  std::int64_t alignment_;
  std::unique_ptr<GemmPlan> aligned_, unaligned_;  // null: the own kernel
};

}  // namespace

std::unique_ptr<Prepared> prepare_gemm(const oct_operation& operation, cublasLtHandle_t handle,
                                       Tuning& tuning) {
  return std::make_unique<GemmOperation>(operation, handle, tuning);
}

}  // namespace octachoron::cuda
