/// The one source that includes cudnn-frontend, which takes a minute to compile. Its calls to cuDNN and to
/// the CUDA runtime go through dlsym, so that the plugin loads where cuDNN is not.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "plugins/device/cuda/cudnn.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "core/plugin/export.h"

namespace cudnn_frontend {
/// Declared by cudnn-frontend, for its user to define: where it looks for cuDNN's functions.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace octachoron::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;
using Sizes = std::vector<std::int64_t>;

enum Name : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDOut, kDQ, kDK, kDV };

/// \throws std::runtime_error
void check(fe::error_t error) {
  if (error.is_bad()) throw std::runtime_error(error.get_message());
}

/// Writes the shape into a graph in cuDNN's terms, as [sequences, heads, length, size].
class Description {
 public:
  Description(const CudnnAttentionShape& shape, Graph* graph) : s_(shape), graph_(graph) {
    graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (s_.backward)
      describe_backward();
    else
      describe_forward();
  }

 private:
  Sizes sizes(std::int64_t heads, std::int64_t columns) const {
    return {s_.sequences, heads, s_.length, columns};
  }
  /// By token: rows of a pitch, heads side by side.
  Sizes strides(std::int64_t pitch, std::int64_t columns) const {
    return {s_.length * pitch, columns, pitch, 1};
  }
  Tensor input(const char* name, Name id, std::int64_t heads, std::int64_t pitch) {
    return graph_->tensor(Tensor_attributes()
                              .set_name(name)
                              .set_uid(id)
                              .set_dim(sizes(heads, s_.size))
                              .set_stride(strides(pitch, s_.size)));
  }
  void output(const Tensor& tensor, Name id, std::int64_t heads, std::int64_t pitch) {
    tensor->set_output(true).set_uid(id).set_dim(sizes(heads, s_.size)).set_stride(strides(pitch, s_.size));
  }

  void describe_forward() {
    const Tensor q = input("q", kQ, s_.heads, s_.qkv_pitch), k = input("k", kK, s_.key_heads, s_.qkv_pitch),
                 v = input("v", kV, s_.key_heads, s_.qkv_pitch);
    const auto [out, lse] = graph_->sdpa(q, k, v,
                                         fe::graph::SDPA_attributes()
                                             .set_name("attention")
                                             .set_attn_scale(s_.scale)
                                             .set_generate_stats(true)
                                             .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                                             .set_diagonal_band_right_bound(0));
    output(out, kOut, s_.heads, s_.out_pitch);
    lse->set_output(true)
        .set_uid(kLse)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(sizes(s_.heads, 1))
        .set_stride(strides(s_.lse_pitch, 1));
  }

  void describe_backward() {
    const Tensor q = input("q", kQ, s_.heads, s_.qkv_pitch), k = input("k", kK, s_.key_heads, s_.qkv_pitch),
                 v = input("v", kV, s_.key_heads, s_.qkv_pitch),
                 out = input("out", kOut, s_.heads, s_.out_pitch),
                 dout = input("dout", kDOut, s_.heads, s_.dout_pitch);
    const Tensor lse = graph_->tensor(Tensor_attributes()
                                          .set_name("lse")
                                          .set_uid(kLse)
                                          .set_data_type(fe::DataType_t::FLOAT)
                                          .set_dim(sizes(s_.heads, 1))
                                          .set_stride({s_.heads * s_.length, s_.length, 1, 1}));
    const auto [dq, dk, dv] =
        graph_->sdpa_backward(q, k, v, out, dout, lse,
                              fe::graph::SDPA_backward_attributes()
                                  .set_name("attention_backward")
                                  .set_attn_scale(s_.scale)
                                  .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                                  .set_diagonal_band_right_bound(0)
                                  .set_deterministic_algorithm(true));
    output(dq, kDQ, s_.heads, s_.dqkv_pitch);
    output(dk, kDK, s_.key_heads, s_.dqkv_pitch);
    output(dv, kDV, s_.key_heads, s_.dqkv_pitch);
  }

  CudnnAttentionShape s_;
  Graph* graph_;
};

