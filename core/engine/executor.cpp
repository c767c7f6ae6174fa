#include "core/engine/executor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "core/numerics/random.h"

namespace octachoron {

namespace {

constexpr const char* kStepName = "step";
constexpr std::size_t kMostOfAGraph = 1 << 16;  // operations: a node takes memory of host and device

using HostClock = std::chrono::steady_clock;

double since(HostClock::time_point begin) {
  return std::chrono::duration<double>(HostClock::now() - begin).count();
}

std::uint64_t label_of(const Operation& operation, const Call& call) {
  return hash64(operation.label) + std::uint64_t(call.micro_batch);
}

oct_message message_of(const Operation& operation, const Call& call, int group, int place, int size) {
  const View& view = message_view(operation);
  oct_message message{};
  message.struct_size = sizeof message;
  message.kind = operation.op;
  message.group = group;
  const int shift = operation.peers.shift;
  message.peer = is_point_to_point(operation.op) ? ((place + shift) % size + size) % size : shift;
  message.dtype = view.dtype;
  message.reduction = operation.reduction;
  message.count = view.elements();
  message.label = label_of(operation, call);
  return message;
}

void sleep_us(void* microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(*static_cast<const int*>(microseconds)));
}

}  // namespace

// Lanes announce their end here, so that the host can wait with a time limit.
struct Executor::Completion {
  std::mutex mutex;
  std::condition_variable changed;
  int open = 0;
  void expect(int lanes) {
    const std::scoped_lock lock(mutex);
    open = lanes;
  }
  static void arrive(void* argument) {
    auto* self = static_cast<Completion*>(argument);
    const std::scoped_lock lock(self->mutex);
    --self->open;
    self->changed.notify_all();
  }
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [&] { return open == 0; });
  }
};

// From the first command to the end of all. If an exception comes between, lanes still have commands that
// point into the executor and the arena: they are ended before it goes on.
class Executor::Flight {
 public:
  explicit Flight(const ExecutionContext& context) : context_(context) {}
  ~Flight() {
    if (landed_) return;
    context_.communicator.abort();  // what waits for peers waits no more
    context_.device.table().synchronize(context_.device.handle());
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  void land() { landed_ = true; }

 private:
  const ExecutionContext& context_;
  bool landed_ = false;
};

oct_lane* LaneSet::get(const Lane& lane) {
  auto found = lanes_.find(lane.name);
  if (found == lanes_.end())
    found = lanes_.emplace(lane.name, DeviceLane(device_, lane.name, lane.priority)).first;
  return found->second.handle();
}

Executor::Executor(const StepProgram& program, const MemoryPlan& plan, const ExecutionContext& context)
    : program_(program),
      plan_(plan),
      context_(context),
      expansion_(expand(program)),
      bound_(expansion_.issues.size()),
      records_(expansion_.issues.size()),
      completion_(std::make_unique<Completion>()) {
  context_.groups.add(program);
  for (const Lane& lane : program.lanes) lanes_.push_back(context.lanes.get(lane));
  abort_hook_ = context_.communicator.before_abort([this] { graph_.reset(); });
  for (std::size_t i = 0; i < bound_.size(); ++i) bind(i);
  bind_waits();
}

Executor::~Executor() {
  context_.communicator.forget(abort_hook_);
}

void Executor::bind(std::size_t i) {
  const Issue& issue = expansion_.issues[i];
  const Operation& operation = *issue.operation;
  const Call& call = program_.schedule.calls[issue.call];
  Bound& bound = bound_[i];
  bound.lane = context_.lanes.get(program_.lanes[operation.lane]);
  for (std::size_t k = 0; k < operation.operands.size(); ++k)
    if (const View& view = operation.operands[k].view; !view.absent())
      bound.pointers[k] = place(view, instance_of(view, call));
  if (!operation.workspace.absent())
    bound.pointers[operation.operands.size()] = place(operation.workspace, instance_of(operation.workspace, call));
  if (is_communication(operation.op)) {
    const AxisSet axes = operation.peers.axes;
    bound.message = message_of(operation, call, context_.groups.id(operation.peers),
                               context_.grid.place_in_group(context_.rank, axes, operation.peers.block),
                               context_.grid.group_size(axes, operation.peers.block));
    ensure(context_.communicator.workspace(bound.message) == 0, "comm plugin '", context_.communicator.name(),
           "' wants workspace for ", operation.label, ", which no program plans");
  } else {
    bound.prepared =
        context_.device.prepare(describe_for_device(operation, context_.grid.coordinate(context_.rank)));
  }
}

int Executor::event_of(int issue) {
  if (bound_[issue].event < 0) {
    bound_[issue].event = int(events_.size());
    events_.emplace_back(context_.device);
  }
  return bound_[issue].event;
}

void Executor::bind_waits() {
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    const Issue& issue = expansion_.issues[i];
    for (int lane = 0; lane < kMaxLanes; ++lane)
      if (issue.waits[lane] > 0 && lane != issue.lane())
        bound_[i].waits.push_back(event_of(expansion_.issue_of(lane, issue.waits[lane])));
  }
  if (!context_.communicator.is_concurrent()) chain_communication();
}

