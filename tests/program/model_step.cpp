/// The step of a small model: enough of a Transformer to have its kinds of communication and memory.
#include <algorithm>

#include "core/base/text.h"
#include "tests/program/toy.h"

namespace octachoron::toy {

namespace {

enum Lanes { compute, tp, dp, to_next, from_previous, to_previous, from_next };

struct Layer {
  std::string name;
  View master, shard, weight, gradient;                  // weight [hidden, 3 hidden / tp]
  View part, full, qkv, product, dfull, dqkv, dproduct;  // saved and passing activations
};

class Model {
 public:
  Model(const ModelShape& shape, int stage) : shape_(shape), stage_(stage), last_(shape.stages - 1) {
    const std::int64_t t = shape.tokens;
    workspace_ = writer_.buffer("workspace", 1, 64, OCT_U8, Scope::step, MemoryClass::workspace);
    x_ = activation("x", t);
    y_ = activation("y", t);
    dy_ = activation("dy", t);
    dx_ = activation("dx", t);
    tokens_ = writer_.buffer("tokens", 1, t, OCT_I32, Scope::micro_batch, MemoryClass::host);
    const int count = shape.layers / shape.stages;
    for (int l = stage * count; l < (stage + 1) * count; ++l) add_layer(l);
    loss_ = writer_.buffer("loss", 1, 1, OCT_F64, Scope::step);
    writer_.last_buffer().kept = true;
  }

  StepProgram build() {
    gather_ = writer_.segment("gather");
    for (Layer& l : layers_)
      writer_.communicate(OCT_ALL_GATHER, dp, l.name + ".weight", {Axis::dp, "weight", 0}, l.shard, l.weight);
    if (stage_ == last_) writer_.operation(OCT_FILL, compute, "loss", {out(loss_)});
    forward_ = writer_.segment("forward");
    emit_forward();
    for (const bool first : {true, false}) {
      (first ? first_backward_ : backward_) = writer_.segment(first ? "first backward" : "backward");
      emit_backward(first);
    }
    receive_x_ = transfer("receive x", OCT_RECEIVE, from_previous, "forward", -1, text("x.", stage_), x_);
    send_y_ = transfer("send x", OCT_SEND, to_next, "forward", +1, text("x.", stage_ + 1), y_);
    receive_dy_ =
        transfer("receive dx", OCT_RECEIVE, from_next, "backward", +1, text("dx.", stage_ + 1), dy_);
    send_dx_ = transfer("send dx", OCT_SEND, to_previous, "backward", -1, text("dx.", stage_), dx_);
    update_ = writer_.segment("update");
    emit_update();
    schedule();
    return writer_.finish();
  }

 private:
  View activation(const std::string& name, std::int64_t rows, int width = 1) {
    return writer_.buffer(name, rows, shape_.hidden * width, OCT_BF16);
  }

  void add_layer(int number) {
    Layer l;
    l.name = text("layers.", number);
    const std::int64_t h = shape_.hidden, full = shape_.tokens * shape_.tp;
    l.master = writer_.persistent(l.name + ".master", 1, h * 3 * h / shape_.dp, OCT_F32);
    l.shard = writer_.persistent(l.name + ".shard", 1, h * 3 * h / shape_.dp, OCT_BF16);
    l.weight = writer_.buffer(l.name + ".weight", h, 3 * h, OCT_BF16, Scope::step, MemoryClass::weight);
    l.gradient = writer_.buffer(l.name + ".gradient", h, 3 * h, OCT_F32, Scope::step, MemoryClass::gradient);
    l.part = activation(l.name + ".part", shape_.tokens);
    l.full = activation(l.name + ".full", full);
    l.qkv = activation(l.name + ".qkv", full, 3);
    l.product = activation(l.name + ".product", full);
    l.dfull = activation(l.name + ".dfull", full);
    l.dqkv = activation(l.name + ".dqkv", full, 3);
    l.dproduct = activation(l.name + ".dproduct", full);
    layers_.push_back(l);
  }

  void emit_forward() {
    if (stage_ == 0) writer_.operation(OCT_EMBEDDING, compute, "x", {in(tokens_), out(x_)});
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      const Layer& l = layers_[k];
      const View next = k + 1 < layers_.size() ? layers_[k + 1].part : y_;
      if (k == 0) writer_.operation(OCT_NORM, compute, l.name + ".norm", {in(x_), out(l.part)});
      writer_.communicate(OCT_ALL_GATHER, tp, l.name + ".full", {Axis::tp, "activation", 0}, l.part, l.full);
      writer_.operation(OCT_GEMM, compute, l.name + ".qkv", {in(l.full), in(l.weight), out(l.qkv)})
          .workspace = workspace_;
      const std::int64_t h = shape_.hidden;  // q is turned in place, then q, k and v are read apart
      writer_.operation(OCT_ROPE, compute, l.name + ".rope", {update(l.qkv.column_range(0, 2 * h))});
      writer_.operation(OCT_ATTENTION, compute, l.name + ".attention",
                        {in(l.qkv.column_range(0, h)), in(l.qkv.column_range(h, h)),
                         in(l.qkv.column_range(2 * h, h)), out(l.product)});
      writer_.communicate(OCT_REDUCE_SCATTER, tp, l.name + ".out", {Axis::tp, "activation", 0}, l.product,
                          next);
    }
    if (stage_ == last_) {
      writer_.operation(OCT_LOSS, compute, "loss", {in(y_), in(tokens_), out(dy_), update(loss_)});
    }
  }

