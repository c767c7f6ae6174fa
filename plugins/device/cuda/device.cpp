#include "plugins/device/cuda/device.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "core/plugin/export.h"
#include "plugins/device/common/check.h"
#include "plugins/device/cuda/attention.h"
#include "plugins/device/cuda/attention_plan.h"
#include "plugins/device/cuda/check.h"
#include "plugins/device/cuda/gemm.h"
#include "plugins/device/cuda/kernels/kernels.h"
#include "plugins/device/cuda/machine.h"
#include "plugins/device/cuda/runtime.h"

namespace octachoron::cuda {
namespace {

bool is_pinned(const void* memory) {
  cudaPointerAttributes attributes = {};
  if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess)
    return attributes.type == cudaMemoryTypeHost;
  (void)cudaGetLastError();
  return false;
}

}  // namespace

Device::Device(const oct_host& host, const oct_device_options& options)
    : host_(host), dry_(options.dry == 1), spans_(stamps_, [this](const std::string& line) {
        if (host_.rank == 0 && host_.log != nullptr) host_.log(host_.user, 1, line.c_str());
      }) {
  if (dry_) return;
  index_ = choose_device(host);
  check(cudaHostAlloc(reinterpret_cast<void**>(&error_), sizeof *error_,
                      cudaHostAllocMapped | cudaHostAllocPortable),
        "a word for errors");
  *error_ = 0;
  check(cublasLtCreate(&library_), "cuBLASLt");
  cudnn_ = open_cudnn(&no_cudnn_);
  stamps_.reserve();
  // Kernels that wait for flags may be running when these are first needed.
  signal_flag(nullptr, nullptr, nullptr, true);
  await_flag(nullptr, nullptr, nullptr, true);
  copy_bytes(nullptr, nullptr, 0, nullptr, true);
  write_time(nullptr, nullptr, true);
  if (options.tuning != nullptr) tuning_folder_ = options.tuning;
}

// At the first use: rank 0 may have made its choices since the device was created.
Tuning& Device::tuning() {
  if (tuning_ != nullptr) return *tuning_;
  const std::string library = std::string("cuBLASLt ") + std::to_string(cublasLtGetVersion()) + ", " +
                              device_properties(index_).description;
  tuning_ = tuning_folder_.empty() ? std::make_unique<Tuning>() : std::make_unique<Tuning>(tuning_folder_, host_.rank, library);
  if (tuning_->passed_over() > 0)
    warn("algorithms chosen by another library or GPU are chosen anew (" + std::to_string(tuning_->passed_over()) + " in " +
         tuning_folder_ + "); results may differ in their last bits from those of earlier steps");
  return *tuning_;
}

Device::~Device() {
  if (dry_) return;
  (void)cudaSetDevice(index_);
  while (!lanes_.empty()) destroy_lane(lanes_.back().get());
  entries_.clear();
  if (library_ != nullptr) cublasLtDestroy(library_);
  (void)cudaFreeHost(error_);
}

void Device::make_current() const {
  if (dry_) throw std::invalid_argument("a dry device was asked for more than properties and queries");
  thread_local int current = -1;
  if (current == index_) return;
  check(cudaSetDevice(index_), "taking a GPU");
  current = index_;
}

oct_device_properties Device::properties() const {
  if (!dry_) {
    make_current();
    oct_device_properties p = device_properties(index_);
    const std::string about = std::string(p.description) + "; attention by " +
                              (cudnn_ != nullptr ? cudnn_->version() : "own kernels (" + no_cudnn_ + ")");
    std::snprintf(p.description, sizeof p.description, "%s", about.c_str());
    return p;
  }
  oct_device_properties p{};
  std::snprintf(p.description, sizeof p.description, "NVIDIA GPU, not looked at");
  p.has_graphs = 1;
  return p;
}

void Device::query(const oct_operation& operation, oct_support* out) const {
  out->supported = 0;
  out->deterministic = 1;
  out->workspace_bytes = 0;
  out->flops = out->bytes = 0;
  out->reason[0] = 0;
  try {
    const oct_operation clean = checked(operation);
    const device_common::Cost c = device_common::cost(clean);
    out->workspace_bytes = cuda::workspace_bytes(clean, has_cudnn());
    out->flops = c.flops;
    out->bytes = c.bytes;
    out->supported = 1;
  } catch (const std::exception& error) {
    std::snprintf(out->reason, sizeof out->reason, "%s", error.what());
  }
}

std::int32_t Device::prepare(const oct_operation& operation) {
  const oct_operation clean = checked(operation);
  std::string key(sizeof clean, '\0');
  std::memcpy(key.data(), &clean, sizeof clean);
  const auto known = ids_.find(key);
  if (known != ids_.end()) return known->second;
  const auto id = std::int32_t(entries_.size());
  entries_.push_back({clean, make_ready(clean)});
  ids_.emplace(key, id);
  if (tuning_ != nullptr && !tuning_->problem().empty() && !warned_) warn(tuning_->problem());
  warned_ = warned_ || (tuning_ != nullptr && !tuning_->problem().empty());
  return id;
}

