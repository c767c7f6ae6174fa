#include "core/config/constraints.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/checked.h"
#include "core/config/values.h"

namespace octachoron {

namespace {

template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(ExitStatus::usage, parts...);
}

/// Numbers from 1 to a size no grid exceeds that are legal, "1, 2, 4".
template <class IsLegal>
std::string legal_numbers(std::int64_t most, IsLegal is_legal) {
  std::vector<std::int64_t> result;
  for (std::int64_t candidate = 1; candidate <= std::min<std::int64_t>(most, 4096); ++candidate)
    if (is_legal(candidate)) result.push_back(candidate);
  return format_integers(result, ", ");
}

bool is_head_width(std::int64_t width) {
  return width >= 2 && width <= 256 && width % 2 == 0;
}

bool suits_tensor_group(std::int64_t kv_heads, std::int64_t tp) {
  return kv_heads % tp == 0 || tp % kv_heads == 0;
}

/// The multiples of `unit` around `value`, "96 or 128".
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  std::string result = below > 0 ? text(below) : "";
  if (below <= std::numeric_limits<std::int64_t>::max() - unit)
    result += text(result.empty() ? "" : " or ", below + unit);
  return result;
}

void check_grid(const GridParameters& grid, int ranks) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  std::int64_t product = 1;
  for (int size : {grid.dp, grid.tp, grid.pp, grid.cp}) product = product > most ? product : product * size;
  const std::string factors = text(grid.dp, " x ", grid.tp, " x ", grid.pp, " x ", grid.cp);
  require(product <= most, "grid.dp x tp x pp x cp = ", factors, " is more than ", most,
          " (the most ranks there can be); choose a smaller grid");
  require(ranks == 0 || product == ranks, "grid.dp x tp x pp x cp = ", factors, " = ", product,
          " but the launch has ", ranks, ranks == 1 ? " rank" : " ranks", " (the two must be equal); start ",
          product, product == 1 ? " rank" : " ranks", " or change the grid");
}

void check_head_width(const ModelParameters& model, std::int64_t tp) {
  if (model.head_dim > 0) return;
  const std::string heads = legal_numbers(model.hidden, [&](std::int64_t count) {
    return model.hidden % count == 0 && is_head_width(model.hidden / count) && count % tp == 0;
  });
  const std::string advice =
      heads.empty() ? "give model.head_dim" : text("choose heads among ", heads, " or give model.head_dim");
  require(model.hidden % model.heads == 0, "model.hidden = ", model.hidden,
          " is not a multiple of model.heads = ", model.heads,
          " (model.head_dim is hidden / heads unless given); ", advice);
  fail(ExitStatus::usage, "model.hidden / model.heads = ", model.hidden, " / ", model.heads, " = ",
       model.hidden / model.heads, " is no legal model.head_dim (even, 2 .. 256); ", advice);
}

void check_heads(const ModelParameters& model, std::int64_t tp) {
  const std::int64_t heads = model.heads, kv_heads = model.kv_heads;
  check_head_width(model, tp);
  require(heads % tp == 0, "model.heads = ", heads, " cannot be split over grid.tp = ", tp, " (", tp,
          " does not divide ", heads, "); choose grid.tp among ",
          legal_numbers(heads, [&](auto size) { return heads % size == 0; }));
  require(
      heads % kv_heads == 0, "model.kv_heads = ", kv_heads, " does not divide model.heads = ", heads,
      " (each key head serves the same number of query heads); choose kv_heads among ",
      legal_numbers(heads, [&](auto count) { return heads % count == 0 && suits_tensor_group(count, tp); }));
  require(suits_tensor_group(kv_heads, tp), "model.kv_heads = ", kv_heads,
          " cannot be shared out over grid.tp = ", tp, " (one must divide the other); choose grid.tp among ",
          legal_numbers(heads,
                        [&](auto size) { return heads % size == 0 && suits_tensor_group(kv_heads, size); }),
          " or kv_heads among ", legal_numbers(heads, [&](auto count) {
            return heads % count == 0 && suits_tensor_group(count, tp);
          }));
}

