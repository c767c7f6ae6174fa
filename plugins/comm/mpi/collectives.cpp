#include "plugins/comm/mpi/collectives.h"

#include <algorithm>
#include <cstring>

#include "core/plugin/export.h"
#include "plugins/comm/mpi/reduce.h"

namespace octachoron::mpi {

namespace {

// All-reduces up to this size are one exchange of whole vectors: half the latency.
constexpr std::int64_t kSmall = 4096;
// Longer reductions go piece by piece, which bounds the scratch memory of a lane.
constexpr std::int64_t kPiece = std::int64_t(4) << 20;

enum Tag { kData = 0, kHeader = 1, kCollective = 2 };

/// One collective at a time: its parts would mix with those of another on the same communicator.
class Occupied {
 public:
  explicit Occupied(const Entry& entry) : group_(*entry.group) {
    if (group_.busy.exchange(true))
      throw plugin::Failure(OCT_COMM_ERROR, "two lanes use one group at the same time: " + describe(entry));
  }
  ~Occupied() { group_.busy = false; }

 private:
  Group& group_;
};

class Collective {
 public:
  Collective(const Entry& entry, LaneWork& work, Progress& progress)
      : entry_(entry),
        group_(*entry.group),
        work_(work),
        progress_(progress),
        n_(group_.size()),
        me_(group_.place),
        element_(size_of(entry.message.dtype)),
        send_(static_cast<const std::byte*>(entry.send)),
        receive_(static_cast<std::byte*>(entry.receive)) {
    work_.order.clear();
    for (int step = 1; step < n_; ++step) work_.order.push_back((me_ + step) % n_);
  }

  void all_gather() {
    const std::int64_t bytes = entry_.message.count * element_;
    if (bytes == 0) return;
    if (receive_ + me_ * bytes != send_) std::memmove(receive_ + me_ * bytes, send_, std::size_t(bytes));
    begin();
    for (int peer : others()) receive(peer, receive_ + peer * bytes, bytes);
    for (int peer : others()) send(peer, send_, bytes);
    progress_.run(work_.job);
  }

  void reduce_scatter() {
    const std::int64_t count = entry_.message.count;
    const std::int64_t piece = std::max<std::int64_t>(1, kPiece / (n_ * element_));
    for (std::int64_t first = 0; first < count; first += piece) {
      const std::int64_t k = std::min(piece, count - first);
      begin();
      for (int peer : others()) receive(peer, scratch(peer, k), k * element_);
      for (int peer : others()) send(peer, send_ + (peer * count + first) * element_, k * element_);
      progress_.run(work_.job);
      sum(send_ + (me_ * count + first) * element_, k, receive_ + first * element_);
    }
  }

  void all_reduce() {
    const std::int64_t count = entry_.message.count;
    if (count * element_ <= kSmall) return all_reduce_small(count);
    const std::int64_t piece = std::max<std::int64_t>(n_, kPiece / element_);
    for (std::int64_t first = 0; first < count; first += piece)
      all_reduce_piece(first, std::min(piece, count - first));
  }

  void broadcast() {
    const std::int64_t bytes = entry_.message.count * element_;
    if (bytes == 0) return;
    const bool is_root = entry_.message.peer == me_;
    void* data = is_root ? const_cast<std::byte*>(send_) : receive_;
    begin();
    add(Transfer::Kind::broadcast, entry_.message.peer, data, bytes);
    progress_.run(work_.job);
    if (is_root && receive_ != nullptr && receive_ != send_)
      std::memmove(receive_, send_, std::size_t(bytes));
  }

  /// All members learn what each of them is about to do, and refuse if it is not the same.
  void check_labels() {
    const oct_message& m = entry_.message;
    const bool reduces = m.kind == OCT_REDUCE_SCATTER || m.kind == OCT_ALL_REDUCE;
    work_.headers.resize(std::size_t(n_));
    work_.headers[me_] = {
        m.label, m.count, m.kind, m.dtype, reduces ? m.reduction : 0, m.kind == OCT_BROADCAST ? m.peer : 0};
    begin();
    for (int peer : others()) receive(peer, &work_.headers[peer], sizeof(Header), kHeader);
    for (int peer : others()) send(peer, &work_.headers[me_], sizeof(Header), kHeader);
    progress_.run(work_.job);
    for (int peer = 1; peer < n_; ++peer)
      if (work_.headers[peer] != work_.headers[0]) refuse(peer);
  }

 private:
  void all_reduce_small(std::int64_t count) {
    if (count == 0) return;
    begin();
    for (int peer : others()) receive(peer, scratch(peer, count), count * element_);
    for (int peer : others()) send(peer, send_, count * element_);
    progress_.run(work_.job);
    sum(send_, count, receive_);
  }

  /// Each member sums its block of the piece and hands the result to all others: equal bits everywhere.
  void all_reduce_piece(std::int64_t first, std::int64_t k) {
    const std::int64_t block = (k + n_ - 1) / n_;
    const auto begins = [&](int member) { return first + std::min(k, member * block); };
    const auto length = [&](int member) { return begins(member + 1) - begins(member); };
    const std::int64_t mine = length(me_);
    begin();
    for (int peer : others()) receive(peer, scratch(peer, mine), mine * element_);
    for (int peer : others()) send(peer, send_ + begins(peer) * element_, length(peer) * element_);
    progress_.run(work_.job);
    std::byte* result = receive_ + begins(me_) * element_;
    sum(send_ + begins(me_) * element_, mine, result);
    begin();
    for (int peer : others()) receive(peer, receive_ + begins(peer) * element_, length(peer) * element_);
    for (int peer : others()) send(peer, result, mine * element_);
    progress_.run(work_.job);
  }

