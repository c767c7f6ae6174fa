#pragma once
/// Attention graphs of cuDNN, a library that is looked for when the program runs. cudnn.cpp is built where
/// cudnn-frontend's headers are, cudnn_none.cpp in its place elsewhere.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

namespace octachoron::cuda {

/// Causal attention in BF16, or its gradient with equal bits in reruns. A token's row holds its heads side by
/// side; pitches are elements from token to token.
struct CudnnAttentionShape {
  bool backward;
  std::int64_t sequences, heads, key_heads, length, size;
  std::int64_t qkv_pitch, out_pitch, dout_pitch, dqkv_pitch;
  std::int64_t lse_pitch;  ///< of the forward; the backward reads it by heads, [sequences, heads, length]
  float scale;
};

/// Where the first token's first heads lie; multiples of 16. The last four are the backward's.
struct CudnnPointers {
  void *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv;
};

class CudnnGraph {
 public:
  virtual ~CudnnGraph() = default;
  virtual std::int64_t workspace_bytes() const = 0;
  /// Launches, and nothing else. \throws plugin::Failure
  virtual void run(const CudnnPointers& pointers, void* workspace, cudaStream_t stream) = 0;
};

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  /// "cuDNN 9.19.0"
  virtual const std::string& version() const = 0;
  /// Slow: compiles. The graph must not outlive this object. \throws std::exception with cuDNN's reason
  virtual std::unique_ptr<CudnnGraph> build(const CudnnAttentionShape& shape) = 0;
};

/// Whether cudnn.cpp was built. A dry device takes it that the machine of the run has the library.
bool is_cudnn_built_in();

/// For the calling thread's GPU. Null, and \p why says why, where there is none.
std::unique_ptr<Cudnn> open_cudnn(std::string* why);

/// For a GPU that is not here, described as in CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION: its graphs can be
/// built and asked for their workspace, not run. \param capability 90 for sm_90
std::unique_ptr<Cudnn> open_cudnn_for(const std::string& description, int capability, std::string* why);

}  // namespace octachoron::cuda
