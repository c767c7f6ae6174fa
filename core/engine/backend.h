#pragma once
/// The three plugins of a run, loaded collectively and checked against each other.
#include <memory>
#include <string>

#include "core/config/parameters.h"
#include "core/parallel/world.h"
#include "core/plugin/comm.h"
#include "core/plugin/device.h"
#include "core/plugin/recipe.h"

namespace octachoron {

/// "key=value" lines of [precision] and [plugin.NAME], as the precision plugin takes them.
std::string recipe_options(const Parameters& parameters);

/// Device and recipe without a launch or a device: for `plan`.
class DryBackend {
 public:
  explicit DryBackend(const Parameters& parameters);
  Device& device() { return *device_; }
  Recipe& recipe() { return *recipe_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Recipe> recipe_;
};

class Backend {
 public:
  /// Collective over `world`: all ranks load the same plugins or all throw the same Error.
  /// \param tuning folder in which the device keeps algorithms that it chose by measuring; empty: it keeps none
  Backend(const Parameters& parameters, const World& world, const std::string& tuning = "");
  ~Backend();
  Device& device() { return *device_; }
  Recipe& recipe() { return *recipe_; }
  Communicator& communicator() { return *communicator_; }
  /// "device cpu 0.1.0 (g++ 12.2), ..."
  std::string describe() const;
  int threads() const { return threads_; }

 private:
  const World& world_;
  oct_host host_{};
  int threads_ = 1;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Recipe> recipe_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace octachoron
