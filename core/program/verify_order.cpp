#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/program/verify.h"

namespace octachoron {

namespace {

constexpr std::size_t kMaxProblems = 10;
constexpr int kChain = kMaxLanes;  // the queue of chained communication
constexpr int kQueues = kMaxLanes + 1;

// Root rank or source; destination or -1; axes; purpose; distance from source to destination. The distance
// keeps directions apart where a collapsed axis makes source and destination one rank.
using Channel = std::tuple<int, int, std::uint8_t, int, int>;

int periodic(int shift, int extent) {
  return (shift % extent + extent) % extent;
}
// How far the destination is from the source.
int distance(const ProcessGrid& grid, const Operation& operation) {
  if (!is_point_to_point(operation.op)) return 0;
  const int shift = operation.op == OCT_SEND ? operation.peers.shift : -operation.peers.shift;
  return periodic(shift, grid[operation.peers.axes.first()]);
}
std::int64_t message_bytes(const Operation& operation) {
  return message_view(operation).bytes();
}

struct Script {  // a role's operations, dealt to queues
  const Role* role;
  Expansion expansion;
  std::array<std::vector<int>, kQueues> queues;
};

struct Place {
  int rank = 0, queue = 0;
  bool operator==(const Place&) const = default;
};
struct Head {
  int next = 0;
  bool arrived = false;
};
struct Rank {
  const Script* script = nullptr;
  Clock done{};
  std::array<Head, kQueues> heads{};
};

class Rendezvous {
 public:
  /// \param grid what is simulated \param whole what it stands for
  Rendezvous(const ProcessGrid& grid, const ProcessGrid& whole, const std::vector<Role>& roles,
             const RoleOf& role_of, Queues queues)
      : grid_(grid), whole_(whole), mode_(queues) {
    for (const Role& role : roles) {
      Script& script = scripts_.emplace_back(Script{&role, expand(*role.program), {}});
      for (int i = 0; i < int(script.expansion.issues.size()); ++i) {
        const Issue& issue = script.expansion.issues[i];
        script.queues[queue_of(issue)].push_back(i);
        if (is_communication(issue.operation->op))
          purposes_.try_emplace(issue.operation->peers.purpose, int(purposes_.size()));
      }
    }
    for (int rank = 0; rank < grid.size(); ++rank) {
      const int role = role_of(grid.coordinate(rank));
      ensure(role >= 0 && role < int(roles.size()), "rank ", rank, " has role ", role, " of ", roles.size());
      ranks_.push_back({&scripts_[role], {}, {}});
    }
  }

  void run(OrderReport& report) {
    for (int rank = 0; rank < grid_.size(); ++rank) ready_.push_back(rank);
    while (!ready_.empty() && problems_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      advance_all(rank);
    }
    if (problems_.empty()) find_stall();
    report.issues = completed_;
    report.problems = std::move(problems_);
  }

 private:
  int queue_of(const Issue& issue) const {
    if (mode_ == Queues::serial) return 0;
    return mode_ == Queues::chained && is_communication(issue.operation->op) ? kChain : issue.lane();
  }
  const Issue* head(Place at) const {
    const Rank& rank = ranks_[at.rank];
    const auto& queue = rank.script->queues[at.queue];
    const int next = rank.heads[at.queue].next;
    return next < int(queue.size()) ? &rank.script->expansion.issues[queue[next]] : nullptr;
  }
  // A lane that is not as far as the issue needs it; its own lane too, which several queues may serve.
  int unmet_lane(int rank, const Issue& issue) const {
    const Clock& done = ranks_[rank].done;
    if (done[issue.lane()] < issue.sequence - 1) return issue.lane();
    for (int lane = 0; lane < kMaxLanes; ++lane)
      if (issue.waits[lane] > done[lane]) return lane;
    return -1;
  }

  Channel channel(int rank, const Operation& operation) const {
    const Peers& peers = operation.peers;
    const int purpose = purposes_.at(peers.purpose);
    if (!is_point_to_point(operation.op))
      return {grid_.group_root(rank, peers.axes, peers.block), -1, peers.axes.bits, purpose, peers.block};
    const int peer = grid_.neighbour(rank, peers.axes.first(), peers.shift);
    const bool sends = operation.op == OCT_SEND;
    return {sends ? rank : peer, sends ? peer : rank, peers.axes.bits, purpose, distance(whole_, operation)};
  }

  void advance_all(int rank) {
    for (bool progress = true; progress;) {
      progress = false;
      for (int queue = 0; queue < kQueues; ++queue)
        while (problems_.empty() && advance({rank, queue})) progress = true;
    }
  }