  /// The other members, beginning behind this one, so that not all send to the same first.
  std::span<const int> others() const { return work_.order; }
  void begin() { work_.job.transfers.clear(); }
  void add(Transfer::Kind kind, int peer, void* data, std::int64_t bytes, int tag = kCollective) {
    if (bytes > 0) work_.job.transfers.push_back({kind, data, bytes, peer, tag, group_.communicator});
  }
  void send(int peer, const void* data, std::int64_t bytes, int tag = kCollective) {
    add(Transfer::Kind::send, peer, const_cast<void*>(data), bytes, tag);
  }
  void receive(int peer, void* data, std::int64_t bytes, int tag = kCollective) {
    add(Transfer::Kind::receive, peer, data, bytes, tag);
  }
  /// Where `k` elements of a member arrive.
  std::byte* scratch(int member, std::int64_t k) {
    const auto needed = std::size_t(n_ * k * element_);
    if (work_.scratch.size() < needed) work_.scratch.resize(needed);
    return work_.scratch.data() + member * k * element_;
  }
  void sum(const std::byte* own, std::int64_t k, std::byte* out) {
    if (k == 0) return;
    work_.inputs.clear();
    for (int member = 0; member < n_; ++member)
      work_.inputs.push_back(member == me_ ? own : scratch(member, k));
    reduce(entry_.message.dtype, entry_.message.reduction, work_.inputs, k, out);
  }
  [[noreturn]] void refuse(int peer) const {
    const auto say = [&](int member) {
      const Header& h = work_.headers[std::size_t(member)];
      Entry entry = entry_;
      entry.message.label = h.label;
      entry.message.count = h.count;
      entry.message.kind = h.kind;
      entry.message.dtype = h.dtype;
      return "rank " + std::to_string(group_.ranks[std::size_t(member)]) + " is in " + describe(entry);
    };
    throw plugin::Failure(OCT_COMM_ERROR, "the ranks of a group disagree: " + say(0) + "; " + say(peer));
  }

  const Entry& entry_;
  Group& group_;
  LaneWork& work_;
  Progress& progress_;
  const int n_, me_;
  const std::int64_t element_;
  const std::byte* send_;
  std::byte* receive_;
};

void run_collective(const Entry& entry, LaneWork& work, Progress& progress, bool check_labels) {
  const Occupied occupied(entry);
  Collective collective(entry, work, progress);
  if (check_labels) collective.check_labels();
  switch (entry.message.kind) {
    case OCT_ALL_GATHER:
      return collective.all_gather();
    case OCT_REDUCE_SCATTER:
      return collective.reduce_scatter();
    case OCT_ALL_REDUCE:
      return collective.all_reduce();
    default:
      return collective.broadcast();
  }
}

/// Refuses if what came is not what was waited for. Two headers an entry: of this end and of the other.
void compare_headers(std::span<const Entry> entries, std::span<const Header> headers, Progress& progress) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Header &own = headers[2 * i], &other = headers[2 * i + 1];
    // Without a header from the other end, as after an error, there is nothing to compare.
    if (entries[i].message.kind != OCT_RECEIVE || other == Header{} || other == own) continue;
    Entry sent = entries[i];
    sent.message.kind = OCT_SEND;
    sent.message.label = other.label;
    sent.message.count = other.count;
    sent.message.dtype = other.dtype;
    progress.explain("the two ends of a transfer disagree: this is a " + describe(entries[i]) +
                     ", the other a " + describe(sent));
    throw plugin::Failure(OCT_COMM_ERROR, progress.error());
  }
}

/// Sends and receives, all started before any is waited for.
void run_exchange(std::span<const Entry> entries, LaneWork& work, Progress& progress, bool check_labels) {
  auto& transfers = work.job.transfers;
  transfers.clear();
  work.headers.assign(check_labels ? 2 * entries.size() : 0, Header{});
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [group, m, send, receive] = entries[i];
    const bool sends = m.kind == OCT_SEND;
    const auto kind = sends ? Transfer::Kind::send : Transfer::Kind::receive;
    void* data = sends ? const_cast<void*>(send) : receive;
    if (check_labels) {
      work.headers[2 * i] = {m.label, m.count, 0, m.dtype, 0, 0};
      transfers.push_back({kind, &work.headers[2 * i + (sends ? 0 : 1)], sizeof(Header), m.peer, kHeader,
                           group->communicator});
    }
    transfers.push_back({kind, data, m.count * size_of(m.dtype), m.peer, kData, group->communicator});
  }
  try {
    progress.run(work.job);
  } catch (const plugin::Failure&) {
    if (check_labels) compare_headers(entries, work.headers, progress);
    throw;
  }
  if (check_labels) compare_headers(entries, work.headers, progress);
}

}  // namespace

void run(std::span<const Entry> entries, LaneWork& work, Progress& progress, bool check_labels) {
  if (entries.size() == 1 && is_collective(entries[0].message.kind))
    run_collective(entries[0], work, progress, check_labels);
  else
    run_exchange(entries, work, progress, check_labels);
}

}  // namespace octachoron::mpi