std::unique_ptr<Prepared> Device::make_ready(const oct_operation& operation) {
  if (operation.op == OCT_GEMM) return prepare_gemm(operation, library_, tuning());
  if (!is_attention(operation)) return prepare_kernel(operation, error_);
  return prepare_attention(operation, cudnn_.get(), error_, [this](const std::string& text) { warn(text); });
}

void Device::warn(const std::string& text) const {
  if (host_.log != nullptr) host_.log(host_.user, 1, text.c_str());
}

void Device::enqueue(std::int32_t id, void* const* pointers, Lane& lane) const {
  if (id < 0 || std::size_t(id) >= entries_.size())
    throw std::invalid_argument("id " + std::to_string(id) + " was not prepared");
  const Entry& entry = entries_[std::size_t(id)];
  const oct_operation& operation = entry.operation;
  void* all[kPointers] = {};
  bool is_empty = true;
  for (int k = 0; k < operation.operands; ++k) {
    const oct_matrix& m = operation.operand[k];
    if (m.rows == 0) continue;  // absent, whatever the pointer
    if (pointers[k] == nullptr && m.columns > 0) {
      throw std::invalid_argument(std::string(device_common::operation_name(operation)) + ": the pointer of " +
                                  device_common::operand_name(operation, k) + " is null");
    }
    all[k] = pointers[k];
    is_empty = is_empty && m.columns == 0;
  }
  all[kWorkspace] = pointers[operation.operands];
  if (!is_empty) entry.prepared->run(all, lane.stream);
}

Lane* Device::create_lane(const std::string& name, int priority) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");  // greatest <= least
  auto lane = std::make_unique<Lane>();
  lane->name = name;
  check(cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking,
                                     std::clamp(-priority, greatest, least)),
        "a stream");
  lane->calls = std::make_unique<HostCalls>(lane->stream, [this] { stamps_.deliver(); });
  lanes_.push_back(std::move(lane));
  return lanes_.back().get();
}

void Device::destroy_lane(Lane* lane) {
  (void)cudaStreamSynchronize(lane->stream);
  stamps_.deliver();
  lane->calls.reset();
  (void)cudaStreamDestroy(lane->stream);
  std::erase_if(lanes_, [lane](const std::unique_ptr<Lane>& each) { return each.get() == lane; });
}

void Device::enqueue_host(Lane& lane, void (*function)(void*), void* argument) {
  if (graphs_.is_capturing())
    throw plugin::Failure(OCT_UNSUPPORTED, "a host function cannot stand in a graph");
  if (lane.calls == nullptr)
    lane.calls = std::make_unique<HostCalls>(lane.stream, [this] { stamps_.deliver(); });
  const Spans::HostFunction counted = spans_.counted({function, argument});
  lane.calls->post(counted.function, counted.argument);
}

void Device::copy(void* to, const void* from, std::size_t bytes, Lane& lane) const {
  if (bytes == 0) return;
  // Between two host memories the runtime would make the host wait for the lane.
  if (is_pinned(to) && is_pinned(from)) return copy_bytes(to, from, bytes, lane.stream, false);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, lane.stream), "a copy");
}

void Device::begin_span(Lane* lane, const char* name, double* begin, double* end) {
  const bool times = begin != nullptr && end != nullptr;
  if (times && lane == nullptr) throw std::invalid_argument("a span with times needs a lane");
  const cudaStream_t stream = lane != nullptr ? lane->stream : nullptr;
  const bool of_graph = times && graphs_.is_capturing();
  if (of_graph) graphs_.begin_span(stream);
  spans_.begin(name, stream, of_graph ? nullptr : begin, of_graph ? nullptr : end);
  is_of_graph_.push_back(of_graph);
}

void Device::end_span(Lane* lane) {
  spans_.end(lane != nullptr ? lane->stream : nullptr);
  if (is_of_graph_.back()) graphs_.end_span();
  is_of_graph_.pop_back();
}

void Device::launch_timed(std::int32_t graph, Lane& lane, double* times) {
  spans_.launch_graph(graphs_.spans(graph), lane.stream, times, [&] { graphs_.launch(graph, lane.stream); });
}

void Device::synchronize() {
  for (const auto& lane : lanes_) check(cudaStreamSynchronize(lane->stream), "synchronising");
  stamps_.deliver();
  spans_.deliver();
}

std::string Device::take_error(oct_status* status) {
  stamps_.deliver();
  const std::uint64_t word = std::atomic_ref(*error_).exchange(0);
  if (word != 0) {
    *status = OCT_INVALID_ARGUMENT;
    const BadTarget bad = decode(word);
    return "loss_statistics: target " + std::to_string(bad.target) + " of token " +
           std::to_string(bad.token) + " is not an id of the vocabulary";
  }
  for (const auto& lane : lanes_) {
    if (graphs_.is_capturing()) break;
    const cudaError_t error = cudaStreamQuery(lane->stream);
    if (error == cudaSuccess || error == cudaErrorNotReady) continue;
    (void)cudaGetLastError();
    *status = OCT_DEVICE_ERROR;
    return "lane " + lane->name + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
  }
  return {};
}

}  // namespace octachoron::cuda
