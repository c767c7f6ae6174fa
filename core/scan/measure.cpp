#include "core/scan/measure.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <tuple>

#include "core/base/error.h"
#include "core/data/sample_order.h"
#include "core/parallel/together.h"
#include "core/trace/reasons.h"
#include "core/trace/step_trace.h"
#include "core/train/agreed_programs.h"
#include "core/train/learning_rate.h"
#include "core/train/session.h"

namespace octachoron {

namespace {

constexpr int kFirstKind = int(OCT_ALL_GATHER);
constexpr int kKinds = int(OCT_OPS_END) - kFirstKind;
constexpr int kAxisSets = 1 << kAxes;

struct Sums {
  double count = 0, bytes = 0, time_ms = 0, hidden_ms = 0;
};
// What one rank tells of a step: of one size, so that ranks of different programs may tell it.
struct RankStep {
  double gemm_ms = 0, skew_ms = 0;
  Sums collectives[kKinds][kAxisSets];
};

RankStep summarize(const Timeline& timeline) {
  RankStep mine;
  std::vector<Span> gemms, skews, busy;
  for (const Interval& interval : timeline.intervals) {
    if (interval.kind == WorkKind::gemm) gemms.push_back(interval.span());
    if (interval.kind == WorkKind::communication) skews.push_back(interval.skew());
    if (interval.kind != WorkKind::host_copy) busy.push_back(interval.span());
  }
  mine.gemm_ms = 1e3 * union_length(gemms);
  mine.skew_ms = 1e3 * length(difference(merged(skews), merged(busy)));
  for (const Verdict& verdict : judge(timeline)) {
    const Interval& interval = timeline.intervals[std::size_t(verdict.issue)];
    const Operation& operation = timeline.operation(interval);
    Sums& sums = mine.collectives[int(operation.op) - kFirstKind][interval.axes.bits];
    sums.count += 1, sums.bytes += double(message_view(operation).bytes());
    sums.time_ms += 1e3 * verdict.transfer_s, sums.hidden_ms += 1e3 * verdict.hidden_s;
  }
  return mine;
}

std::vector<CollectiveSum> mean_collectives(const std::vector<RankStep>& ranks) {
  std::vector<CollectiveSum> rows;
  for (int kind = 0; kind < kKinds; ++kind)
    for (int axes = 0; axes < kAxisSets; ++axes) {
      AxisSet set;
      set.bits = std::uint8_t(axes);
      CollectiveSum row{.kind = name(oct_op(kFirstKind + kind)), .axes = to_string(set)};
      for (const RankStep& rank : ranks) {
        const Sums& sums = rank.collectives[kind][axes];
        const double share = 1 / double(ranks.size());
        row.count += share * sums.count, row.bytes += share * sums.bytes;
        row.time_ms += share * sums.time_ms, row.hidden_ms += share * sums.hidden_ms;
      }
      if (row.count > 0 && axes != 0) rows.push_back(row);  // a group of one rank sends nothing
    }
  return rows;
}

GemmRow gemm_row(const Operation& operation) {
  const View &a = operation.operands[0].view, &b = operation.operands[1].view;
  const bool transpose_a = operation.i[0] != 0, transpose_b = operation.i[1] != 0;
  return {.label = without_layer(operation.label),
          .formats = text(name(a.dtype), " x ", name(b.dtype)),
          .m = transpose_a ? a.columns : a.rows,
          .n = transpose_b ? b.rows : b.columns,
          .k = transpose_a ? a.rows : a.columns};
}

std::vector<GemmRow> gemm_rows(const Timeline& timeline) {
  std::vector<GemmRow> rows;
  std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::int64_t>, std::size_t>
      places;
  for (const Interval& interval : timeline.intervals) {
    const Operation& operation = timeline.operation(interval);
    if (operation.op != OCT_GEMM) continue;
    const GemmRow fresh = gemm_row(operation);
    const auto [found, added] =
        places.try_emplace({fresh.label, fresh.formats, fresh.m, fresh.n, fresh.k}, rows.size());
    if (added) rows.push_back(fresh);
    GemmRow& row = rows[found->second];
    ++row.count, row.time_ms += 1e3 * interval.span().length();
  }
  return rows;
}

// What lives as long as transfers may be in flight.
class Meter {
 public:
  Meter(const Parameters& parameters, const World& world)
      : parameters_(parameters),
        world_(world),
        data_(together(world,
                       [&] {
                         return std::make_unique<TokenData>(parameters.data.train, parameters.data.format,
                                                            parameters.model.sequence, parameters.model.vocab,
                                                            ScanShare{world.rank(), world.size()});
                       })),
        backend_(parameters, world),
        session_(parameters, world, backend_),
        tracer_(world, session_.grid(), network_facts(backend_),
                [this] { return session_.device_clock(); }),
        order_(data_->samples(), parameters.run.seed),
        shape_{parameters.batch.global, parameters.batch.micro, parameters.grid.dp,
               session_.grid().coordinate(world.rank())[int(Axis::dp)]} {}