void check_model(const ModelParameters& model, const GridParameters& grid) {
  check_heads(model, grid.tp);
  require(model.ffn % grid.tp == 0, "model.ffn = ", model.ffn, " cannot be split over grid.tp = ", grid.tp,
          " (it must be a multiple); choose ffn = ", nearest_multiples(model.ffn, grid.tp));
  require(model.vocab > 0,
          "model.vocab is missing (the training data does not say it); give the number of ids, ",
          "256 for text");
  if (model.family == ModelFamily::gpt2) {
    require(model.rope_theta == 0, "model.rope_theta = ", model.rope_theta,
            " has no meaning for model.family = gpt2 (its positions are learned, not rotary); remove it");
    require(model.qkv_bias,
            "model.qkv_bias = off is refused for model.family = gpt2 (its layers have biases); remove it");
  }
}

void check_pipeline(const Parameters& p) {
  const GridParameters& grid = p.grid;
  const std::int64_t layers = p.model.layers;
  require(grid.pp <= layers, "grid.pp = ", grid.pp, " is more than model.layers = ", layers,
          " (each stage needs a layer); choose grid.pp from 1 to ", layers);
  if (grid.virtual_stages > 1) {
    require(grid.pp > 1 && p.parallel.schedule == ScheduleKind::interleaved,
            "grid.virtual_stages = ", grid.virtual_stages,
            " needs grid.pp > 1 and parallel.schedule = interleaved (grid.pp is ", grid.pp,
            "); set both or virtual_stages = 1");
    require(grid.virtual_stages <= layers / grid.pp, "grid.virtual_stages = ", grid.virtual_stages,
            " leaves chunks without a layer (", layers, " layers, ", grid.pp, " stages); choose at most ",
            layers / grid.pp);
  }
  const std::vector<std::int64_t>& stages = p.parallel.stage_layers;
  if (stages.empty()) return;
  const std::int64_t chunks = std::int64_t(grid.pp) * grid.virtual_stages;
  require(std::int64_t(stages.size()) == chunks, "parallel.stage_layers has ", stages.size(), " entries for ",
          grid.pp, " x ", grid.virtual_stages, " = ", chunks,
          " chunks (grid.pp x grid.virtual_stages); give ", chunks, chunks == 1 ? " entry" : " entries");
  std::int64_t sum = 0;
  for (std::int64_t count : stages)
    require(!__builtin_add_overflow(sum, count, &sum),
            "the sum of parallel.stage_layers does not fit 64 bits; ", "choose entries whose sum is ",
            layers);
  require(sum == layers, "parallel.stage_layers = ", format_integers(stages), " owns ", sum,
          " of model.layers = ", layers,
          " (each layer must be owned exactly once); choose entries whose sum is ", layers);
}

void check_tokens(const Parameters& p) {
  const std::int64_t sequence = p.model.sequence, cp = p.grid.cp, tp = p.grid.tp;
  require(cp == 1 || sequence % (2 * cp) == 0, "model.sequence = ", sequence,
          " cannot be split over grid.cp = ", cp, " (each rank holds two of 2 x ", cp, " = ", 2 * cp,
          " equal chunks); choose sequence = ", nearest_multiples(sequence, 2 * cp));
  if (!p.parallel.sequence_parallel || tp == 1) return;
  const std::int64_t local = sequence / cp, tokens = checked_product(p.batch.micro, local);
  const std::int64_t unit = tp / std::gcd<std::int64_t>(p.batch.micro, tp);  // of the local sequence
  require(tokens % tp == 0, "the ", p.batch.micro, " x ", local, " = ", tokens,
          " tokens of a micro-batch cannot be split over grid.tp = ", tp,
          " (parallel.sequence_parallel is on); choose model.sequence = ",
          nearest_multiples(sequence, checked_product(cp > 1 ? std::lcm<std::int64_t>(unit, 2) : unit, cp)),
          ", another batch.micro, or sequence_parallel = off");
}

