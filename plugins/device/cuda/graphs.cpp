#include "plugins/device/cuda/graphs.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/device/cuda/recorder.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

// Edges may carry data, which the shorter forms of these functions refuse to leave out.
std::vector<cudaGraphNode_t> newest_nodes(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count), "a capture");
#else
  check(cudaStreamGetCaptureInfo_v3(stream, &status, nullptr, nullptr, &nodes, &edges, &count), "a capture");
#endif
  if (status != cudaStreamCaptureStatusActive) throw std::invalid_argument("the lane is not being captured");
  return {nodes, nodes + count};
}

std::vector<cudaGraphNode_t> dependencies(cudaGraphNode_t node) {
  const auto ask = [node](cudaGraphNode_t* nodes, cudaGraphEdgeData* edges, std::size_t* count) {
#if CUDART_VERSION >= 13000
    check(cudaGraphNodeGetDependencies(node, nodes, edges, count), "the edges of a graph");
#else
    check(cudaGraphNodeGetDependencies_v2(node, nodes, edges, count), "the edges of a graph");
#endif
  };
  std::size_t count = 0;
  ask(nullptr, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  std::vector<cudaGraphEdgeData> edges(count);
  if (count > 0) ask(nodes.data(), edges.data(), &count);
  return nodes;
}

}  // namespace

/// `waiting` goes on after what is enqueued on `first`.
void Graphs::order(cudaStream_t first, cudaStream_t waiting) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  edges_.push_back(event);
  check(cudaEventRecord(event, first), "an edge of a graph");
  check(cudaStreamWaitEvent(waiting, event, 0), "an edge of a graph");
}

Graphs::~Graphs() {
  for (const Graph& graph : graphs_)
    if (graph.ready != nullptr) (void)cudaGraphExecDestroy(graph.ready);
}

void Graphs::begin(const std::vector<cudaStream_t>& streams) {
  if (streams.empty()) throw std::invalid_argument("a capture needs a lane");
  if (is_capturing()) throw std::invalid_argument("a capture is under way already");
  check(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), "beginning a capture");
  capturing_ = streams;
  captured_.clear();
  open_.clear();
  known_.clear();
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
  try {
    graphs_.push_back(instantiate(graph));
  } catch (...) {
    (void)cudaGraphDestroy(graph);
    throw;
  }
  (void)cudaGraphDestroy(graph);
  return std::int32_t(graphs_.size() - 1);
}

/// What the stream has captured since it was last looked at: from its newest nodes back to known ones.
std::vector<cudaGraphNode_t> Graphs::new_nodes(cudaStream_t stream) {
  std::vector<cudaGraphNode_t> reached = newest_nodes(stream), found;
  while (!reached.empty()) {
    const cudaGraphNode_t node = reached.back();
    reached.pop_back();
    if (!known_.insert(node).second) continue;
    found.push_back(node);
    const std::vector<cudaGraphNode_t> before = dependencies(node);
    reached.insert(reached.end(), before.begin(), before.end());
  }
  return found;
}

void Graphs::begin_span(cudaStream_t stream) {
  const std::vector<cudaGraphNode_t> before = new_nodes(stream);
  if (!open_.empty()) {
    auto& outer = captured_[open_.back()].nodes;
    outer.insert(outer.end(), before.begin(), before.end());
  }
  open_.push_back(captured_.size());
  captured_.push_back({stream, {}});
}

void Graphs::end_span() {
  if (!is_capturing() || open_.empty()) return;  // the capture ended within the span
  CapturedSpan& span = captured_[open_.back()];
  const std::vector<cudaGraphNode_t> own = new_nodes(span.stream);
  span.nodes.insert(span.nodes.end(), own.begin(), own.end());
  open_.pop_back();
}

Graphs::Graph Graphs::instantiate(cudaGraph_t graph) {
  Graph result;
  const auto make = [&] { check(cudaGraphInstantiate(&result.ready, graph, 0), "making a graph ready"); };
  if (captured_.empty()) {
    make();
    return result;
  }
  const auto numbers = Recorder::instance().numbered(make);
  NodeSpans nodes;
  for (std::size_t k = 0; k < captured_.size(); ++k) {
    result.spans.streams.push_back(captured_[k].stream);
    for (const cudaGraphNode_t node : captured_[k].nodes)
      if (const auto found = numbers.find(node); found != numbers.end()) nodes[found->second] = k;
  }
  result.spans.nodes = std::make_shared<const NodeSpans>(std::move(nodes));
  return result;
}

const Graphs::Graph& Graphs::at(std::int32_t graph) const {
  if (graph < 0 || std::size_t(graph) >= graphs_.size() || graphs_[std::size_t(graph)].ready == nullptr)
    throw std::invalid_argument("there is no graph " + std::to_string(graph));
  return graphs_[std::size_t(graph)];
}

void Graphs::launch(std::int32_t graph, cudaStream_t stream) const {
  check(cudaGraphLaunch(at(graph).ready, stream), "launching a graph");
}

void Graphs::destroy(std::int32_t graph) {
  (void)cudaGraphExecDestroy(at(graph).ready);
  graphs_[std::size_t(graph)] = {};
}

}  // namespace octachoron::cuda
