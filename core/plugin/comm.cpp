#include "core/plugin/comm.h"

#include <exception>
#include <utility>
#include <vector>

namespace octachoron {

void require_device(const PluginLibrary& comm, const std::string& device) {
  const std::string needed = comm.table<oct_comm_table>().device;
  if (needed == "any" || needed == device) return;
  fail(ExitStatus::usage, "comm plugin '", comm.info().name, "' does not work with device '", device,
       "' (it needs '", needed, "'); set backend.device = ", needed, " or choose another backend.comm");
}

Communicator::Communicator(PluginLibrary library, const oct_host& host, int mpi_communicator, Device& device)
    : library_(std::move(library)) {
  require_device(library_, device.name());
  oct_comm_host services{};
  services.struct_size = sizeof services;
  services.host = &host;
  services.mpi_communicator = mpi_communicator;
  services.device_table = &device.table();
  services.device = device.handle();
  check(table().create(&services, &handle_), "create");
}

Communicator::~Communicator() {
  if (handle_ == nullptr) return;
  // While an exception unwinds, peers may be gone: what waits for them would never end.
  if (std::uncaught_exceptions() > 0) abort();
  table().destroy(handle_);
}

int Communicator::create_group(std::span<const int> ranks, const std::string& purpose) {
  const std::vector<std::int32_t> members(ranks.begin(), ranks.end());
  std::int32_t group = 0;
  check(table().group_create(handle_, members.data(), std::int32_t(members.size()), purpose.c_str(), &group),
        "group_create");
  return group;
}

std::int64_t Communicator::workspace(const oct_message& message) const {
  std::int64_t bytes = 0;
  check(table().query(handle_, &message, &bytes), "query");
  return bytes;
}

oct_comm_counters Communicator::counters(int group, bool reset) {
  oct_comm_counters counters{};
  counters.struct_size = sizeof counters;
  check(table().counters(handle_, group, reset ? 1 : 0, &counters), "counters");
  return counters;
}

bool Communicator::is_concurrent() const {
  return table().is_concurrent(handle_) != 0;
}

bool Communicator::is_capturable() const {
  return table().is_capturable(handle_) != 0;
}

std::string Communicator::poll_error() {
  char text[512] = "";
  const oct_status status = table().poll_error(handle_, text, sizeof text);
  if (status == OCT_OK) return "";
  return *text != 0 ? text : "communication error without a text";
}

std::string Communicator::pending() {
  if (!library_.has(&oct_comm_table::describe_pending)) return "";
  char text[2048] = "";
  table().describe_pending(handle_, text, sizeof text);
  return text;
}

int Communicator::before_abort(std::function<void()> hook) {
  const int id = hooks_.empty() ? 0 : hooks_.rbegin()->first + 1;
  hooks_.emplace(id, std::move(hook));
  return id;
}

void Communicator::abort() noexcept {
  for (const auto& [id, hook] : hooks_) hook();
  if (handle_ != nullptr) table().abort(handle_);
}

}  // namespace octachoron
