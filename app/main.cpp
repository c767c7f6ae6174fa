#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "app/commands.h"
#include "app/launcher.h"
#include "app/stop_signal.h"
#include "core/checkpoint/inspect.h"
#include "core/data/data_info.h"
#include "core/data/import.h"

namespace octachoron {
namespace {

ExitStatus print(const Inspection& inspection) {
  std::fputs(inspection.text.c_str(), stdout);
  return inspection.status;
}

ExitStatus print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return ExitStatus::done;
}

ExitStatus verify(const std::vector<std::string>& files) {
  ExitStatus status = ExitStatus::done;
  for (const std::string& file : files)
    if (print(verify_checkpoint(file)) != ExitStatus::done) status = ExitStatus::data;
  return status;
}

ExitStatus run(const CommandLine& line) {
  const auto& arguments = line.positional;
  if (line.command == "train") return run_train(line);
  if (line.command == "compare") return run_compare(line);
  if (line.command == "evaluate") return run_evaluate(line);
  if (line.command == "plan") return run_plan(line);
  if (line.command == "doctor") return run_doctor();
  if (line.command == "data info") return print(data_info(arguments, "auto", line.sequence));
  if (line.command == "data import")
    return print(import_data(arguments, {line.from, line.vocab, line.separator, line.output}));
  if (line.command == "checkpoint list") return print(list_checkpoints(arguments.front()));
  if (line.command == "checkpoint show") return print(show_checkpoint(arguments.front()));
  if (line.command == "checkpoint verify") return verify(arguments);
  if (line.command == "checkpoint diff") return print(diff_checkpoints(arguments[0], arguments[1]));
  fail(ExitStatus::internal, "no such command: ", line.command);
}

// OpenMP threads that wait would spin for milliseconds, and ranks share cores: let them sleep soon. libgomp
// reads this when a plugin brings it, and the user's own setting wins.
void let_waiting_threads_sleep() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "2000", 0);
}

// An answer that did not get out is no answer: a full disk, a closed pipe.
ExitStatus flushed(ExitStatus status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  fail(ExitStatus::environment, "standard output cannot be written (", std::strerror(errno),
       "); free space or send it elsewhere");
}

// All ranks of a launch read the same command line: one speaks.
bool is_first_rank() {
  const auto found = launcher();
  return !found || found->rank == 0;
}

int end(ExitStatus status) {
  if (status != ExitStatus::done && !is_first_rank()) let_first_rank_speak();
  return int(status);
}

int report(const char* problem, ExitStatus status) {
  if (is_first_rank()) std::fprintf(stderr, "octachoron: %s\n", problem);
  return end(status);
}

}  // namespace
}  // namespace octachoron

int main(int argc, char** argv) {
  using namespace octachoron;
  const bool trains = argc > 1 && std::strcmp(argv[1], "train") == 0;
  if (trains) catch_stop_signals();  // other commands end at once, as any program does
  report_full_disks();
  let_waiting_threads_sleep();
  try {
    const CommandLine line = parse_command_line(argc, argv);
    std::ostream silence(nullptr);
    if (const auto status = is_first_rank() ? answer_without_work(line, std::cout, std::cerr)
                                            : answer_without_work(line, silence, silence))
      return end(flushed(*status));
    const ExitStatus status = run(line);
    return int(line.command == "train" ? status : flushed(status));  // a run is more than what it prints
  } catch (const Error& error) {
    return report(error.what(), error.status());
  } catch (const std::exception& error) {
    return report(error.what(), ExitStatus::internal);
  }
}
