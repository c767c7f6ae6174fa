#include "plugins/device/cuda/graphs.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {

/// `waiting` goes on after what is enqueued on `first`.
void Graphs::order(cudaStream_t first, cudaStream_t waiting) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  edges_.push_back(event);
  check(cudaEventRecord(event, first), "an edge of a graph");
  check(cudaStreamWaitEvent(waiting, event, 0), "an edge of a graph");
}

Graphs::~Graphs() {
  for (const cudaGraphExec_t graph : graphs_)
    if (graph != nullptr) (void)cudaGraphExecDestroy(graph);
}

void Graphs::begin(const std::vector<cudaStream_t>& streams) {
  if (streams.empty()) throw std::invalid_argument("a capture needs a lane");
  if (is_capturing()) throw std::invalid_argument("a capture is under way already");
  check(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), "beginning a capture");
  capturing_ = streams;
  for (std::size_t i = 1; i < streams.size(); ++i) order(streams[0], streams[i]);
}

std::int32_t Graphs::end() {
  if (!is_capturing()) throw std::invalid_argument("no capture is under way");
  const std::vector<cudaStream_t> streams = std::move(capturing_);
  capturing_.clear();
  cudaGraph_t graph = nullptr;
  try {
    for (std::size_t i = 1; i < streams.size(); ++i) order(streams[i], streams[0]);
  } catch (...) {
    (void)cudaStreamEndCapture(streams[0], &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(streams[0], &graph);
  for (const cudaEvent_t edge : edges_) (void)cudaEventDestroy(edge);
  edges_.clear();
  check(ended, "ending a capture");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
  (void)cudaGraphDestroy(graph);
  check(status, "making a graph ready");
  graphs_.push_back(ready);
  return std::int32_t(graphs_.size() - 1);
}

cudaGraphExec_t Graphs::at(std::int32_t graph) const {
  if (graph < 0 || std::size_t(graph) >= graphs_.size() || graphs_[std::size_t(graph)] == nullptr)
    throw std::invalid_argument("there is no graph " + std::to_string(graph));
  return graphs_[std::size_t(graph)];
}

void Graphs::launch(std::int32_t graph, cudaStream_t stream) const {
  check(cudaGraphLaunch(at(graph), stream), "launching a graph");
}

void Graphs::destroy(std::int32_t graph) {
  (void)cudaGraphExecDestroy(at(graph));
  graphs_[std::size_t(graph)] = nullptr;
}

}  // namespace octachoron::cuda
