#include "core/engine/backend.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "core/base/error.h"
#include "core/config/parameter_file.h"
#include "core/plugin/agree.h"

namespace octachoron {

namespace {

void log_line(void* user, std::int32_t level, const char* message) {
  if (static_cast<const World*>(user)->rank() == 0)
    std::fprintf(level == 0 ? stdout : stderr, "octachoron: %s\n", message);
}

oct_status allgather(void* user, const void* send, void* receive, std::size_t bytes) {
  static_cast<const World*>(user)->allgather(send, receive, bytes);
  return OCT_OK;
}

oct_host host_of(const World& world) {
  return {sizeof(oct_host), const_cast<World*>(&world), world.rank(),       world.size(), world.local_rank(),
          world.local_size(), log_line,                  allgather};
}

// A plan is made by one process: it is rank 0 of 1, and hears nothing from plugins but errors.
oct_host host_of_one() {
  const auto silent = [](void*, std::int32_t, const char*) {};
  const auto alone = [](void*, const void* send, void* receive, std::size_t bytes) {
    std::copy_n(static_cast<const char*>(send), bytes, static_cast<char*>(receive));
    return OCT_OK;
  };
  return {sizeof(oct_host), nullptr, 0, 1, 0, 1, silent, alone};
}

int threads_of(const Parameters& parameters, int ranks_of_node) {
  if (parameters.engine.threads > 0) return parameters.engine.threads;
  return std::max(1, int(std::thread::hardware_concurrency()) / ranks_of_node);
}

// Creating a plugin may fail on some ranks only: all learn of it before any goes on.
template <class Make>
auto make_together(const oct_host& host, const Make& make) -> decltype(make()) {
  decltype(make()) made;
  std::string failure;
  ExitStatus status = ExitStatus::environment;
  try {
    made = make();
  } catch (const Error& error) {
    failure = error.what();
    status = error.status();
  }
  agree(host, failure, "", status);
  return made;
}

}  // namespace

std::string recipe_options(const Parameters& parameters) {
  const std::string section = "precision.";
  std::string options;
  for (const ParameterInfo& info : parameter_table())
    if (info.key.starts_with(section)) options += info.key.substr(section.size()) + "=" + info.get(parameters) + "\n";
  for (const auto& [key, value] : parameters.plugin) options += key + "=" + value + "\n";
  return options;
}

DryBackend::DryBackend(const Parameters& parameters) {
  const BackendParameters& backend = parameters.backend;
  const oct_host host = host_of_one();
  const oct_device_options options{sizeof(oct_device_options), threads_of(parameters, 1), 1, nullptr};
  device_ = std::make_unique<Device>(load_together(host, OCT_DEVICE, backend.device, backend.plugin_path), host, options);
  require_device(load_together(host, OCT_COMM, backend.comm, backend.plugin_path), device_->name());
  recipe_ = std::make_unique<Recipe>(load_together(host, OCT_PRECISION, backend.precision, backend.plugin_path), host,
                                     recipe_options(parameters));
}

Backend::Backend(const Parameters& parameters, const World& world, const std::string& tuning)
    : world_(world), host_(host_of(world)), threads_(threads_of(parameters, world.local_size())) {
  const BackendParameters& backend = parameters.backend;
  const auto load = [&](oct_family family, const std::string& name) {
    return load_together(host_, family, name, backend.plugin_path);
  };
  const PluginLibrary device = load(OCT_DEVICE, backend.device), recipe = load(OCT_PRECISION, backend.precision);
  const PluginLibrary comm = load(OCT_COMM, backend.comm);
  const oct_device_options options{sizeof(oct_device_options), threads_, 0, tuning.empty() ? nullptr : tuning.c_str()};
  device_ = make_together(host_, [&] { return std::make_unique<Device>(device, host_, options); });
  recipe_ = make_together(host_, [&] { return std::make_unique<Recipe>(recipe, host_, recipe_options(parameters)); });
  communicator_ = make_together(
      host_, [&] { return std::make_unique<Communicator>(comm, host_, world_.fortran_handle(), *device_); });
}

Backend::~Backend() {
  communicator_.reset();  // comm, precision, device: each may use what was made before it
  recipe_.reset();
  device_.reset();
}

std::string Backend::describe() const {
  return identity(device_->library().info()) + ": " + device_->properties().description + "\n" + identity(recipe_->library().info()) + "\n" +
         identity(communicator_->library().info()) + "\n";
}

}  // namespace octachoron