class BuiltGraph : public CudnnGraph {
 public:
  /// \param handle null: for a GPU that is not here
  BuiltGraph(std::shared_ptr<Graph> graph, cudnnHandle_t handle) : graph_(std::move(graph)), handle_(handle) {
    check(graph_->get_workspace_size(workspace_bytes_));
  }
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const CudnnPointers& p, void* workspace, cudaStream_t stream) override {
    if (handle_ == nullptr) throw std::logic_error("a graph for a GPU that is not here was run");
    const cudnnStatus_t status = fe::detail::set_stream(handle_, stream);
    if (status != CUDNN_STATUS_SUCCESS) fail(fe::detail::get_error_string(status));
    std::unordered_map<std::int64_t, void*> pointers = {{kQ, p.q},     {kK, p.k},     {kV, p.v},
                                                        {kOut, p.out}, {kLse, p.lse}, {kDOut, p.dout},
                                                        {kDQ, p.dq},   {kDK, p.dk},   {kDV, p.dv}};
    fe::error_t error = graph_->execute(handle_, pointers, workspace);
    if (error.is_bad()) fail(error.get_message());
  }

 private:
  [[noreturn]] static void fail(const std::string& why) {
    throw plugin::Failure(OCT_DEVICE_ERROR, "attention by cuDNN failed (" + why + ")");
  }

  std::shared_ptr<Graph> graph_;
  cudnnHandle_t handle_;
  std::int64_t workspace_bytes_ = 0;
};

class OpenCudnn : public Cudnn {
 public:
  OpenCudnn() : version_("cuDNN " + fe::detail::get_backend_version_string()) {}
  ~OpenCudnn() override {
    if (handle_ != nullptr) (void)fe::detail::destroy_handle(handle_);
  }
  OpenCudnn(const OpenCudnn&) = delete;
  /// For this thread's GPU.
  void create_handle() {
    const cudnnStatus_t status = fe::detail::create_handle(&handle_);
    if (status != CUDNN_STATUS_SUCCESS) throw std::runtime_error(fe::detail::get_error_string(status));
  }
  /// For another GPU.
  void describe_device(const std::string& description, int capability) {
    device_ = std::make_shared<fe::DeviceProperties>();
    check(device_->deserialize({description.begin(), description.end()}));
    capability_ = capability;
  }

  const std::string& version() const override { return version_; }
  std::unique_ptr<CudnnGraph> build(const CudnnAttentionShape& shape) override {
    const auto graph = std::make_shared<Graph>();
    if (device_ != nullptr) graph->set_device_properties(device_).set_sm_version(capability_);
    Description(shape, graph.get());  // after the device: parts of the graph copy it when they are made
    check(graph->validate());
    check(graph->build_operation_graph(handle_));
    check(graph->create_execution_plans({fe::HeurMode_t::A}));
    check(graph->check_support());
    check(graph->build_plans());
    return std::make_unique<BuiltGraph>(graph, handle_);
  }

 private:
  std::string version_;
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<fe::DeviceProperties> device_;
  int capability_ = 0;
};

#define OCTACHORON_TEXT_OF(number) #number
#define OCTACHORON_TEXT(number) OCTACHORON_TEXT_OF(number)

/// cuDNN, once for the process: it is never closed. \throws std::runtime_error
void load_library() {
  if (fe::cudnn_dlhandle != nullptr) return;
  // cudnn-frontend takes whichever runtime of several it finds; it must be the one this plugin is linked to.
  const std::string runtime = "libcudart.so." + std::to_string(CUDART_VERSION / 1000);
  setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), 0);
  fe::cudnn_dlhandle = dlopen("libcudnn.so." OCTACHORON_TEXT(CUDNN_MAJOR), RTLD_NOW | RTLD_LOCAL);
  if (fe::cudnn_dlhandle == nullptr) throw std::runtime_error(dlerror());
}

/// prepare(cudnn) makes it ready.
template <class Prepare>
std::unique_ptr<Cudnn> open(std::string* why, Prepare prepare) {
  try {
    load_library();
    auto cudnn = std::make_unique<OpenCudnn>();
    prepare(*cudnn);
    return cudnn;
  } catch (const std::exception& error) {
    *why = error.what();
    return nullptr;
  }
}

}  // namespace

bool is_cudnn_built_in() {
  return true;
}

std::unique_ptr<Cudnn> open_cudnn(std::string* why) {
  return open(why, [](OpenCudnn& cudnn) { cudnn.create_handle(); });
}

std::unique_ptr<Cudnn> open_cudnn_for(const std::string& description, int capability, std::string* why) {
  return open(why, [&](OpenCudnn& cudnn) { cudnn.describe_device(description, capability); });
}

}  // namespace octachoron::cuda