// Program order across lanes, which the verifier has proven under Queues::chained.
void Executor::chain_communication() {
  int last = -1;
  for (int i = 0; i < int(bound_.size()); ++i) {
    const Issue& issue = expansion_.issues[i];
    if (!is_communication(issue.operation->op)) continue;
    if (last >= 0 && expansion_.issues[last].lane() != issue.lane()) bound_[i].waits.push_back(event_of(last));
    last = i;
  }
}

std::optional<View> Executor::find(const std::string& buffer) const {
  const int id = program_.find_buffer(buffer);
  if (id < 0) return std::nullopt;
  for (const Segment& segment : program_.segments)  // the type and shape by which it is used as a whole
    for (const Operation& operation : segment.operations)
      for (const Operand& operand : operation.operands)
        if (operand.view.buffer == id && operand.view.bytes() == program_.buffers[id].bytes)
          return operand.view;
  return std::nullopt;
}

void Executor::set_delays(unsigned seed, int longest_us) {
  delay_us_ = longest_us;
  graph_.reset();
  delays_us_.assign(bound_.size(), 0);
  if (longest_us == 0) return;
  std::minstd_rand random(seed);
  for (int& delay : delays_us_)
    if (random() % 3 == 0) delay = int(random() % unsigned(longest_us));
}

void Executor::wait_for_producers(std::size_t issue) {
  const Bound& bound = bound_[issue];
  for (int event : bound.waits) events_[event].wait(bound.lane);
  if (delay_us_ > 0 && delays_us_[issue] > 0) enqueue_host(bound.lane, sleep_us, &delays_us_[issue]);
}

void Executor::announce(std::size_t issue) {
  if (bound_[issue].event >= 0) events_[bound_[issue].event].record(bound_[issue].lane);
}

void Executor::enqueue_host(oct_lane* lane, void (*function)(void*), void* argument) {
  Device& device = context_.device;
  device.check(device.table().enqueue_host(device.handle(), lane, function, argument), "enqueue_host");
}

void Executor::launch(std::size_t issue) {
  const Bound& bound = bound_[issue];
  if (bound.prepared >= 0) {
    context_.device.enqueue(bound.prepared, bound.pointers.data(), bound.lane);
  } else {
    const bool receives = bound.message.kind == OCT_RECEIVE;
    const bool sends = bound.message.kind == OCT_SEND;
    context_.communicator.enqueue(bound.message, receives ? nullptr : bound.pointers[0],
                                  receives ? bound.pointers[0]
                                  : sends  ? nullptr
                                           : bound.pointers[1],
                                  nullptr, bound.lane);
  }
}

// Under their names for profilers, and with places for their times.
void Executor::enqueue_all(bool timed) {
  Device& device = context_.device;
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    wait_for_producers(i);
    oct_lane* lane = bound_[i].lane;
    double* begin_s = timed ? &records_[i].begin_s : nullptr;
    double* end_s = timed ? &records_[i].end_s : nullptr;
    device.span_begin(lane, expansion_.issues[i].operation->label.c_str(), begin_s, end_s);
    launch(i);
    device.span_end(lane, end_s);
    announce(i);
  }
}

bool Executor::may_capture() const {
  if (!context_.graphs || delay_us_ > 0 || bound_.size() > kMostOfAGraph) return false;
  const auto communicates = [](const Issue& issue) { return is_communication(issue.operation->op); };
  return context_.communicator.is_capturable() ||
         std::none_of(expansion_.issues.begin(), expansion_.issues.end(), communicates);
}

