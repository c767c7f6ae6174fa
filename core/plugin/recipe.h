#pragma once
/// C++ face of a precision plugin: what type a buffer is stored in, and how each GEMM operand is quantised.
#include <array>
#include <span>
#include <string>

#include "core/plugin/dtype.h"
#include "core/plugin/library.h"

namespace octachoron {

class Recipe {
 public:
  /// \param options lines "key=value", see oct_precision_table::create
  /// \throws Error(usage) with the plugin's text if it refuses them
  Recipe(PluginLibrary library, const oct_host& host, const std::string& options);
  ~Recipe();
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  const PluginLibrary& library() const { return library_; }
  std::string name() const { return library_.info().name; }
  DType storage(oct_storage role) const { return storage_[role]; }
  oct_quant_spec spec(const oct_quant_query& query) const;
  /// Whether it makes scales from histories by a rule of its own, on the host between steps.
  bool has_update() const { return library_.has(&oct_precision_table::update); }
  /// \param history amaxes, newest first \return the new scale
  float update(std::int64_t step, std::span<const float> history, float format_max, float scale) const;

 private:
  PluginLibrary library_;
  oct_recipe* handle_ = nullptr;
  std::array<DType, OCT_STORAGE_ROLES> storage_{};
};

}  // namespace octachoron
