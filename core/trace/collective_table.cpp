#include "core/trace/collective_table.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "core/base/json.h"

namespace octachoron {

namespace {

template <class... Numbers>
std::string format(const char* pattern, Numbers... numbers) {
  char line[320];
  std::snprintf(line, sizeof line, pattern, numbers...);
  return line;
}

const char* column_name(int column) {
  return column == kMixed ? "mixed" : name(Axis(column));
}

// The contract's order of the axes, mixed last.
constexpr int kColumns[] = {int(Axis::tp), int(Axis::cp), int(Axis::pp), int(Axis::dp), kMixed};

struct Costs {  // of one row, by reason
  std::array<double, int(Reason::late_peer) + 1> seconds{};
  double worst = -1;
};

}  // namespace

std::vector<CollectiveRow> collective_table(const Timeline& timeline, const std::vector<Verdict>& verdicts) {
  std::vector<CollectiveRow> rows;
  std::vector<Costs> costs;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places;
  for (const Verdict& verdict : verdicts) {
    const Interval& interval = timeline.intervals[verdict.issue];
    const Operation& operation = timeline.operation(interval);
    CollectiveRow fresh;
    fresh.kind = name(operation.op), fresh.axes = to_string(interval.axes);
    fresh.label = without_layer(operation.label);
    const auto [found, added] = places.try_emplace({fresh.kind, fresh.axes, fresh.label}, rows.size());
    if (added) rows.push_back(fresh), costs.emplace_back();
    CollectiveRow& row = rows[found->second];
    Costs& cost = costs[found->second];
    ++row.count;
    row.bytes += message_view(operation).bytes();
    row.transfer_s += verdict.transfer_s, row.hidden_s += verdict.hidden_s;
    row.exposed_skew_s += verdict.exposed_skew_s;
    if (verdict.reason != Reason::hidden) cost.seconds[int(verdict.reason)] += verdict.cost_s();
    const auto most = std::max_element(cost.seconds.begin(), cost.seconds.end());
    if (*most > 0) row.reason = Reason(most - cost.seconds.begin());
  }
  for (const Verdict& verdict : verdicts) {  // the sentence is of the row's reason
    const Interval& interval = timeline.intervals[verdict.issue];
    const Operation& operation = timeline.operation(interval);
    const std::size_t place =
        places.at({name(operation.op), to_string(interval.axes), without_layer(operation.label)});
    if (verdict.reason != rows[place].reason || verdict.cost_s() <= costs[place].worst) continue;
    rows[place].why = verdict.why, costs[place].worst = verdict.cost_s();
  }
  return rows;
}

std::string accounting_text(const Accounting& a) {
  std::string axes;
  for (const int column : kColumns)
    if (a.exposed_by_axis[column] > 0)
      axes += format("%s%s %.3f", axes.empty() ? "" : ", ", column_name(column), a.exposed_by_axis[column]);
  return format(
      "step %.3f ms = compute %.3f + comm %.3f - overlap %.3f + idle %.3f; exposed %.3f%s; stall %.3f",
      a.step, a.compute, a.comm, a.overlap, a.idle, a.exposed,
      axes.empty() ? "" : (" (" + axes + ")").c_str(), a.stall);
}

std::string exposed_by_axis_json(const Accounting& accounting) {
  std::string out;
  for (const int column : kColumns)
    out += text(out.empty() ? "{" : ",", "\"", column_name(column),
                "\":", json_number(accounting.exposed_by_axis[column]));
  return out + "}";
}

std::string accounting_json(const Accounting& a) {
  return text("{\"step_ms\":", json_number(a.step), ",\"compute_ms\":", json_number(a.compute),
              ",\"comm_ms\":", json_number(a.comm), ",\"overlap_ms\":", json_number(a.overlap),
              ",\"exposed_ms\":", json_number(a.exposed), ",\"idle_ms\":", json_number(a.idle),
              ",\"exposed_ms_by_axis\":", exposed_by_axis_json(a), ",\"stall_ms\":", json_number(a.stall),
              "}");
}

std::string timeline_text(const Timeline& timeline, const std::vector<CollectiveRow>& rows) {
  std::string out = accounting_text(account(timeline.intervals, timeline.step_s)) + "\n";
  if (timeline.clock_error_s > 0)
    out += format("clocks of the ranks agree within %.3f ms\n", 1e3 * timeline.clock_error_s);
  if (rows.empty()) return out + "no communication\n";
  std::size_t width = 5;
  for (const CollectiveRow& row : rows) width = std::max(width, std::min<std::size_t>(row.label.size(), 60));
  const int label = int(width);
  out += format("  %-14s %-7s %-*s %5s %12s %10s %7s %10s  %s\n", "operation", "axes", label, "label",
                "count", "bytes", "time ms", "hidden", "skew ms", "reason");
  for (const CollectiveRow& row : rows) {
    const double share = row.transfer_s > 0 ? row.hidden_s / row.transfer_s : 1;
    out += format("  %-14s %-7s %-*s %5lld %12lld %10.3f %6.0f%% %10.3f  %s\n", row.kind.c_str(),
                  row.axes.c_str(), label, row.label.substr(0, 60).c_str(), static_cast<long long>(row.count),
                  static_cast<long long>(row.bytes), 1e3 * row.transfer_s, 100 * share,
                  1e3 * row.exposed_skew_s, name(row.reason));
    if (!row.why.empty()) out += "      " + row.why + "\n";
  }
  return out;
}

std::string table_json(const std::vector<CollectiveRow>& rows) {
  std::string out = "[";
  for (const CollectiveRow& row : rows)
    out +=
        text(out.size() > 1 ? ",\n" : "\n", "{\"operation\":", json_text(row.kind),
             ",\"axes\":", json_text(row.axes), ",\"label\":", json_text(row.label), ",\"count\":", row.count,
             ",\"bytes\":", row.bytes, ",\"time_ms\":", json_number(1e3 * row.transfer_s),
             ",\"hidden_ms\":", json_number(1e3 * row.hidden_s),
             ",\"skew_ms\":", json_number(1e3 * row.exposed_skew_s),
             ",\"reason\":", json_text(name(row.reason)), ",\"why\":", json_text(row.why), "}");
  return out + "]";
}

}  // namespace octachoron
