#include "tests/trace/synthetic.h"

#include "core/base/error.h"
#include "tests/program/toy.h"

namespace octachoron::trace_test {

namespace {

std::vector<OperationRecord> records_of(const Expansion& expansion, const Times& times) {
  std::vector<OperationRecord> records;
  for (std::size_t i = 0; i < times.size(); ++i)
    records.push_back({&expansion.issues[i], times[i].begin_s / 1e3, times[i].end_s / 1e3});
  return records;
}

}  // namespace

Step::Step(StepProgram p) : program(std::move(p)), expansion(expand(program)) {}

Timeline Step::timeline(const Times& times, const std::vector<std::pair<int, Times>>& peers,
                        NetworkFacts network, double step_ms) const {
  const ProcessGrid grid{{2, 1, 2, 1}};
  AllBegins begins(4, communication_begins(program, expansion, records_of(expansion, times), 0));
  for (const auto& [rank, of_peer] : peers)
    begins[std::size_t(rank)] = communication_begins(program, expansion, records_of(expansion, of_peer), 0);
  return make_timeline({.program = &program,
                        .expansion = &expansion,
                        .grid = grid,
                        .rank = 0,
                        .network = network,
                        .step_s = step_ms / 1e3,
                        .clock_error_s = 0,
                        .intervals = {}},
                       records_of(expansion, times), 0, begins);
}

int Step::issue(const std::string& label) const {
  for (std::size_t i = 0; i < expansion.issues.size(); ++i)
    if (expansion.issues[i].operation->label == label) return int(i);
  fail(ExitStatus::internal, "no operation '", label, "'");
}

StepProgram pattern(Pattern pattern) {
  toy::Writer writer({"compute", "tp", "dp"});
  const View a = writer.persistent("a", 8, 8), b = writer.persistent("b", 8, 8);
  const View y = writer.buffer("y", 8, 8), all = writer.buffer("all", 16, 8), z = writer.buffer("z", 8, 8),
             u = writer.buffer("u", 8, 8);
  writer.call(writer.segment("pattern"));
  writer.operation(OCT_GEMM, 0, "first", {toy::in(a), toy::in(b), toy::out(y)});
  writer.communicate(OCT_ALL_GATHER, 1, "gather", {Axis::tp, "activation"}, y, all);
  const auto free = [&] {
    writer.operation(OCT_GEMM, 0, "free",
                     {toy::in(pattern == Pattern::dependent ? all : b), toy::in(b), toy::out(z)});
  };
  if (pattern != Pattern::wait_at_once) free();
  writer.operation(OCT_GEMM, 0, "consumer", {toy::in(all), toy::in(b), toy::out(u)});
  if (pattern == Pattern::wait_at_once) free();
  return writer.finish();
}

const Verdict& verdict_of(const Step& step, const std::vector<Verdict>& verdicts, const std::string& label) {
  for (const Verdict& verdict : verdicts)
    if (verdict.issue == step.issue(label)) return verdict;
  fail(ExitStatus::internal, "no verdict on '", label, "'");
}

}  // namespace octachoron::trace_test