void check_batch(const BatchParameters& batch, const GridParameters& grid) {
  const std::int64_t unit = checked_product(batch.micro, grid.dp);
  require(
      batch.global % unit == 0, "batch.global = ", batch.global,
      " is not a multiple of batch.micro x grid.dp = ", batch.micro, " x ", grid.dp, " = ", unit,
      " (all ranks run equal micro-batches); choose batch.global = ", nearest_multiples(batch.global, unit));
}

void check_optimizer(const OptimizerParameters& optimizer) {
  require(optimizer.min_learning_rate <= optimizer.learning_rate,
          "optimizer.min_learning_rate = ", format_real(optimizer.min_learning_rate),
          " is above optimizer.learning_rate = ", format_real(optimizer.learning_rate),
          " (the rate decays to it); choose a smaller minimum");
  require(optimizer.warmup <= optimizer.decay_steps, "optimizer.warmup = ", optimizer.warmup,
          " is more than optimizer.decay_steps = ", optimizer.decay_steps,
          " (decay_steps is run.steps unless given, and counts the warm-up); choose warmup from 0 to ",
          optimizer.decay_steps, " or a larger decay_steps");
}

/// Products that later shape arithmetic forms: they must fit 64 bits with room for bytes.
void check_sizes(const Parameters& p) {
  const ModelParameters& model = p.model;
  constexpr std::int64_t bytes = 16;  // weight, master, two moments
  const std::int64_t attention = checked_product(checked_product(model.heads, model.head_dim), 3);
  const std::int64_t widest = std::max({attention, checked_product(2, model.ffn), model.hidden});
  const std::int64_t layer =
      checked_product(checked_product(model.hidden, widest), 4);  // bound of its four matrices
  checked_product(checked_product(layer, model.layers), bytes);
  checked_product(checked_product(std::max(model.vocab, model.sequence), model.hidden), bytes);
  const std::int64_t tokens = checked_product(p.batch.global, model.sequence);
  checked_product(checked_product(tokens, std::max(widest, model.vocab)), bytes);
  checked_product(tokens, std::max<std::int64_t>(1, p.run.steps));
}

void check_precision(const PrecisionParameters& precision, std::int64_t layers) {
  const std::int64_t first = precision.high_precision_first, last = precision.high_precision_last;
  require(first <= layers && last <= layers - first,
          "precision.high_precision_first + high_precision_last = ", first, " + ", last,
          " is more than model.layers = ", layers,
          " (a layer is counted once); choose numbers whose sum is at most ", layers);
}

void check_example(const Parameters& p) {
  if (p.example.pattern == ExamplePattern::none) return;
  const GridParameters& grid = p.grid;
  require(grid.tp > 1 && grid.dp == 1 && grid.pp == 1 && grid.cp == 1,
          "example.pattern needs a grid of tp alone (it is dp=", grid.dp, " tp=", grid.tp, " pp=", grid.pp,
          " cp=", grid.cp, ", and its all-gather goes over tp); choose grid.tp >= 2 and 1 for the others");
  require(p.model.hidden % grid.tp == 0, "model.hidden = ", p.model.hidden,
          " cannot be split over grid.tp = ", grid.tp,
          " (each rank of example.pattern holds an equal part of the linear); choose hidden = ",
          nearest_multiples(p.model.hidden, grid.tp));
}

}  // namespace

void check_constraints(const Parameters& parameters, int ranks) {
  ensure(parameters.model.kv_heads > 0 && parameters.model.ffn > 0 && parameters.optimizer.decay_steps > 0,
         "parameters are checked before their defaults are resolved (finalize() was not called)");
  check_grid(parameters.grid, ranks);
  check_model(parameters.model, parameters.grid);
  check_pipeline(parameters);
  check_tokens(parameters);
  check_batch(parameters.batch, parameters.grid);
  check_optimizer(parameters.optimizer);
  check_precision(parameters.precision, parameters.model.layers);
  check_sizes(parameters);
  check_example(parameters);
}

}  // namespace octachoron
