#pragma once
/// The one place that knows oneDNN, versions 2 and 3: FP32 matrix products on one thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace octachoron::cpu {

/// d [m,n] = (d +) op(a) op(b) (+ bias [n]), row-major, pitches in elements.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t pitch_a = 0, pitch_b = 0, pitch_d = 0;
  bool bias = false, accumulate = false;
};

/// "oneDNN 2.6.3", or empty if the plugin was built without it.
std::string onednn_version();
inline bool has_onednn() {
  return !onednn_version().empty();
}

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
  void run(Arguments& arguments, const float* a, const float* b, const float* bias, float* d,
           void* scratch) const;

 private:
  struct Primitive;
  Product product_;
  std::unique_ptr<Primitive> primitive_;
};

}  // namespace octachoron::cpu
