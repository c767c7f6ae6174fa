#include "plugins/device/cuda/attention.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "plugins/device/cuda/attention_plan.h"
#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

enum Operand { kQkv = 0, kOut = 1, kLse = 2, kDOut = 3, kDQkv = 4 };

bool is_backward(const oct_operation& op) {
  return op.op == OCT_ATTENTION_BACKWARD;
}

CudnnAttentionShape shape_of(const oct_operation& op, const AttentionPlan& plan) {
  CudnnAttentionShape shape = {};
  shape.backward = is_backward(op);
  shape.sequences = plan.sequences;
  shape.heads = op.i[1] / op.i[2] * plan.key_heads;
  shape.key_heads = plan.key_heads;
  shape.length = op.i[0];
  shape.size = op.i[3];
  shape.qkv_pitch = op.operand[kQkv].pitch;
  shape.out_pitch = op.operand[kOut].pitch;
  shape.lse_pitch = op.operand[kLse].pitch;
  shape.dout_pitch = shape.backward ? op.operand[kDOut].pitch : 0;
  shape.dqkv_pitch = shape.backward ? op.operand[kDQkv].pitch : 0;
  shape.scale = float(op.f[0]);
  return shape;
}

std::string describe(const oct_operation& op) {
  const auto number = [&](const char* what, std::int64_t n) { return what + std::to_string(n); };
  return (is_backward(op) ? "gradient of attention (" : "attention (") +
         number("", op.operand[0].rows / op.i[0]) + number(" sequences of ", op.i[0]) +
         number(", heads ", op.i[1]) + number(", key heads ", op.i[2]) + number(" of ", op.i[3]) + ")";
}

/// Memory and a stream for one execution.
class Trial {
 public:
  ~Trial() {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    (void)cudaFree(memory_);
  }
  Trial() = default;
  Trial(const Trial&) = delete;
  /// False if there is no room.
  bool allocate(std::int64_t bytes) {
    if (cudaMalloc(&memory_, std::size_t(bytes)) != cudaSuccess) {
      (void)cudaGetLastError();
      memory_ = nullptr;
      return false;
    }
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    check(cudaMemsetAsync(memory_, 0, std::size_t(bytes), stream_), "clearing memory");
    return true;
  }
  char* memory() const { return static_cast<char*>(memory_); }
  cudaStream_t stream() const { return stream_; }
  void finish() const { check(cudaStreamSynchronize(stream_), "a trial of attention"); }

 private:
  void* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Runs the graph once, on memory of its own that stands for all operands: its kernels are loaded before
/// another kernel waits for a flag (see Call::load), and what cannot be launched is known now. Where there is
/// no room for that it is left out.
void try_out(CudnnGraph& graph, const CudnnAttentionShape& s) {
  const std::int64_t tokens = s.sequences * s.length;
  const std::int64_t row = 2 * std::max({s.qkv_pitch, s.out_pitch, s.dout_pitch, s.dqkv_pitch});
  const std::int64_t operand = (tokens * std::max(row, 4 * std::max(s.lse_pitch, s.heads)) + 255) / 256 * 256;
  Trial trial;
  if (!trial.allocate(operand + graph.workspace_bytes())) return;
  void* const p = trial.memory();
  graph.run({p, p, p, p, p, p, p, p, p}, trial.memory() + operand, trial.stream());
  trial.finish();
}

/// Reasons of cuDNN have many lines.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.substr(0, 300);
}

class CudnnAttention : public Prepared {
 public:
  CudnnAttention(const oct_operation& operation, const AttentionPlan& plan, std::unique_ptr<CudnnGraph> graph,
                 std::unique_ptr<Prepared> own)
      : operation_(operation), plan_(plan), graph_(std::move(graph)), own_(std::move(own)) {
    void* const none[kPointers] = {};
    if (is_backward(operation_)) lse_by_heads({operation_, none, nullptr, true, nullptr, nullptr});
  }

  void run(void* const* pointers, cudaStream_t stream) override {
    if (!is_aligned(pointers)) return own_->run(pointers, stream);
    if (is_backward(operation_)) lse_by_heads({operation_, pointers, stream, false, nullptr, nullptr});
    void* workspace = static_cast<char*>(pointers[kWorkspace]) + plan_.library;
    const std::int64_t sequences = operation_.operand[kQkv].rows / operation_.i[0];
    for (std::int64_t b = 0; b < sequences; b += plan_.sequences) {
      for (std::int64_t k = 0; k < operation_.i[2]; k += plan_.key_heads)
        graph_->run(part(pointers, b, k), workspace, stream);
    }
  }

 private:
  bool is_aligned(void* const* pointers) const {
    std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(pointers[kWorkspace]);
    for (int k = 0; k < operation_.operands; ++k) bits |= reinterpret_cast<std::uintptr_t>(pointers[k]);
    return bits % 16 == 0;
  }

  /// From this sequence and this key head on.
  CudnnPointers part(void* const* pointers, std::int64_t sequence, std::int64_t key_head) const {
    const std::int64_t length = operation_.i[0], heads = operation_.i[1], key_heads = operation_.i[2],
                       size = operation_.i[3], head = heads / key_heads * key_head;
    const auto at = [&](Operand k, std::int64_t first_head) -> void* {
      const std::int64_t row = sequence * length * operation_.operand[k].pitch;
      return static_cast<std::uint16_t*>(pointers[k]) + row + first_head * size;
    };
    CudnnPointers p = {};
    p.q = at(kQkv, head);
    p.k = at(kQkv, heads + key_head);
    p.v = at(kQkv, heads + key_heads + key_head);
    p.out = at(kOut, head);
    if (!is_backward(operation_)) {  // never in parts
      p.lse = pointers[kLse];
      return p;
    }
    p.lse = static_cast<float*>(pointers[kWorkspace]) + (sequence * heads + head) * length;
    p.dout = at(kDOut, head);
    p.dq = at(kDQkv, head);
    p.dk = at(kDQkv, heads + key_head);
    p.dv = at(kDQkv, heads + key_heads + key_head);
    return p;
  }

  oct_operation operation_;
  AttentionPlan plan_;
  std::unique_ptr<CudnnGraph> graph_;
  std::unique_ptr<Prepared> own_;
};

}  // namespace

std::unique_ptr<Prepared> prepare_attention(const oct_operation& operation, Cudnn* cudnn,
                                            std::uint64_t* error,
                                            const std::function<void(const std::string&)>& warn) {
  const AttentionPlan plan = plan_attention(operation, cudnn != nullptr);
  auto own = prepare_kernel(operation, error);
  if (!plan.uses_cudnn) return own;
  std::string why;
  try {
    const CudnnAttentionShape shape = shape_of(operation, plan);
    auto graph = cudnn->build(shape);
    if (graph->workspace_bytes() <= plan.library_bytes) {
      try_out(*graph, shape);
      return std::make_unique<CudnnAttention>(operation, plan, std::move(graph), std::move(own));
    }
    why = "its workspace is " + std::to_string(graph->workspace_bytes()) + " bytes, not at most " +
          std::to_string(plan.library_bytes);
  } catch (const std::exception& refusal) {
    why = one_line(refusal.what());
  }
  warn(cudnn->version() + " does not compute the " + describe(operation) + " (" + why +
       "); the plugin's own kernels do, many times slower");
  return own;
}

}  // namespace octachoron::cuda