  void emit_backward(bool first) {
    for (std::size_t k = layers_.size(); k-- > 0;) {
      const Layer& l = layers_[k];
      const View dout = k + 1 < layers_.size() ? layers_[k + 1].part : dy_;
      const View din = k == 0 ? dx_ : l.part;
      const std::int64_t h = shape_.hidden;
      writer_.communicate(OCT_ALL_GATHER, tp, l.name + ".dproduct", {Axis::tp, "activation", 0}, dout,
                          l.dproduct);
      for (int third = 0; third < 3; ++third)
        writer_.operation(OCT_ATTENTION_BACKWARD, compute, text(l.name, ".dqkv.", third),
                          {in(l.qkv), in(l.dproduct), out(l.dqkv.column_range(third * h, h))});
      writer_.operation(OCT_GEMM, compute, l.name + ".dfull", {in(l.dqkv), in(l.weight), out(l.dfull)})
          .workspace = workspace_;
      writer_.communicate(OCT_REDUCE_SCATTER, tp, l.name + ".dpart", {Axis::tp, "activation", 0}, l.dfull,
                          din);
      Operation& gradient =
          writer_.operation(OCT_GEMM, compute, l.name + ".dweight",
                            {in(l.full), in(l.dqkv), first ? out(l.gradient) : update(l.gradient)});
      gradient.workspace = workspace_;
    }
  }

  void emit_update() {
    for (const Layer& l : layers_) {
      const View mine = l.gradient.flat().column_range(0, l.master.columns);
      writer_.communicate(OCT_REDUCE_SCATTER, dp, l.name + ".gradient", {Axis::dp, "gradient", 0},
                          l.gradient.flat(), mine);
      writer_.operation(OCT_ADAMW, compute, l.name + ".update", {in(mine), update(l.master), out(l.shard)});
    }
  }

  int transfer(const std::string& name, oct_op op, int lane, const char* purpose, int shift,
               const std::string& label, const View& view) {
    const int segment = writer_.segment(name);
    const View absent;
    writer_.communicate(op, shape_.one_pp_lane ? int(to_next) : lane, label, {Axis::pp, purpose, shift},
                        op == OCT_SEND ? view : absent, op == OCT_SEND ? absent : view);
    return segment;
  }

  struct Step {
    bool forward;
    int micro_batch;
  };
  std::vector<Step> order() const {
    const int n = shape_.micro_batches;
    std::vector<Step> steps;
    const int ahead = shape_.gpipe ? n : std::min(n, last_ - stage_);
    for (int m = 0; m < ahead; ++m) steps.push_back({true, m});
    for (int m = 0; m < n; ++m) {
      if (m + ahead < n) steps.push_back({true, m + ahead});
      steps.push_back({false, m});
    }
    return steps;
  }

  void schedule() {
    const int slots =
        shape_.gpipe ? shape_.micro_batches : std::min(shape_.micro_batches, last_ - stage_ + 1);
    const auto call = [&](int segment, int micro_batch) {
      writer_.call(segment, micro_batch % slots, micro_batch);
    };
    const auto send = [&](const Step& step) {
      if (step.forward && stage_ < last_) call(send_y_, step.micro_batch);
      if (!step.forward && stage_ > 0) call(send_dx_, step.micro_batch);
    };
    writer_.call(gather_);
    const std::vector<Step> steps = order();
    const Step* previous = nullptr;
    for (const Step& step : steps) {
      const auto receive = [&] {
        if (step.forward && stage_ > 0) call(receive_x_, step.micro_batch);
        if (!step.forward && stage_ < last_) call(receive_dy_, step.micro_batch);
      };
      const bool towards_next = previous && previous->forward && !step.forward;
      if (towards_next && shape_.receive_first) receive();
      if (previous) send(*previous);
      if (!(towards_next && shape_.receive_first)) receive();
      call(step.forward ? forward_ : step.micro_batch == 0 ? first_backward_ : backward_, step.micro_batch);
      previous = &step;
    }
    send(steps.back());
    writer_.call(update_);
    writer_.program.schedule.slots = slots;
    writer_.program.schedule.micro_batches = shape_.micro_batches;
  }

  ModelShape shape_;
  int stage_, last_;
  Writer writer_{{"compute", "tp", "dp", "to next", "from previous", "to previous", "from next"}};
  View workspace_, x_, y_, dy_, dx_, tokens_, loss_;
  std::vector<Layer> layers_;
  int gather_ = 0, forward_ = 0, first_backward_ = 0, backward_ = 0, update_ = 0;
  int receive_x_ = 0, send_y_ = 0, receive_dy_ = 0, send_dx_ = 0;
};

}  // namespace

StepProgram model_step(const ModelShape& shape, int stage) {
  return Model(shape, stage).build();
}

Pipeline::Pipeline(const ModelShape& shape) : grid{{shape.tp, 1, shape.dp, shape.stages}} {
  for (int stage = 0; stage < shape.stages; ++stage) programs.push_back(model_step(shape, stage));
  for (int stage = 0; stage < shape.stages; ++stage)
    roles.push_back({text("stage ", stage), &programs[stage]});
}

OrderReport Pipeline::order(Queues queues, bool use_symmetry) const {
  return verify_order(
      grid, roles, [](const Coordinate& at) { return at[int(Axis::pp)]; }, queues, use_symmetry);
}

}  // namespace octachoron::toy
