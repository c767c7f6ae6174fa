#pragma once
/// The one place that knows oneDNN, versions 2 and 3: matrix products on one thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/plugin/operations.h"

namespace octachoron::cpu {

/// d [m,n] = (d +) op(a) op(b) (+ bias [n] in FP32), row-major, pitches in elements; summed in FP32.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t pitch_a = 0, pitch_b = 0, pitch_d = 0;
  bool bias = false, accumulate = false;
  std::int32_t operand_type = OCT_F32, result_type = OCT_F32;  ///< FP32 or BF16
};

/// "oneDNN 2.6.3", or empty if the plugin was built without it.
std::string onednn_version();
/// The best instruction set that oneDNN finds and ONEDNN_MAX_CPU_ISA allows, as "cpu_isa_avx512_core_bf16";
/// empty without oneDNN.
std::string onednn_isa();

/// A prepared product. run() allocates nothing of its own.
class Matmul {
 public:
  /// \throws std::runtime_error if oneDNN has no implementation for the shape
  explicit Matmul(const Product& product);
  ~Matmul();
  Matmul(Matmul&&) noexcept;

  std::size_t scratch_bytes() const;
  const Product& product() const { return product_; }

  /// Handles that carry the pointers of one execution at a time: one set for each thread that runs the
  /// product.
  class Arguments {
   public:
    explicit Arguments(const Matmul& matmul);
    ~Arguments();
    Arguments(Arguments&&) noexcept;

   private:
    friend class Matmul;
    struct Handles;
    std::unique_ptr<Handles> handles_;
  };
  /// \param scratch scratch_bytes() of memory, aligned to 64 bytes
  void run(Arguments& arguments, const void* a, const void* b, const float* bias, void* d,
           void* scratch) const;

 private:
  struct Primitive;
  Product product_;
  std::unique_ptr<Primitive> primitive_;
};

}  // namespace octachoron::cpu
