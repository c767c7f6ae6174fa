#pragma once
/// ProgramBuilder: layers declare buffers and emit operations; schedules add calls; finish() derives the
/// waits.
#include <functional>
#include <map>

#include "core/plugin/device.h"
#include "core/plugin/recipe.h"
#include "core/program/program.h"

namespace octachoron {

/// What the program is built for.
struct Target {
  ProcessGrid grid;
  const Device* device = nullptr;  ///< asked for support and workspace; may be dry
  const Recipe* recipe = nullptr;  ///< answers for types and GEMM operands
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const Target& target) : target_(target) {}

  const Target& target() const { return target_; }
  const ProcessGrid& grid() const { return target_.grid; }
  DType type(oct_storage role) const { return target_.recipe->storage(role); }
  const std::string& buffer_name(const View& view) const { return program_.buffers[view.buffer].name; }

  /// The lane of that name, made at first use.
  int lane(const std::string& name);
  /// A new buffer that holds exactly one [rows, columns] matrix. \pre the name is new
  View matrix(const std::string& name, DType type, std::int64_t rows, std::int64_t columns,
              MemoryClass memory, Scope scope = Scope::slot);
  /// A matrix of activations of this name, with a number behind it where the name is taken.
  View temporary(const std::string& name, DType type, std::int64_t rows, std::int64_t columns,
                 MemoryClass memory = MemoryClass::activation);
  void set_persistent(const View& view) { program_.buffers[view.buffer].persistent = true; }
  void set_kept(const View& view) { program_.buffers[view.buffer].kept = true; }

  /// The following operations belong to it. \return its number, for call()
  int segment(const std::string& name);
  /// Appends a device operation, with workspace if the device asks for some.
  /// \throws Error(usage) if the device does not support it, with its reason
  void emit(Operation operation);

  /// Collectives over a group of one are left out: the result is then the input itself.
  View all_gather(const Peers& peers, int lane, const std::string& label, const View& from);
  View reduce_scatter(const Peers& peers, int lane, const std::string& label, const View& from);
  /// The same with a place for the result. \pre the group has more than one rank
  void collective(oct_op op, const Peers& peers, int lane, const std::string& label, const View& from,
                  const View& to);
  /// In place.
  void all_reduce(const Peers& peers, int lane, const std::string& label, const View& view,
                  oct_reduction reduction = OCT_SUM);

  /// Whether the device can run it.
  bool supports(const Operation& operation) const {
    return target_.device->query(describe_for_device(operation, {})).supported;
  }

  void set_slots(int slots, int micro_batches);
  void call(int segment, int slot = 0, int micro_batch = 0);

  /// Gives a device operation the workspace that the device asks for: for passes that change operations.
  /// \throws Error(usage) if the device does not support it, with its reason
  void add_workspace(Operation& operation);

  /// Runs the passes, then derives the waits. The builder is empty afterwards.
  StepProgram finish(const std::function<void(StepProgram&)>& passes = {});

 private:
  Target target_;
  StepProgram program_;
  std::map<std::string, int> names_;
  std::map<std::string, View> workspaces_;  // by lane: operations of one lane share it
};

}  // namespace octachoron
