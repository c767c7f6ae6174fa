#pragma once
/// Capture of what is enqueued on several lanes into graphs.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "plugins/device/cuda/span_times.h"

namespace octachoron::cuda {

/// Spans with times of a capture.
struct GraphSpans {
  std::vector<cudaStream_t> streams;       ///< of each, in the order in which they began
  std::shared_ptr<const NodeSpans> nodes;  ///< empty where what ran will not be known by its node
};

class Graphs {
 public:
  Graphs() = default;
  ~Graphs();
  Graphs(const Graphs&) = delete;

  bool is_capturing() const { return !capturing_.empty(); }
  /// The first stream forks into the others, so all of them belong to the graph.
  void begin(const std::vector<cudaStream_t>& streams);
  /// Within a capture: what is captured until end_span() belongs to the innermost such span.
  void begin_span(cudaStream_t stream);
  void end_span();
  /// Joins them again. \returns the id of the graph
  std::int32_t end();
  const GraphSpans& spans(std::int32_t graph) const { return at(graph).spans; }
  void launch(std::int32_t graph, cudaStream_t stream) const;
  void destroy(std::int32_t graph);

 private:
  struct Graph {
    cudaGraphExec_t ready = nullptr;
    GraphSpans spans;
  };
  struct CapturedSpan {
    cudaStream_t stream;
    std::vector<cudaGraphNode_t> nodes;
  };
  const Graph& at(std::int32_t graph) const;
  void order(cudaStream_t first, cudaStream_t waiting);
  std::vector<cudaGraphNode_t> new_nodes(cudaStream_t stream);
  Graph instantiate(cudaGraph_t graph);

  std::vector<cudaStream_t> capturing_;
  std::vector<cudaEvent_t> edges_;  // of this capture
  std::vector<CapturedSpan> captured_;
  std::vector<std::size_t> open_;              // of captured_, innermost last
  std::unordered_set<cudaGraphNode_t> known_;  // of the capture: in a span, or in none
  std::vector<Graph> graphs_;
};

}  // namespace octachoron::cuda
