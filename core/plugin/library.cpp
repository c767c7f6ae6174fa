#include "core/plugin/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>

namespace octachoron {

namespace {

template <class... Parts>
[[noreturn]] void refuse(const std::string& file, const Parts&... parts) {
  fail(ExitStatus::environment, "cannot use '", file, "' as a plugin (", parts...);
}

constexpr const char* kRebuild = "); rebuild it against this program's core/plugin/abi.h";

bool is_legal_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '-';
  });
}

/// The entry of the file itself: dlsym also finds symbols of the libraries that the file needs.
oct_plugin_entry find_entry(void* handle, const std::string& file) {
  void* symbol = dlsym(handle, OCT_PLUGIN_ENTRY);
  if (symbol == nullptr)
    refuse(file, "it does not export ", OCT_PLUGIN_ENTRY, "); build it with octachoron_add_plugin()");
  Dl_info where{};
  link_map* map = nullptr;
  if (dladdr(symbol, &where) == 0 || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
    refuse(file, "the origin of ", OCT_PLUGIN_ENTRY, " is unknown); build it with octachoron_add_plugin()");
  if (map->l_addr != reinterpret_cast<ElfW(Addr)>(where.dli_fbase))
    refuse(file, "its ", OCT_PLUGIN_ENTRY, " comes from its dependency '", where.dli_fname,
           "'); name that file, or define the entry in the plugin itself");
  return reinterpret_cast<oct_plugin_entry>(symbol);
}

/// One required slot of a table: the bytes it needs the table to have, and whether it is filled.
struct Slot {
  const char* name;
  std::size_t end;
  bool (*filled)(const void* table);
};

#define OCT_SLOT(Table, member)                                                               \
  Slot {                                                                                      \
#member, offsetof(Table, member) + sizeof(Table::member),                                 \
        [](const void* table) { return static_cast<const Table*>(table)->member != nullptr; } \
  }

std::vector<Slot> required_slots(oct_family family) {
  using D = oct_device_table;
  using C = oct_comm_table;
  using P = oct_precision_table;
  switch (family) {
    case OCT_DEVICE:
      return {OCT_SLOT(D, create),       OCT_SLOT(D, destroy),           OCT_SLOT(D, properties),
              OCT_SLOT(D, allocate),     OCT_SLOT(D, release),           OCT_SLOT(D, lane_create),
              OCT_SLOT(D, lane_destroy), OCT_SLOT(D, event_create),      OCT_SLOT(D, event_destroy),
              OCT_SLOT(D, event_record), OCT_SLOT(D, event_wait),        OCT_SLOT(D, event_query),
              OCT_SLOT(D, query),        OCT_SLOT(D, event_synchronize), OCT_SLOT(D, prepare),
              OCT_SLOT(D, enqueue),      OCT_SLOT(D, enqueue_host),      OCT_SLOT(D, copy),
              OCT_SLOT(D, stamp),        OCT_SLOT(D, synchronize),       OCT_SLOT(D, poll_error)};
    case OCT_COMM:
      return {OCT_SLOT(C, device),         OCT_SLOT(C, create),       OCT_SLOT(C, destroy),
              OCT_SLOT(C, group_create),   OCT_SLOT(C, query),        OCT_SLOT(C, enqueue),
              OCT_SLOT(C, exchange_begin), OCT_SLOT(C, exchange_end), OCT_SLOT(C, is_capturable),
              OCT_SLOT(C, is_concurrent),  OCT_SLOT(C, counters),     OCT_SLOT(C, poll_error),
              OCT_SLOT(C, abort)};
    case OCT_PRECISION:
      return {OCT_SLOT(P, create), OCT_SLOT(P, destroy), OCT_SLOT(P, storage), OCT_SLOT(P, spec)};
  }
  return {};
}
#undef OCT_SLOT

void check_table(const oct_plugin& info, const std::string& file) {
  if (info.table == nullptr) refuse(file, "its table is null", kRebuild);
  const std::size_t bytes =
      *static_cast<const std::size_t*>(info.table);  // every table begins with struct_size
  for (const Slot& slot : required_slots(oct_family(info.family))) {
    if (bytes < slot.end)
      refuse(file, "its table of ", bytes, " bytes is too short for '", slot.name, "'", kRebuild);
    if (!slot.filled(info.table))
      refuse(file, "it lacks the required '", slot.name, "'); implement it, or use another plugin");
  }
}

void check_info(const oct_plugin& info, oct_family expected, const std::string& file) {
  if (info.abi_major != OCT_ABI_MAJOR)
    refuse(file, "it was built for plugin ABI ", info.abi_major, ".", info.abi_minor, ", this program has ",
           OCT_ABI_MAJOR, ".", OCT_ABI_MINOR, ", and the major numbers must match", kRebuild);
  if (info.struct_size < sizeof(oct_plugin))
    refuse(file, "its description of ", info.struct_size, " bytes is too short", kRebuild);
  if (info.name == nullptr || !is_legal_name(info.name))
    refuse(file, "its name '", info.name == nullptr ? "" : info.name,
           "' is not of the form [a-z0-9-]+); rename the plugin");
  if (info.version == nullptr || info.build == nullptr || info.last_error == nullptr)
    refuse(file, "its version, build or last_error is null", kRebuild);
  if (info.family != expected)
    refuse(file, "'", info.name, "' is a ", name(oct_family(info.family)), " plugin, not a ", name(expected),
           " plugin); name it under the right key of [backend]");
}

/// Where a status leads, and what the user can do about it.
std::pair<ExitStatus, const char*> consequence(oct_status status) {
  switch (status) {
    case OCT_INVALID_ARGUMENT:
      return {ExitStatus::usage, "correct the value it names"};
    case OCT_UNSUPPORTED:
      return {ExitStatus::environment, "choose another plugin or combination"};
    case OCT_OUT_OF_MEMORY:
      return {ExitStatus::environment, "use more ranks or a smaller micro-batch"};
    case OCT_DEVICE_ERROR:
      return {ExitStatus::environment, "run 'octachoron doctor' on this node"};
    case OCT_COMM_ERROR:
      return {ExitStatus::peer_failed, "look for the rank or node that failed, then resubmit"};
    default:
      return {ExitStatus::internal, "report this as a bug of the plugin"};
  }
}

}  // namespace

const char* name(oct_family family) {
  switch (family) {
    case OCT_DEVICE:
      return "device";
    case OCT_COMM:
      return "comm";
    case OCT_PRECISION:
      return "precision";
  }
  return "unknown";
}

PluginLibrary::PluginLibrary(const std::string& file, oct_family expected) : file_(file) {
  // A bare file name would be looked for in the system's library folders.
  const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
  // Never unloaded: device and MPI libraries keep pointers into their users.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = dlerror();
    refuse(file, why == nullptr ? "unknown reason" : why, "); check the path and the libraries it needs");
  }
  info_ = find_entry(handle, file)();
  if (info_ == nullptr) refuse(file, "its ", OCT_PLUGIN_ENTRY, " returned null", kRebuild);
  check_info(*info_, expected, file);
  check_table(*info_, file);
}

void PluginLibrary::check(oct_status status, const char* what) const {
  if (status == OCT_OK) return;
  const char* text = info_->last_error();
  const std::string why = text == nullptr || *text == 0 ? "no reason given" : text;
  const auto [exit, advice] = consequence(status);
  fail(exit, name(oct_family(info_->family)), " plugin '", info_->name, "' ", info_->version, ": ", what,
       " failed (", why, "); ", advice);
}

}  // namespace octachoron
