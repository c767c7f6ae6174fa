#include "tests/parallel/sweep.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/text.h"

namespace octachoron::parity {

namespace {

// The weights start larger than in training, so that attention and every gradient matter from the first step
// on.
std::string text_of(const ModelCase& model, const std::string& data) {
  return text("[run]\nsteps = ", kSteps, "\nseed = 7\n[model]\nlayers = ", model.layers,
              "\nhidden = ", model.hidden, "\nheads = ", model.heads, "\nffn = ", model.ffn,
              "\nvocab = ", model.vocab, "\nsequence = ", model.sequence, "\nfamily = ", model.family,
              "\nkv_heads = ", model.kv_heads, "\ninit_std = 0.08\n[batch]\nglobal = ", model.global,
              "\n[optimizer]\nlearning_rate = 3e-3\nwarmup = 4\ndecay = constant\n[engine]\nthreads = "
              "1\n[data]\nformat = text\n",
              "train = ", data, "\n");
}

std::vector<std::string> overrides_of(const SweepCase& at) {
  const auto on = [](bool value) { return value ? "on" : "off"; };
  return {text("grid.dp=", at.dp),
          text("grid.tp=", at.tp),
          text("batch.micro=", at.micro()),
          text("model.tie_embeddings=", on(at.tied)),
          text("parallel.sequence_parallel=", on(at.sequence_parallel)),
          text("backend.precision=", at.precision)};
}

double relative(double value, double reference) {
  return std::abs(value - reference) / std::abs(reference);
}

double distance(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (const auto& [name, tensor] : b)
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const double difference = a.at(name).values[i] - tensor.values[i];
      sum += difference * difference;
    }
  return std::sqrt(sum);
}

Row compare(const SweepCase& at, const Trajectory& run, const Trajectory& reference) {
  Row row{.at = at};
  for (int s = 0; s < kSteps; ++s) row.loss = std::max(row.loss, relative(run.loss[s], reference.loss[s]));
  row.gradient_1 = relative_deviation(run.gradients.at(1), reference.gradients.at(1));
  row.zero_gradient = zero_deviation(run.gradients.at(1));
  row.gradient_10 = relative_deviation(run.gradients.at(kSteps), reference.gradients.at(kSteps));
  for (const auto& [step, gradients] : run.gradients)
    row.norm = std::max(row.norm, relative(run.grad_norm[step - 1], norm_of(gradients)));
  row.same_initial = run.initial == reference.initial;
  row.learned = run.loss.front() - run.loss.back();
  row.moved = distance(run.masters, run.initial) / norm_of(run.initial);
  return row;
}

}  // namespace

const std::vector<ModelCase>& models() {
  static const std::vector<ModelCase> table = {
      {.name = "narrow",
       .layers = 2,
       .hidden = 48,
       .heads = 12,
       .ffn = 96,
       .vocab = 50,
       .sequence = 24,
       .global = 48},
      {.name = "wide",
       .layers = 3,
       .hidden = 64,
       .heads = 8,
       .ffn = 256,
       .vocab = 256,
       .sequence = 32,
       .global = 16},
      {.name = "grouped",
       .layers = 2,
       .hidden = 64,
       .heads = 8,
       .ffn = 96,
       .vocab = 50,
       .sequence = 24,
       .global = 16,
       .family = "llama",
       .kv_heads = 2},
  };
  return table;
}

int SweepCase::micro() const {
  const int sequences = model->global / dp;
  for (int parts : {2, 3})
    if (sequences % parts == 0) return sequences / parts;
  return sequences;
}

std::string SweepCase::reference_key() const {
  return text(model->name, tied ? ", tied, " : ", untied, ", precision);
}

std::string SweepCase::describe() const {
  return text(reference_key(), ", dp=", dp, " tp=", tp,
              tp == 1             ? ""
              : sequence_parallel ? " sp on"
                                  : " sp off",
              ", ", model->global / dp / micro(), " x ", micro(), " sequences a rank");
}

std::vector<SweepCase> sweep_cases(const ModelCase& model, bool tied, const std::string& precision,
                                   int ranks) {
  std::vector<SweepCase> cases;
  for (int tp = 1; tp <= ranks; ++tp) {
    if (model.heads % tp != 0 || model.ffn % tp != 0) continue;
    for (int dp = 1; dp * tp <= ranks; ++dp) {
      if (model.global % dp != 0) continue;
      cases.push_back({&model, tied, precision, dp, tp, true});
      if (tp > 1) cases.push_back({&model, tied, precision, dp, tp, false});
    }
  }
  return cases;
}

Limits limits(const SweepCase& at) {
  if (at.precision == "fp64")
    return {.loss = 1e-12, .gradient_1 = 1e-11, .zero_gradient = 1e-14, .gradient_10 = 1e-10, .norm = 1e-12};
  if (at.precision == "fp32")
    return {.loss = 1e-6, .gradient_1 = 5e-6, .zero_gradient = 1e-7, .gradient_10 = 1e-4, .norm = 1e-6};
  constexpr double u = 1. / 512;  // half a unit in the last of 8 bits
  const double moved = u * (4 * at.model->layers + 2);
  return {.loss = u,
          .gradient_1 = at.tp == 1 ? 1e-4 : moved,
          .zero_gradient = 1e-4,
          .gradient_10 = 3 * moved,
          .norm = 1e-6};
}

Sweep::Sweep(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm, &rank_);
  for (const ModelCase& model : models())
    data_[model.name] =
        std::make_unique<TokenFileForTests>(comm, model.vocab, model.sequence * model.global * kSteps + 1);
}

Parameters Sweep::parameters(const SweepCase& at) const {
  return parameters_of(text_of(*at.model, data_.at(at.model->name)->path()), overrides_of(at));
}

void Sweep::make_reference(const SweepCase& at) {
  SweepCase one = at;
  one.dp = one.tp = 1;
  Parameters single = parameters(one);
  single.batch.micro = 2;  // other micro-batches than on any grid that is compared
  Trajectory& reference = references_[at.reference_key()];
  on_first_ranks(comm_, 1, [&](MPI_Comm part) { reference = run(single, part, kSteps, {1, kSteps}); });
}

Row Sweep::measure(const SweepCase& at) {
  Row row;
  if (!references_.contains(at.reference_key())) make_reference(at);
  on_first_ranks(comm_, at.ranks(), [&](MPI_Comm part) {
    const Trajectory trajectory = run(parameters(at), part, kSteps, {1, kSteps});
    if (rank_ == 0) row = compare(at, trajectory, references_.at(at.reference_key()));
  });
  return row;
}

void expect_parity(const Row& row) {
  SCOPED_TRACE(row.at.describe());
  const Limits limit = limits(row.at);
  EXPECT_LE(row.loss, limit.loss);
  EXPECT_LE(row.gradient_1.value, limit.gradient_1) << row.gradient_1.tensor;
  EXPECT_LE(row.zero_gradient.value, limit.zero_gradient) << row.zero_gradient.tensor;
  EXPECT_LE(row.gradient_10.value, limit.gradient_10) << row.gradient_10.tensor;
  EXPECT_LE(row.norm, limit.norm) << "the norm must count each logical parameter once";
  EXPECT_TRUE(row.same_initial) << "assembled weights before step 1 depend on the grid";
  // Gradients could hide behind masters that hardly move.
  EXPECT_GE(row.learned, 0.2);
  EXPECT_GE(row.moved, 0.02);
}

}  // namespace octachoron::parity
