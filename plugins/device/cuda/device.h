#pragma once
/// The device: its lanes, events and prepared operations. One host thread calls it.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plugin/abi.h"
#include "plugins/device/cuda/cudnn.h"
#include "plugins/device/cuda/graphs.h"
#include "plugins/device/cuda/host_calls.h"
#include "plugins/device/cuda/prepared.h"
#include "plugins/device/cuda/spans.h"
#include "plugins/device/cuda/stamps.h"
#include "plugins/device/cuda/tuning.h"

namespace octachoron::cuda {

struct Lane {
  cudaStream_t stream = nullptr;
  std::string name;
  std::unique_ptr<HostCalls> calls;
};

class Device {
 public:
  Device(const oct_host& host, const oct_device_options& options);
  ~Device();
  Device(const Device&) = delete;

  /// The GPU of this device becomes the calling thread's. \throws std::invalid_argument if there is none
  /// (dry)
  void make_current() const;
  oct_device_properties properties() const;
  void query(const oct_operation& operation, oct_support* out) const;
  std::int32_t prepare(const oct_operation& operation);
  void enqueue(std::int32_t id, void* const* pointers, Lane& lane) const;

  Lane* create_lane(const std::string& name, int priority);
  void destroy_lane(Lane* lane);
  void enqueue_host(Lane& lane, void (*function)(void*), void* argument);
  void copy(void* to, const void* from, std::size_t bytes, Lane& lane) const;
  /// \param lane may be null where `begin` is
  void begin_span(Lane* lane, const char* name, double* begin, double* end);
  void end_span(Lane* lane);
  void launch_timed(std::int32_t graph, Lane& lane, double* times);
  void synchronize();
  /// The first error since the last call; empty: none. \param status gets whether it is the hardware's
  std::string take_error(oct_status* status);

  Graphs& graphs() { return graphs_; }
  Stamps& stamps() { return stamps_; }

 private:
  Tuning& tuning();

  struct Entry {
    oct_operation operation;
    std::unique_ptr<Prepared> prepared;
  };

  std::unique_ptr<Prepared> make_ready(const oct_operation& operation);
  bool has_cudnn() const { return dry_ ? is_cudnn_built_in() : cudnn_ != nullptr; }
  void warn(const std::string& text) const;

  oct_host host_;
  bool dry_, warned_ = false;
  int index_ = 0;
  cublasLtHandle_t library_ = nullptr;
  std::uint64_t* error_ = nullptr;  // a word of pinned memory: BadTarget
  std::string tuning_folder_;  // empty: choices are not kept
  std::unique_ptr<Tuning> tuning_;
  std::unique_ptr<Cudnn> cudnn_;  // null: there is none, for the reason in no_cudnn_
  std::string no_cudnn_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::int32_t> ids_;  // by the bytes of the checked description
  Stamps stamps_;
  Spans spans_;
  std::vector<bool> is_of_graph_;  // each open span
  Graphs graphs_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace octachoron::cuda
