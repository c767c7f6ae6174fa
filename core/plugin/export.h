#pragma once
/// Plugin side: a C++ class becomes a table, and no exception leaves the plugin. Include this in plugins
/// only.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/plugin/abi.h"

#define OCT_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#define OCT_PLUGIN_BUILD "g++ " __VERSION__

namespace octachoron::plugin {

/// Thrown by plugin code to report a status other than OCT_INTERNAL. std::invalid_argument becomes
/// OCT_INVALID_ARGUMENT, std::bad_alloc OCT_OUT_OF_MEMORY, anything else OCT_INTERNAL.
class Failure : public std::runtime_error {
 public:
  Failure(oct_status status, const std::string& what) : std::runtime_error(what), status_(status) {}
  oct_status status() const { return status_; }

 private:
  oct_status status_;
};

inline std::string& error_text() {
  thread_local std::string text;
  return text;
}
inline const char* last_error() noexcept {
  return error_text().c_str();
}

template <class Function>
oct_status guard(Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return OCT_OK;
  } catch (const Failure& error) {
    error_text() = error.what();
    return error.status();
  } catch (const std::bad_alloc&) {
    error_text() = "out of memory";
    return OCT_OUT_OF_MEMORY;
  } catch (const std::invalid_argument& error) {
    error_text() = error.what();
    return OCT_INVALID_ARGUMENT;
  } catch (const std::exception& error) {
    error_text() = error.what();
    return OCT_INTERNAL;
  } catch (...) {
    error_text() = "unknown exception";
    return OCT_INTERNAL;
  }
}

/// Table of a precision plugin written as a class:
///   Recipe(const oct_host&, const std::string& options);  oct_dtype storage(oct_storage) const;
///   oct_quant_spec spec(const oct_quant_query&) const;    // its struct_size is not looked at
template <class T>
inline constexpr oct_precision_table precision_table = {
    .struct_size = sizeof(oct_precision_table),
    .create =
        [](const oct_host* host, const char* options, oct_recipe** out) {
          return guard([&] { *out = reinterpret_cast<oct_recipe*>(new T(*host, options)); });
        },
    .destroy = [](oct_recipe* recipe) { delete reinterpret_cast<T*>(recipe); },
    .storage = [](oct_recipe* recipe, int32_t role) -> int32_t {
      return reinterpret_cast<const T*>(recipe)->storage(oct_storage(role));
    },
    .spec =
        [](oct_recipe* recipe, const oct_quant_query* query, oct_quant_spec* out) {
          return guard([&] {
            // A program built with a shorter or longer spec gets what both know.
            oct_quant_spec spec = reinterpret_cast<const T*>(recipe)->spec(*query);
            spec.struct_size = out->struct_size;
            std::memcpy(out, &spec, std::min(out->struct_size, sizeof spec));
          });
        },
    .update = nullptr,
    .state_bytes = nullptr,
    .save_state = nullptr,
    .load_state = nullptr};

}  // namespace octachoron::plugin
