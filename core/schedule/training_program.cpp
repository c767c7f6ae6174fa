#include "core/schedule/training_program.h"

#include "core/model/transformer.h"
#include "core/model/sharded_optimizer.h"
#include "core/schedule/overlap.h"
#include "core/schedule/pipeline_schedule.h"

namespace octachoron {

namespace {

class StepAssembly {
 public:
  StepAssembly(ProgramKind kind, const Parameters& parameters, const Target& target, const ParameterSet& set,
               const QuantizationPlan& quantization, Casts casts)
      : kind_(kind),
        casts_(casts),
        parameters_(parameters),
        shape_(model_shape(parameters, target.grid)),
        builder_(target),
        buffers_(builder_, set, kind != ProgramKind::validation),
        quantizer_(builder_, quantization, kind),
        context_{builder_, shape_, buffers_, quantizer_},
        micro_batches_(int(parameters.micro_batches())) {
    builder_.set_slots(1, micro_batches_);
    declare_inputs();
  }

  StepProgram build() {
    const ShardedOptimizer optimizer(builder_, buffers_, quantizer_, {control_, scalars_, result_});
    begin(optimizer);
    Transformer model(context_);
    run_micro_batches(model, optimizer);
    end(optimizer);
    return builder_.finish([&](StepProgram& program) {
      if (casts_ == Casts::fused) fuse_casts(builder_, program);
      if (parameters_.parallel.overlap) overlap_weight_gradients(program);
    });
  }

 private:
  void declare_inputs() {
    const std::int64_t tokens = shape_.tokens();
    const auto host = [&](const char* name, DType type, std::int64_t columns, Scope scope) {
      return builder_.matrix(name, type, 1, columns, MemoryClass::host, scope);
    };
    host_tokens_ = host(StepBuffers::tokens, OCT_I32, tokens, Scope::micro_batch);
    host_targets_ = host(StepBuffers::targets, OCT_I32, tokens, Scope::micro_batch);
    host_scalars_ = host(StepBuffers::scalars, OCT_F64, OCT_SCALARS, Scope::step);
    host_result_ = host(StepBuffers::result, OCT_F64, 4, Scope::step);
    builder_.set_kept(host_result_);
    tokens_ = builder_.matrix("tokens", OCT_I32, 1, tokens, MemoryClass::activation);
    targets_ = builder_.matrix("targets", OCT_I32, 1, tokens, MemoryClass::activation);
    const auto step = [&](const char* name, std::int64_t columns) {
      return builder_.matrix(name, OCT_F64, 1, columns, MemoryClass::scale, Scope::step);
    };
    scalars_ = step("scalars", OCT_SCALARS);
    control_ = step("control", 4);
    result_ = step("result", 4);
  }

  void begin(const ShardedOptimizer& optimizer) {
    builder_.call(builder_.segment("begin"));
    emit_copy(builder_, "scalars", host_scalars_, scalars_, "copy");
    emit_fill(builder_, "control", control_, 0);
    quantizer_.begin();
    builder_.call(builder_.segment("gather weights"));
    optimizer.gather_weights();
  }

  // Segments are emitted in the order they first run: a layer's backward refers to what its forward saved.
  void run_micro_batches(Transformer& model, const ShardedOptimizer& optimizer) {
    const int load = builder_.segment("load");
    emit_copy(builder_, "tokens", host_tokens_, tokens_, "copy");
    emit_copy(builder_, "targets", host_targets_, targets_, "copy");
    const int forward = builder_.segment("forward");
    model.forward({tokens_, targets_, scalars_, control_.column_range(2, 1)}, backward_too());
    int backward_first = 0, backward = 0;
    if (backward_too()) {
      backward_first = builder_.segment("first backward");
      optimizer.clear_padding();
      model.backward(false);
      if (micro_batches_ > 1) backward = builder_.segment("backward"), model.backward(true);
    }
    for (const Action& action : one_forward_one_backward(0, 1, micro_batches_)) {
      if (action.forward) {
        builder_.call(load, 0, action.micro_batch);
        builder_.call(forward, 0, action.micro_batch);
      } else if (backward_too()) {
        builder_.call(action.micro_batch == 0 ? backward_first : backward, 0, action.micro_batch);
      }
    }
  }

  void end(const ShardedOptimizer& optimizer) {
    const bool training = kind_ == ProgramKind::training;
    if (training) {
      builder_.call(builder_.segment("reduce gradients"));
      optimizer.reduce_gradients(shape_.sequence_parallel);
    }
    builder_.call(builder_.segment("agree"));
    if (training) {
      optimizer.agree(parameters_.optimizer.clip);
    } else {
      optimizer.agree_loss();
      emit_clip(builder_, control_, scalars_, result_, 0);
    }
    if (training) {
      builder_.call(builder_.segment("update"));
      optimizer.update(parameters_.optimizer);
    }
    builder_.call(builder_.segment("end"));
    quantizer_.finish();
    emit_copy(builder_, "result", result_, host_result_, "copy");
  }

  bool backward_too() const { return kind_ != ProgramKind::validation; }

  ProgramKind kind_;
  Casts casts_;
  const Parameters& parameters_;
  ModelShape shape_;
  ProgramBuilder builder_;
  ParameterBuffers buffers_;
  Quantizer quantizer_;
  ModelContext context_;
  int micro_batches_;
  View host_tokens_, host_targets_, host_scalars_, host_result_;
  View tokens_, targets_, scalars_, control_, result_;
};

}  // namespace

StepProgram build_program(ProgramKind kind, const Parameters& parameters, const Target& target, const ParameterSet& set,
                          const QuantizationPlan& quantization, Casts casts) {
  return StepAssembly(kind, parameters, target, set, quantization, casts).build();
}

}  // namespace octachoron