// A program that runs once is not worth a graph.
bool Executor::prepare_graph() {
  if (!graph_ && has_run_ && may_capture()) {
    auto graph = std::make_unique<DeviceGraph>(context_.device, lanes_);
    enqueue_all(context_.device.times_graphs());
    graph->finish();
    graph_ = std::move(graph);
    graph_times_.resize(2 * bound_.size());
  }
  has_run_ = true;
  return graph_ != nullptr;
}

void Executor::finish(Flight& flight, bool as_graph) {
  if (as_graph) {
    oct_lane* const lane = graph_->lane();
    wait_for({&lane, 1});
  } else {
    wait_for(lanes_);
  }
  flight.land();
  check_errors();
}

void Executor::run() {
  Flight flight(context_);
  const bool as_graph = prepare_graph();
  context_.device.span_begin(nullptr, kStepName, nullptr, nullptr);
  if (as_graph)
    graph_->launch();
  else
    enqueue_all(false);
  context_.device.span_end(nullptr, nullptr);
  finish(flight, as_graph);
}

std::span<const OperationRecord> Executor::run_observed() {
  double ignored[2];  // lives longer than the flight
  Flight flight(context_);
  const bool has_graph = prepare_graph();
  const HostClock::time_point begin = HostClock::now();
  // A device begins to record with its first span that has times.
  context_.device.span_begin(lanes_.front(), kStepName, &ignored[0], &ignored[1]);
  context_.device.span_end(lanes_.front(), &ignored[1]);
  observing_s_ = since(begin);
  context_.device.span_begin(nullptr, kStepName, nullptr, nullptr);
  const bool as_graph = has_graph && graph_->launch_timed(graph_times_.data());
  if (!as_graph) enqueue_all(true);
  context_.device.span_end(nullptr, nullptr);
  finish(flight, as_graph);
  const HostClock::time_point end = HostClock::now();
  context_.device.synchronize();  // only then may times be read
  observing_s_ += since(end);
  for (std::size_t i = 0; i < records_.size(); ++i) {
    records_[i].issue = &expansion_.issues[i];
    if (as_graph) records_[i].begin_s = graph_times_[2 * i], records_[i].end_s = graph_times_[2 * i + 1];
  }
  return records_;
}

OperationCost Executor::cost(const Issue& issue) const {
  if (is_communication(issue.operation->op)) return {};
  const Coordinate at = context_.grid.coordinate(context_.rank);
  const oct_support support = context_.device.query(describe_for_device(*issue.operation, at));
  return {support.flops, support.bytes};
}

void Executor::run_stepwise(const std::function<void(const Issue&)>& inspect) {
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    Flight flight(context_);
    wait_for_producers(i);
    launch(i);
    announce(i);
    finish(flight, false);
    inspect(expansion_.issues[i]);
  }
}

void Executor::wait_for(std::span<oct_lane* const> lanes) {
  completion_->expect(int(lanes.size()));
  for (oct_lane* lane : lanes) enqueue_host(lane, Completion::arrive, completion_.get());
  const HostClock::time_point begin = HostClock::now();
  double next_bark_s = watchdog_after_s_;
  while (!completion_->wait_for(std::chrono::milliseconds(200))) {
    check_errors();  // a device that failed never calls back
    const double seconds = since(begin);
    if (!watchdog_ || seconds < next_bark_s) continue;
    next_bark_s *= 2;
    std::string waits = context_.communicator.pending();
    if (waits.empty() && lanes.size() < lanes_.size())
      waits = "it runs as one graph, whose messages are not told apart: engine.graphs = off would name the peers";
    watchdog_(waits, seconds);
  }
}

void Executor::check_errors() {
  if (const std::string problem = context_.communicator.poll_error(); !problem.empty())
    fail(ExitStatus::peer_failed, "communication failed (", problem, "); resubmit the job");
  oct_status status = OCT_OK;
  const std::string problem = context_.device.poll_error(&status);
  if (problem.empty()) return;
  if (status == OCT_DEVICE_ERROR && !context_.arena.is_host())
    fail(ExitStatus::peer_failed, "device '", context_.device.name(), "' of rank ", context_.rank, " failed (", problem,
         "); resubmit the job, on another node if it comes again");
  fail(ExitStatus::internal, "device '", context_.device.name(), "' failed (", problem,
       "); report this with the parameter file");
}

}  // namespace octachoron