  bool advance(Place at) {  // completes the head of the queue if it can
    const Issue* issue = head(at);
    if (!issue || unmet_lane(at.rank, *issue) >= 0) return false;
    if (!is_communication(issue->operation->op)) return complete(at), true;
    Head& place = ranks_[at.rank].heads[at.queue];
    if (place.arrived) return false;
    place.arrived = true;

    std::vector<Place>& met = meetings_[channel(at.rank, *issue->operation)];
    if (!met.empty() && !agree(met.front(), at)) return false;
    met.push_back(at);
    const bool pair = is_point_to_point(issue->operation->op);
    const Peers& peers = issue->operation->peers;
    if (int(met.size()) < (pair ? 2 : grid_.group_size(peers.axes, peers.block))) return false;
    for (const Place& member : met) {
      complete(member);
      if (member.rank != at.rank) ready_.push_back(member.rank);
    }
    met.clear();
    return true;
  }
  void complete(Place at) {
    Rank& rank = ranks_[at.rank];
    ++completed_;
    ++rank.done[head(at)->lane()];
    rank.heads[at.queue] = {rank.heads[at.queue].next + 1, false};
  }

  bool agree(Place a, Place b) {
    const Operation &x = *head(a)->operation, &y = *head(b)->operation;
    const bool kinds =
        is_point_to_point(x.op) ? is_point_to_point(y.op) && x.op != y.op : x.op == y.op && a.rank != b.rank;
    const bool sizes = message_bytes(x) == message_bytes(y) && message_view(x).dtype == message_view(y).dtype;
    if (kinds && sizes && x.label == y.label && x.reduction == y.reduction &&
        micro_batch(a) == micro_batch(b))
      return true;
    problems_.push_back(text("mismatch on axes ", to_string(x.peers.axes), ", purpose '", x.peers.purpose,
                             "': ", who(a), " of ", size(x), " meets ", who(b), " of ", size(y)));
    return false;
  }

  void find_stall() {  // from any queue that is not at its end, follow who waits for whom until it closes
    std::vector<Place> path;
    for (int rank = 0; rank < grid_.size() && path.empty(); ++rank)
      for (int queue = 0; queue < kQueues && path.empty(); ++queue)
        if (head({rank, queue})) path.push_back({rank, queue});
    while (!path.empty()) {
      const Place next = blocker(path.back());
      if (next.queue < 0) {
        problems_.push_back(text(who(path.back()), " waits for rank ", next.rank, ", which never joins"));
        return;
      }
      const std::size_t seen = std::find(path.begin(), path.end(), next) - path.begin();
      path.push_back(next);
      if (seen == path.size() - 1) continue;
      std::string cycle = "deadlock: " + who(path[seen]);
      for (std::size_t i = seen + 1; i < path.size(); ++i) cycle += "\n    waits for " + who(path[i]);
      problems_.push_back(cycle);
      return;
    }
  }

  // The queue whose head has to complete before the head at `at` can; queue -1: there is none on that rank.
  Place blocker(Place at) {
    const Issue& issue = *head(at);
    if (const int lane = unmet_lane(at.rank, issue); lane >= 0) {
      const Rank& rank = ranks_[at.rank];
      const Expansion& expansion = rank.script->expansion;
      return {at.rank, queue_of(expansion.issues[expansion.issue_of(lane, rank.done[lane] + 1)])};
    }
    const Operation& operation = *issue.operation;
    const Channel wanted = channel(at.rank, operation);
    const bool pair = is_point_to_point(operation.op);
    const auto& met = meetings_[wanted];
    for (int rank = 0; rank < grid_.size(); ++rank) {
      const bool member =
          pair ? rank == grid_.neighbour(at.rank, operation.peers.axes.first(), operation.peers.shift)
               : grid_.group_root(rank, operation.peers.axes, operation.peers.block) == std::get<0>(wanted);
      const bool present =
          std::any_of(met.begin(), met.end(), [&](Place place) { return place.rank == rank && place != at; });
      if (!member || present || (!pair && rank == at.rank)) continue;
      for (int queue = 0; queue < kQueues; ++queue)
        if (still_has(rank, queue, [&](const Operation& other) {
              return is_communication(other.op) && channel(rank, other) == wanted &&
                     (!pair || other.op != operation.op);
            }))
          return {rank, queue};
      return {rank, -1};
    }
    return {at.rank, -1};
  }

  template <class Predicate>
  bool still_has(int rank, int queue, Predicate predicate) const {
    const Script& script = *ranks_[rank].script;
    const auto& issues = script.queues[queue];
    return std::any_of(issues.begin() + ranks_[rank].heads[queue].next, issues.end(),
                       [&](int i) { return predicate(*script.expansion.issues[i].operation); });
  }

  const StepProgram& program(int rank) const { return *ranks_[rank].script->role->program; }
  int micro_batch(Place at) const { return program(at.rank).schedule.calls[head(at)->call].micro_batch; }
  std::string who(Place at) const {
    return text("rank ", at.rank, " (", ranks_[at.rank].script->role->name, ") at ",
                describe(program(at.rank), *head(at)));
  }
  static std::string size(const Operation& operation) {
    const bool reduces = operation.op == OCT_REDUCE_SCATTER || operation.op == OCT_ALL_REDUCE;
    return text(message_bytes(operation), " bytes of ", name(message_view(operation).dtype),
                !reduces                         ? ""
                : operation.reduction == OCT_SUM ? " (sum)"
                                                 : " (maximum)");
  }

