#include "core/trace/step_trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/json.h"
#include "core/trace/chrome.h"
#include "core/trace/clocks.h"
#include "core/trace/collective_table.h"

namespace octachoron {

namespace {

std::string summary_json(const Timeline& timeline, const Accounting& mean,
                         const std::vector<CollectiveRow>& rows, std::int64_t step) {
  return text("{\"step\":", step, ",\"clock_error_ms\":", json_number(1e3 * timeline.clock_error_s),
              ",\"mean\":", accounting_json(mean), ",\"collectives_of_rank_0\":", table_json(rows), "}");
}

}  // namespace

NetworkFacts network_facts(Backend& backend) {
  const bool is_host = backend.device().properties().is_host != 0;
  return {.concurrent = backend.communicator().is_concurrent(), .shares_cores = is_host, .own_clocks = !is_host};
}

StepTracer::StepTracer(const World& world, const ProcessGrid& grid, NetworkFacts network,
                       std::function<double()> clock)
    : world_(world), grid_(grid), network_(network), hosts_(world.hosts()), clock_(std::move(clock)) {}

Timeline StepTracer::timeline(const Executor& executor, std::span<const OperationRecord> records,
                              double step_s) const {
  const ClockOffset offset = clock_offset(world_, hosts_, !network_.own_clocks, clock_);
  Timeline timeline{.program = &executor.program(),
                    .expansion = &executor.expansion(),
                    .grid = grid_,
                    .rank = world_.rank(),
                    .network = network_,
                    .step_s = step_s - executor.observing_s(),
                    .clock_error_s = world_.maximum(offset.error_s),
                    .intervals = {},
                    .cost = [&executor](const Issue& issue) { return executor.cost(issue); }};
  const AllBegins begins = gather_begins(
      world_, communication_begins(*timeline.program, *timeline.expansion, records, offset.offset_s));
  return make_timeline(std::move(timeline), records, offset.offset_s, begins);
}

Accounting StepTracer::mean(const Timeline& timeline) const {
  const Accounting mine = account(timeline.intervals, timeline.step_s);
  std::vector<Accounting> all(std::size_t(world_.size()));
  world_.allgather(&mine, all.data(), sizeof mine);
  const auto mean_of = [&](auto value) {
    double sum = 0;
    for (const Accounting& each : all) sum += value(each);
    return sum / double(all.size());
  };
  Accounting mean;
  for (double Accounting::*field :
       {&Accounting::step, &Accounting::compute, &Accounting::comm, &Accounting::overlap, &Accounting::stall})
    mean.*field = mean_of([&](const Accounting& each) { return each.*field; });
  for (int c = 0; c <= kMixed; ++c)
    mean.exposed_by_axis[c] = mean_of([&](const Accounting& each) { return each.exposed_by_axis[c]; });
  mean.exposed = mean.comm - mean.overlap;
  mean.idle = mean.step - (mean.compute + mean.comm - mean.overlap);
  return mean;
}

StepTracer::Written StepTracer::write(const std::string& folder, std::int64_t step,
                                      const Timeline& timeline) const {
  double origin_s = timeline.intervals.empty() ? 0 : timeline.intervals.front().entered_s;
  for (const Interval& interval : timeline.intervals) origin_s = std::min(origin_s, interval.entered_s);
  origin_s = -world_.maximum(-origin_s);
  const std::vector<Verdict> verdicts = judge(timeline);
  const std::vector<CollectiveRow> rows = collective_table(timeline, verdicts);
  const Accounting means = mean(timeline);

  Written written{
      .path = text(folder, "/step-", step, ".json"), .text = timeline_text(timeline, rows), .problem = ""};
  std::ofstream file;
  if (world_.rank() == 0) {
    std::error_code ignored;  // opening the file says what is wrong
    std::filesystem::create_directories(folder, ignored);
    errno = 0;
    file.open(written.path);
    file << chrome_begin();
  }
  // Piece by piece: all ranks at once might not fit one rank's memory.
  world_.collect(chrome_events(timeline, verdicts, origin_s),
                 [&](int rank, const std::string& events) { file << (rank > 0 ? ",\n" : "") << events; });
  if (world_.rank() == 0 && !(file << chrome_end(summary_json(timeline, means, rows, step)) << std::flush))
    written.problem = errno == 0 ? "the file cannot be written" : std::strerror(errno);
  return written;
}

}  // namespace octachoron
