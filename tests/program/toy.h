#pragma once
/// Programs to test on: by hand, at random, and the step of a small model on a grid of ranks.
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/program/memory.h"
#include "core/program/program.h"
#include "core/program/verify.h"
#include "core/program/waits.h"

namespace octachoron::toy {

/// Writes a program down operation by operation; waits come from finish() or from the test itself.
class Writer {
 public:
  explicit Writer(std::vector<std::string> lanes);

  View buffer(const std::string& name, std::int64_t rows, std::int64_t columns, DType dtype = OCT_U8,
              Scope scope = Scope::slot, MemoryClass memory = MemoryClass::activation);
  View persistent(const std::string& name, std::int64_t rows, std::int64_t columns, DType dtype = OCT_U8);
  Buffer& last_buffer() { return program.buffers.back(); }

  int segment(const std::string& name);
  Operation& operation(oct_op op, int lane, const std::string& label, std::vector<Operand> operands);
  Operation& communicate(oct_op op, int lane, const std::string& label, Peers peers, View in, View out);
  void call(int segment, int slot = 0, int micro_batch = 0);
  /// Adds a wait of the last segment.
  void wait(int consumer, int producer);
  StepProgram finish();  ///< with derived waits

  StepProgram program;
};

inline Operand in(View view) {
  return {view, Access::read};
}
inline Operand out(View view) {
  return {view, Access::write};
}
inline Operand update(View view) {
  return {view, Access::update};
}

/// Every instance at an address of its own; host buffers count from 0 again.
Placement place_apart(const StepProgram& program);

/// The waits of the program, one by one: calls test(name) with each removed, and puts it back.
void without_each_wait(StepProgram& program, const std::function<void(const Wait&, const Call*)>& test);

/// Pairs of operations that touch the same byte, one of them writing, without a path from one to the other:
/// the question that verify_memory answers, byte by byte and path by path.
int races_by_search(const StepProgram& program);

struct RandomShape {
  bool persistent = false;  ///< then every byte counts as written before
  bool one_pitch = true;    ///< all strided views of a buffer have its pitch
  int operations = 12, calls = 4;
};
StepProgram random_program(std::mt19937& random, const RandomShape& shape);

struct ModelShape {
  int layers = 2, micro_batches = 2;
  std::int64_t tokens = 8, hidden = 16;  ///< tokens of one tp rank
  int tp = 2, dp = 2, stages = 1;
  bool receive_first = true, one_pp_lane = false, gpipe = false;
};
/// The step of one pipeline stage: tensor-parallel layers, 1F1B, sharded optimiser over dp.
StepProgram model_step(const ModelShape& shape, int stage);

struct Pipeline {  // the programs of all stages, as roles
  explicit Pipeline(const ModelShape& shape);
  OrderReport order(Queues queues, bool use_symmetry = true) const;
  ProcessGrid grid;
  std::vector<StepProgram> programs;
  std::vector<Role> roles;
};

bool contains(const std::vector<std::string>& problems, const std::string& part);

}  // namespace octachoron::toy
