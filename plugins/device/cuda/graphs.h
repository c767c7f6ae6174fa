#pragma once
/// Capture of what is enqueued on several lanes into graphs.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace octachoron::cuda {

class Graphs {
 public:
  Graphs() = default;
  ~Graphs();
  Graphs(const Graphs&) = delete;

  bool is_capturing() const { return !capturing_.empty(); }
  /// The first stream forks into the others, so all of them belong to the graph.
  void begin(const std::vector<cudaStream_t>& streams);
  /// Joins them again. \returns the id of the graph
  std::int32_t end();
  void launch(std::int32_t graph, cudaStream_t stream) const;
  void destroy(std::int32_t graph);

 private:
  cudaGraphExec_t at(std::int32_t graph) const;
  void order(cudaStream_t first, cudaStream_t waiting);

  std::vector<cudaStream_t> capturing_;
  std::vector<cudaEvent_t> edges_;  // of this capture
  std::vector<cudaGraphExec_t> graphs_;
};

}  // namespace octachoron::cuda
