#pragma once
/// Executes a step program: binds it once to a device, a network and an arena, then runs it again and again
/// without allocating. The only place that knows lanes, events and plugins together.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/engine/arena.h"
#include "core/engine/groups.h"
#include "core/plugin/comm.h"
#include "core/plugin/device.h"
#include "core/program/memory.h"

namespace octachoron {

/// The lanes of all programs of a run, by name.
class LaneSet {
 public:
  explicit LaneSet(Device& device) : device_(device) {}
  oct_lane* get(const Lane& lane);  ///< made at first use

 private:
  Device& device_;
  std::map<std::string, DeviceLane> lanes_;
};

/// What programs are executed on.
struct ExecutionContext {
  Device& device;
  Communicator& communicator;
  GroupTable& groups;
  LaneSet& lanes;
  Arena& arena;
  ProcessGrid grid;
  int rank = 0;
  bool graphs = false;  ///< programs may be captured and launched as a whole, where device and network can
};

/// Gets one record per operation of an observed step, after it: the hook of the timeline.
struct OperationRecord {
  const Issue* issue = nullptr;
  double begin_s = 0, end_s = 0;  ///< the device's clock, comparable between the ranks of a node
};

/// What the device says of an operation, however long it takes.
struct OperationCost {
  double flops = 0, bytes = 0;  ///< arithmetic, memory traffic
};

class Executor {
 public:
  /// Collective over the grid where the program needs new groups. Program and plan must outlive the executor.
  Executor(const StepProgram& program, const MemoryPlan& plan, const ExecutionContext& context);

  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const StepProgram& program() const { return program_; }
  const Expansion& expansion() const { return expansion_; }

  /// Enqueues the program, the second time and later as one graph where that is possible, and waits for its end. \throws Error of whatever went wrong while it ran; then
  /// communication is aborted and no lane of the device runs any more
  void run();
  /// The same, keeping begin and end of every operation.
  std::span<const OperationRecord> run_observed();
  /// Host time for which the last observed run began to record and collected times: no part of a step.
  double observing_s() const { return observing_s_; }
  /// Of device operations; of communication nothing.
  OperationCost cost(const Issue& issue) const;
  /// Operation by operation; `inspect` is called after each. The slow way: --check and tests.
  void run_stepwise(const std::function<void(const Issue&)>& inspect);

  /// Whether the host may use addresses of the view's buffer.
  bool is_host_readable(const View& view) const;
  /// Where a view lies for a call, or for the first instance of its buffer. \pre is_host_readable
  std::byte* address(const View& view, const Call& call) const;
  std::byte* address(const View& view, int instance = 0) const;
  /// Copies the bytes from the first element of a view to its last, pitch and all. Wherever the buffer lies, while no
  /// lane runs.
  void read(const View& view, int instance, void* to) const;
  void write(const View& view, int instance, const void* from) const;
  void clear(const View& view) const;  ///< the first instance, to zero. \pre contiguous
  /// The same bytes as the host may read them: in place, or copied to `storage`.
  const std::byte* look(const View& view, const Call& call, std::vector<std::byte>& storage) const;
  /// The whole buffer of that name; nothing if the program has none.
  std::optional<View> find(const std::string& buffer) const;

  /// Makes each lane sleep at random before its operations, up to `longest_us`; 0: never. For tests: no bit
  /// may change.
  void set_delays(unsigned seed, int longest_us);
  /// Called while a step does not end: after `after_s` seconds, then each time after twice as long.
  /// \param description which messages are waited for, and for whom; empty if for none
  using Watchdog = std::function<void(const std::string& description, double seconds)>;
  void set_watchdog(Watchdog watchdog, double after_s) {
    watchdog_ = std::move(watchdog), watchdog_after_s_ = after_s;
  }

 private:
  struct Bound {  // one issue, ready to enqueue
    int prepared = -1;
    oct_message message{};
    std::array<void*, OCT_MAX_OPERANDS + 1> pointers{};
    oct_lane* lane = nullptr;
    std::vector<int> waits;  // events of other lanes
    int event = -1;          // recorded after it, if somebody waits for it
  };
  struct Completion;
  class Flight;

  void bind(std::size_t issue);
  void bind_waits();
  void chain_communication();
  int event_of(int issue);
  int instance_of(const View& view, const Call& call) const;
  std::byte* place(const View& view, int instance) const;
  void wait_for_producers(std::size_t issue);
  void launch(std::size_t issue);
  void enqueue_host(oct_lane* lane, void (*function)(void*), void* argument);
  void announce(std::size_t issue);
  void enqueue_all(bool timed);
  bool may_capture() const;
  bool prepare_graph();
  void finish(Flight& flight, bool as_graph);
  void wait_for(std::span<oct_lane* const> lanes);
  void check_errors();

  const StepProgram& program_;
  const MemoryPlan& plan_;
  ExecutionContext context_;
  Expansion expansion_;
  std::vector<DeviceEvent> events_;
  std::vector<Bound> bound_;
  std::vector<OperationRecord> records_;
  double observing_s_ = 0;
  std::unique_ptr<Completion> completion_;
  std::vector<oct_lane*> lanes_;
  std::unique_ptr<DeviceGraph> graph_;
  int abort_hook_ = -1;
  std::vector<double> graph_times_;  // begin and end of each issue
  bool has_run_ = false;
  int delay_us_ = 0;
  std::vector<int> delays_us_;
  Watchdog watchdog_;
  double watchdog_after_s_ = 0;
};

}  // namespace octachoron