  Observations run(int steps) {
    agree_on_data(*data_, nullptr, world_);
    describe_passes(*data_, 0, steps + 1, parameters_.batch.global, parameters_.data.repeat);
    session_.initialise();
    Observations seen{.grid = session_.grid(),
                      .cores = cores(),
                      .tokens = parameters_.batch.global * parameters_.model.sequence,
                      .steps = {}};
    look_at_step(1);  // pages, caches and calibrations of the first step are no part of the others
    for (int step = 2; step <= steps + 1; ++step) seen.steps.push_back(look_at_step(step));
    return seen;
  }

  void abandon() { backend_.communicator().abort(); }

 private:
  bool is_host() { return backend_.device().properties().is_host != 0; }

  Cores cores() {
    const int of_node = is_host() ? int(std::thread::hardware_concurrency()) : 0;
    const int ranks = int(world_.maximum(std::int64_t(world_.local_size())));
    return {.of_node = of_node, .ranks_of_node = ranks, .threads = backend_.threads()};
  }

  ObservedStep look_at_step(std::int64_t step) {
    const auto begin = std::chrono::steady_clock::now();
    training_batch(*data_, order_, shape_, (step - 1) * parameters_.batch.global, batch_);
    std::span<const OperationRecord> records;
    const StepResult result =
        session_.step_observed(batch_, learning_rate(parameters_.optimizer, step), step, records);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!result.finite)
      fail(ExitStatus::diverged, "step ", step, " of ", to_string(session_.grid()), " is not finite (loss ",
           result.loss, ", gradient norm ", result.grad_norm, "); find the origin with train --check");
    const Timeline timeline = tracer_.timeline(session_.training(), records, seconds);
    return means(timeline);
  }

  ObservedStep means(const Timeline& timeline) const {
    const RankStep mine = summarize(timeline);
    std::vector<RankStep> all(std::size_t(world_.size()));
    world_.allgather(&mine, all.data(), sizeof mine);
    ObservedStep seen{.split = {.total = tracer_.mean(timeline)},
                      .collectives = mean_collectives(all),
                      .gemms = gemm_rows(timeline)};
    for (const RankStep& rank : all) {
      seen.split.gemm_ms += rank.gemm_ms / double(all.size());
      seen.split.skew_ms += rank.skew_ms / double(all.size());
    }
    return seen;
  }

  const Parameters& parameters_;
  const World& world_;
  std::unique_ptr<TokenData> data_;
  Backend backend_;
  TrainingSession session_;
  StepTracer tracer_;
  SampleOrder order_;
  BatchShape shape_;
  RankBatch batch_;
};

}  // namespace

Observations measure_degree(const Parameters& parameters, const World& world, int steps) {
  agree_on_parameters(parameters, false, world);
  auto meter = std::make_unique<Meter>(parameters, world);
  try {
    return meter->run(steps);
  } catch (...) {
    // Transfers to and from peers may still be in flight: they are ended, and what they point to stays until
    // the process ends, which is next.
    meter->abandon();
    (void)meter.release();
    throw;
  }
}

}  // namespace octachoron