  ProcessGrid grid_, whole_;
  Queues mode_;
  std::deque<Script> scripts_;
  std::map<std::string, int> purposes_;
  std::vector<Rank> ranks_;
  std::map<Channel, std::vector<Place>> meetings_;
  std::deque<int> ready_;
  std::int64_t completed_ = 0;
  std::vector<std::string> problems_;
};

bool role_changes_along(const ProcessGrid& grid, const RoleOf& role_of, int axis) {
  for (int rank = 0; rank < grid.size(); ++rank) {
    const Coordinate at = grid.coordinate(rank);
    Coordinate origin = at;
    origin[axis] = 0;
    if (role_of(at) != role_of(origin)) return true;
  }
  return false;
}

// What is wrong with a communication on its own; empty if nothing.
std::string wrong_with(const ProcessGrid& grid, const Operation& operation) {
  const AxisSet axes = operation.peers.axes;
  for (const Operand& operand : operation.operands)
    if (!operand.view.absent() && !operand.view.contiguous())
      return "moves a strided view; messages are flat";
  if (axes.empty()) return "names no axis";
  if (is_point_to_point(operation.op)) {
    if (operation.operands.empty() || message_view(operation).absent()) return "moves nothing";
    return axes == AxisSet(axes.first()) ? "" : "names more than one axis for a neighbour";
  }
  if (operation.operands.size() != 2)
    return text("has ", operation.operands.size(), " operands, not in and out");
  const View &in = operation.operands[0].view, &out = operation.operands[1].view;
  const int block = operation.peers.block;
  if (block > 0 && (axes != AxisSet(axes.first()) || grid[axes.first()] % block != 0))
    return text("names blocks of ", block, " that do not divide one axis");
  const std::int64_t size = grid.group_size(axes, block);
  const bool fits = operation.op == OCT_ALL_GATHER                 ? out.bytes() == in.bytes() * size
                    : operation.op == OCT_REDUCE_SCATTER           ? in.bytes() == out.bytes() * size
                    : operation.op == OCT_BROADCAST && in.absent() ? true
                                                                   : in.bytes() == out.bytes();
  return fits ? "" : text("turns ", in.bytes(), " bytes into ", out.bytes(), " over ", size, " ranks");
}

// What makes matching independent of timing: a channel is used by one lane. And results have the size they
// must have.
void check_operations(const ProcessGrid& grid, const Role& role, std::vector<std::string>& problems) {
  std::map<std::tuple<std::uint8_t, std::string, int, bool>, const Operation*> channels;
  const StepProgram& program = *role.program;
  for (const Segment& segment : program.segments)
    for (const Operation& operation : segment.operations) {
      if (!is_communication(operation.op)) continue;
      const auto complain = [&](const auto&... what) {
        if (problems.size() < kMaxProblems)
          problems.push_back(text(role.name, ": '", operation.label, "' (", name(operation.op), ", lane ",
                                  program.lanes[operation.lane].name, ", ", segment.name, ") ", what...));
      };
      if (const std::string wrong = wrong_with(grid, operation); !wrong.empty()) {
        complain(wrong);
        continue;
      }
      const auto first = channels
                             .try_emplace({operation.peers.axes.bits, operation.peers.purpose,
                                           distance(grid, operation), operation.op == OCT_RECEIVE},
                                          &operation)
                             .first->second;
      if (first->lane != operation.lane)
        complain("and '", first->label, "' of lane ", program.lanes[first->lane].name,
                 " use one channel (axes ", to_string(operation.peers.axes), ", purpose '",
                 operation.peers.purpose, "') from two lanes");
    }
}

}  // namespace

const char* name(Queues queues) {
  return queues == Queues::serial ? "serial" : queues == Queues::chained ? "chained" : "lanes";
}

OrderReport verify_order(const ProcessGrid& grid, const std::vector<Role>& roles, const RoleOf& role_of,
                         Queues queues, bool use_symmetry) {
  OrderReport report;
  ProcessGrid reduced = grid;
  AxisSet collapsed;
  for (int axis = 0; axis < kAxes; ++axis)
    if (use_symmetry && grid.extent[axis] > 1 && !role_changes_along(grid, role_of, axis)) {
      reduced.extent[axis] = 1;
      collapsed = collapsed | Axis(axis);
    }
  report.ranks = grid.size();
  report.simulated = reduced.size();
  report.symmetry = to_string(collapsed);
  for (const Role& role : roles) check_operations(grid, role, report.problems);
  if (report.problems.empty()) Rendezvous(reduced, grid, roles, role_of, queues).run(report);
  return report;
}

}  // namespace octachoron
