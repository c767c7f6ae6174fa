#include "core/compare/observe.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/error.h"
#include "core/compare/probe.h"
#include "core/data/sample_order.h"
#include "core/numerics/checksum.h"
#include "core/parallel/together.h"
#include "core/train/agreed_programs.h"
#include "core/train/health.h"
#include "core/train/learning_rate.h"

namespace octachoron {

namespace {

// What lives as long as transfers may be in flight. The probe looks at what is cast, so casts are operations of their own.
struct Parts {
  Parts(const Parameters& parameters, const World& world)
      : backend(parameters, world),
        session(parameters, world, backend,
                agreed_programs(parameters, {grid_of(parameters), &backend.device(), &backend.recipe()}, world,
                                Casts::apart)) {}

  Backend backend;
  TrainingSession session;
};

std::uint64_t digest_of(const Assembled& tensor) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const float value = float(tensor.values[i]);
    sum += checksum(std::int64_t(i), &value, 1);
  }
  return sum;
}

std::string gemm_text(const Operation& operation) {
  const View &a = operation.operands[0].view, &b = operation.operands[1].view;
  const bool transpose_a = operation.i[0] != 0, transpose_b = operation.i[1] != 0;
  return text(operation.label, ": ", transpose_a ? a.columns : a.rows, " x ",
              transpose_b ? b.rows : b.columns, " x ", transpose_a ? a.rows : a.columns, ", ", name(a.dtype),
              " x ", name(b.dtype));
}

// In the order of the program; each once, though backward passes come in two forms.
std::string shapes_text(const StepProgram& program) {
  std::vector<std::string> lines;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations) {
      if (operation.op != OCT_GEMM) continue;
      const std::string line = gemm_text(operation);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    }
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

std::vector<ShapeObservation> shapes_of_ranks(const StepProgram& program, const World& world) {
  const std::string mine = shapes_text(program);
  std::vector<ShapeObservation> groups;
  std::vector<std::string> texts;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string shapes = world.broadcast(mine, rank);
    const auto found = std::find(texts.begin(), texts.end(), shapes);
    if (found != texts.end()) {
      groups[std::size_t(found - texts.begin())].ranks.push_back(rank);
      continue;
    }
    texts.push_back(shapes);
    groups.push_back({{rank}, {}});
    for (std::size_t begin = 0, end; (end = shapes.find('\n', begin)) != std::string::npos; begin = end + 1)
      groups.back().gemms.push_back(shapes.substr(begin, end - begin));
  }
  return groups;
}

class Observer {
 public:
  Observer(const Variant& variant, const World& world, Backend& backend, TrainingSession& session)
      : variant_(variant),
        parameters_(variant.parameters),
        world_(world),
        recipe_(backend.recipe()),
        session_(session),
        health_(session),
        data_(together(world,
                       [&] {
                         return std::make_unique<TokenData>(
                             parameters_.data.train, parameters_.data.format, parameters_.model.sequence,
                             parameters_.model.vocab, ScanShare{world.rank(), world.size()});
                       })),
        order_(data_->samples(), parameters_.run.seed),
        shape_{parameters_.batch.global, parameters_.batch.micro, parameters_.grid.dp,
               session.grid().coordinate(world.rank())[int(Axis::dp)]} {}

  Observation run(std::int64_t steps) {
    agree_on_data(*data_, nullptr, world_);
    describe_passes(*data_, 0, steps, parameters_.batch.global, parameters_.data.repeat);
    describe();
    for (std::int64_t step = 1; step <= steps; ++step) {
      training_batch(*data_, order_, shape_, (step - 1) * parameters_.batch.global, batch_);
      const double rate = learning_rate(parameters_.optimizer, step);
      const StepResult result =
          step == 1 || step == steps ? look_at_step(rate, step) : session_.step(batch_, rate, step);
      if (!result.finite)
        fail(ExitStatus::diverged, "variant '", variant_.name, "' is not finite at step ", step, " (loss ",
             result.loss, ", gradient norm ", result.grad_norm,
             "); find the origin with train --check, or compare fewer steps");
      seen_.loss.push_back(result.loss), seen_.grad_norm.push_back(result.grad_norm);
      for (const std::string& alarm : health_.note(step, result.loss)) seen_.alarms.push_back(alarm);
    }
    return std::move(seen_);
  }

 private:
  void describe() {
    seen_.name = variant_.name, seen_.grid = session_.grid();
    seen_.ranks = rank_map(session_.grid(), world_.hosts());
    seen_.precision = session_.programs().quantization.table;
    const DType activation = recipe_.storage(OCT_STORAGE_ACTIVATION);
    seen_.is_double = activation == OCT_F64;
    seen_.is_full_precision =
        (seen_.is_double || activation == OCT_F32) && session_.programs().quantization.empty();
    const StepProgram& program = session_.programs().training.program;
    seen_.traffic = planned_traffic(program, session_.grid(), Traffic::by_kind);
    seen_.shapes = shapes_of_ranks(program, world_);
  }

  // Masters of what products multiply with; before the step, which updates them.
  Tensors weights() const {
    std::vector<CheckpointTensor> list;
    for (const CheckpointTensor& tensor : session_.state())
      if (tensor.path.starts_with("/master/") && is_multiplied(tensor.tensor.name)) list.push_back(tensor);
    return assemble(list, "/master/", world_.comm(), Assembly::on_first_rank);
  }
  bool is_multiplied(const std::string& tensor) const {
    return session_.programs().quantization.module_of_weight(tensor) != nullptr;
  }

  StepResult look_at_step(double rate, std::int64_t step) {
    const Tensors masters = weights();
    StepProbe probe(session_, parameters_);
    const StepResult result =
        session_.step_inspected(batch_, rate, step, [&](const Issue& issue) { probe.look(issue); });
    StepObservation detail = probe.step(world_, masters, recipe_.has_update());
    detail.step = step;
    const std::vector<HealthTensor> tensors = health_tensors(session_.programs(), session_.grid());
    for (std::size_t t = 0; t < tensors.size(); ++t) detail.casts[t].elements = tensors[t].elements;
    seen_.steps.push_back(std::move(detail));
    if (step > 1) return result;
    seen_.forward = probe.forward(world_);
    seen_.gradients = assemble(session_.gradients(), "/gradient/", world_.comm(), Assembly::on_first_rank);
    for (const auto& [name, tensor] : seen_.gradients) seen_.digests.emplace_back(name, digest_of(tensor));
    return result;
  }

  const Variant& variant_;
  const Parameters& parameters_;
  const World& world_;
  const Recipe& recipe_;
  TrainingSession& session_;
  HealthWatch health_;
  std::unique_ptr<TokenData> data_;
  SampleOrder order_;
  BatchShape shape_;
  RankBatch batch_;
  Observation seen_;
};

}  // namespace

Observation observe_session(const Variant& variant, const World& world, Backend& backend,
                            TrainingSession& session, std::int64_t steps) {
  return Observer(variant, world, backend, session).run(steps);
}

Observation observe_variant(const Variant& variant, const World& world, std::int64_t steps) {
  agree_on_parameters(variant.parameters, false, world);
  auto parts = std::make_unique<Parts>(variant.parameters, world);
  try {
    parts->session.initialise();
    return observe_session(variant, world, parts->backend, parts->session, steps);
  } catch (...) {
    // Transfers to and from peers may still be in flight: they are ended, and what they point to stays until
    // the process ends, which is next.
    parts->backend.communicator().abort();
    (void)parts.release();
    throw;
  }
}

}  // namespace octachoron
