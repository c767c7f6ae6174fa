// The device hidden-cpu, which has graphs, with spans, whose times are numbers that a test can recognise.
#include "tests/engine/span_device.h"

#include <dlfcn.h>

#include "core/plugin/export.h"

namespace {

using octachoron::engine_test::SpanLog;

struct Places {
  double *begin, *end;
};

struct Spanning {
  oct_plugin plugin{};
  oct_device_table table{}, hidden{};
  SpanLog log;
  std::vector<Places> pending;
  bool is_capturing = false;

  Spanning();
};

Spanning& spanning() {
  static Spanning device;
  return device;
}

oct_status span_begin(oct_device*, oct_lane*, const char* name, double* begin, double* end) {
  SpanLog& log = spanning().log;
  ++log.open;
  if (begin == nullptr) {
    log.named.emplace_back(name);
  } else if (spanning().is_capturing) {
    log.captured.emplace_back(name);
  } else {
    log.timed.emplace_back(name);
    spanning().pending.push_back({begin, end});
  }
  return OCT_OK;
}

oct_status graph_launch_timed(oct_device* device, int32_t graph, oct_lane* lane, double* times) {
  Spanning& s = spanning();
  if (s.log.refuses_graphs) return OCT_UNSUPPORTED;
  ++s.log.graphs;
  for (std::size_t k = 0; k < s.log.captured.size(); ++k)
    s.pending.push_back({times + 2 * k, times + 2 * k + 1});
  return s.hidden.graph_launch(device, graph, lane);
}

oct_status synchronize(oct_device* device) {
  auto& pending = spanning().pending;
  for (std::size_t n = 0; n < pending.size(); ++n) {
    *pending[n].begin = octachoron::engine_test::span_begin_s(n);
    *pending[n].end = octachoron::engine_test::span_end_s(n);
  }
  pending.clear();
  return spanning().hidden.synchronize(device);
}

Spanning::Spanning() {
  void* library = dlopen(OCTACHORON_HIDDEN_PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return;  // the loader refuses a plugin of ABI 0
  plugin = *reinterpret_cast<const oct_plugin* (*)()>(dlsym(library, "octachoron_plugin"))();
  table = hidden = *static_cast<const oct_device_table*>(plugin.table);
  table.struct_size = sizeof table;
  table.span_begin = span_begin;
  table.span_end = [](oct_device*, oct_lane*) {
    --spanning().log.open;
    return OCT_OK;
  };
  table.graph_launch_timed = graph_launch_timed;
  table.capture_begin = [](oct_device* device, oct_lane* const* lanes, int32_t n) {
    spanning().is_capturing = true;
    spanning().log.captured.clear();
    return spanning().hidden.capture_begin(device, lanes, n);
  };
  table.capture_end = [](oct_device* device, int32_t* graph) {
    spanning().is_capturing = false;
    return spanning().hidden.capture_end(device, graph);
  };
  table.stamp = [](oct_device* device, oct_lane* lane, double* seconds) {
    ++spanning().log.stamps;
    return spanning().hidden.stamp(device, lane, seconds);
  };
  table.synchronize = synchronize;
  plugin.name = "spanning";
  plugin.table = &table;
}

}  // namespace

OCT_PLUGIN_EXPORT const oct_plugin* octachoron_plugin(void) {
  return &spanning().plugin;
}
OCT_PLUGIN_EXPORT SpanLog* span_log(void) {
  return &spanning().log;
}
