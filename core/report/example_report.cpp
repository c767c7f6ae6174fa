#include "core/report/example_report.h"

#include "core/base/text.h"
#include "core/program/verify.h"
#include "core/report/tables.h"
#include "core/schedule/windows.h"

namespace octachoron {

namespace {

std::string quoted(const Expansion& expansion, const std::vector<int>& issues, const char* mark) {
  std::string result;
  for (const int issue : issues)
    result += text(result.empty() ? "" : ", ", mark, expansion.issues[issue].operation->label, mark);
  return result;
}

template <class Function>
void for_each_window(const StepProgram& program, const Expansion& expansion, Function function) {
  const std::vector<Clock> clocks = happens_before(expansion);
  for (int i = 0; i < int(expansion.issues.size()); ++i)
    if (is_communication(expansion.issues[i].operation->op))
      function(*expansion.issues[i].operation, overlap_window(program, expansion, clocks, i));
}

}  // namespace

ExampleReport plan_example(const Parameters& parameters, const Target& target) {
  ExampleReport report;
  report.grid = target.grid;
  report.planned.program = build_example(parameters, target);
  report.planned.plan = plan_memory(report.planned.program);
  const Role role{"example", &report.planned.program};
  report.problems = verify_memory(role, report.planned.plan.placement);
  for (const Queues queues : {Queues::serial, Queues::chained, Queues::lanes}) {
    const OrderReport order = verify_order(
        target.grid, {role}, [](const Coordinate&) { return 0; }, queues);
    report.problems.insert(report.problems.end(), order.problems.begin(), order.problems.end());
  }
  return report;
}

std::string windows_text(const StepProgram& program) {
  std::string out;
  const Expansion expansion = expand(program);
  for_each_window(program, expansion, [&](const Operation& operation, const OverlapWindow& window) {
    out += text("  ", name(operation.op), " '", operation.label, "': ");
    const std::vector<int> free = free_computation(program, expansion, window);
    out += free.empty() ? "nothing is independent before"
                        : quoted(expansion, free, "'") + " may run beside it, before";
    out += window.consumer < 0
               ? " the end of the step"
               : text(" '", expansion.issues[window.consumer].operation->label, "' waits for it");
    const std::vector<int> movable = movable_computation(program, expansion, window);
    if (!movable.empty())
      out += text("; ", quoted(expansion, movable, "'"),
                  " behind the wait would be independent: the wait is too early");
    out += "\n";
  });
  return out.empty() ? "  no communication\n" : out;
}

std::string example_text(const ExampleReport& report) {
  std::string out = text("grid: ", to_string(report.grid), ", ", report.grid.size(),
                         " ranks\nmemory of a rank: ", size_text(double(report.planned.plan.arena_bytes)),
                         "\nwindows of communication:\n", windows_text(report.planned.program));
  if (report.problems.empty()) return out + "verified: free of races and deadlocks on the whole grid\n";
  out += "NOT verified:\n";
  for (const std::string& problem : report.problems) out += "  " + problem + "\n";
  return out;
}

std::string example_json(const ExampleReport& report) {
  std::string windows;
  const StepProgram& program = report.planned.program;
  const Expansion expansion = expand(program);
  for_each_window(program, expansion, [&](const Operation& operation, const OverlapWindow& window) {
    const std::string consumer =
        window.consumer < 0 ? "null" : text('"', expansion.issues[window.consumer].operation->label, '"');
    windows +=
        text(windows.empty() ? "" : ",", "{\"operation\":\"", name(operation.op), "\",\"label\":\"",
             operation.label, "\",\"consumer\":", consumer, ",\"independent\":[",
             quoted(expansion, free_computation(program, expansion, window), "\""), "],\"behind_the_wait\":[",
             quoted(expansion, movable_computation(program, expansion, window), "\""), "]}");
  });
  return text("{\"ranks\":", report.grid.size(), ",\"arena_bytes\":", report.planned.plan.arena_bytes,
              ",\"windows\":[", windows, "],\"verified\":", report.problems.empty() ? "true" : "false",
              "}\n");
}

}  // namespace octachoron
