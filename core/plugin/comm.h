#pragma once
/// C++ face of a comm plugin. All calls throw Error where the plugin reports one.
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "core/plugin/device.h"

namespace octachoron {

/// \throws Error(usage) if the comm plugin needs another device than the one of this name
void require_device(const PluginLibrary& comm, const std::string& device);

class Communicator {
 public:
  /// \throws Error(usage) if the plugin needs another device than `device`
  Communicator(PluginLibrary library, const oct_host& host, int mpi_communicator, Device& device);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const PluginLibrary& library() const { return library_; }
  std::string name() const { return library_.info().name; }

  /// Collective over `ranks` (of the run); \return the group's id
  int create_group(std::span<const int> ranks, const std::string& purpose);
  std::int64_t workspace(const oct_message& message) const;
  void enqueue(const oct_message& message, const void* send, void* receive, void* workspace, oct_lane* lane) {
    check(table().enqueue(handle_, &message, send, receive, workspace, lane), "enqueue");
  }
  /// Sends and receives enqueued on the lane between the two calls are one exchange.
  void exchange_begin(oct_lane* lane) { check(table().exchange_begin(handle_, lane), "exchange_begin"); }
  void exchange_end(oct_lane* lane) { check(table().exchange_end(handle_, lane), "exchange_end"); }
  oct_comm_counters counters(int group, bool reset);
  bool is_concurrent() const;
  bool is_capturable() const;  ///< messages may stand in a graph
  std::string poll_error();
  std::string pending();  ///< what the lanes wait for; empty if nothing or unknown
  /// Ends what is in flight. Hooks are called first.
  void abort() noexcept;
  /// For what must be gone before: messages of graphs that still exist keep a network from ending. \return for forget()
  int before_abort(std::function<void()> hook);
  void forget(int hook) { hooks_.erase(hook); }
  void check(oct_status status, const char* what) const {
    if (status != OCT_OK) library_.check(status, what);
  }

 private:
  const oct_comm_table& table() const { return library_.table<oct_comm_table>(); }
  PluginLibrary library_;
  oct_comm* handle_ = nullptr;
  std::map<int, std::function<void()>> hooks_;
};

}  // namespace octachoron
