#include "plugins/device/cpu/onednn.h"

#include <stdexcept>

#ifdef OCTACHORON_ONEDNN
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>
#endif

namespace octachoron::cpu {

#ifdef OCTACHORON_ONEDNN
namespace {

using Dims = dnnl::memory::dims;
using Description = dnnl::memory::desc;

/// oneDNN plans for the number of threads that OpenMP would use when the primitive is made.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_;
};

Description matrix(std::int32_t type, std::int64_t rows, std::int64_t columns, bool transposed,
                   std::int64_t pitch) {
  const auto known = type == OCT_BF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  return {Dims{rows, columns}, known, transposed ? Dims{1, pitch} : Dims{pitch, 1}};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Product& p) {
  const Description a = matrix(p.operand_type, p.m, p.k, p.transpose_a, p.pitch_a),
                    b = matrix(p.operand_type, p.k, p.n, p.transpose_b, p.pitch_b),
                    d = matrix(p.result_type, p.m, p.n, false, p.pitch_d),
                    bias = matrix(OCT_F32, 1, p.n, false, p.n);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.f);
    attributes.set_post_ops(operations);
  }
#if DNNL_VERSION_MAJOR >= 3
  return p.bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, d, attributes)
                : dnnl::matmul::primitive_desc(engine, a, b, d, attributes);
#else
  const auto operation = p.bias ? dnnl::matmul::desc(a, b, bias, d) : dnnl::matmul::desc(a, b, d);
  return {operation, attributes, engine};
#endif
}

}  // namespace

struct Matmul::Primitive {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::matmul::primitive_desc description;
  dnnl::matmul matmul;
  explicit Primitive(const Product& product) : description(describe(engine, product)), matmul(description) {}
};

struct Matmul::Arguments::Handles {
  dnnl::stream stream;
  dnnl::memory a, b, bias, d, scratch;
  explicit Handles(const Primitive& p)
      : stream(p.engine),
        a(p.description.src_desc(), p.engine, nullptr),
        b(p.description.weights_desc(), p.engine, nullptr),
        d(p.description.dst_desc(), p.engine, nullptr),
        scratch(p.description.scratchpad_desc(), p.engine, nullptr) {}
};

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

std::string onednn_isa() {
  return dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
}

Matmul::Matmul(const Product& product) : product_(product) {
  const OneThread one;
  primitive_ = std::make_unique<Primitive>(product);
}

std::size_t Matmul::scratch_bytes() const {
  return primitive_->description.scratchpad_desc().get_size();
}

Matmul::Arguments::Arguments(const Matmul& matmul) : handles_(std::make_unique<Handles>(*matmul.primitive_)) {
  if (matmul.product_.bias) {
    handles_->bias = dnnl::memory(matrix(OCT_F32, 1, matmul.product_.n, false, matmul.product_.n),
                                  matmul.primitive_->engine, nullptr);
  }
}

void Matmul::run(Arguments& arguments, const void* a, const void* b, const float* bias, void* d,
                 void* scratch) const {
  Arguments::Handles& h = *arguments.handles_;
  h.a.set_data_handle(const_cast<void*>(a));
  h.b.set_data_handle(const_cast<void*>(b));
  h.d.set_data_handle(d);
  h.scratch.set_data_handle(scratch);
  if (product_.bias) h.bias.set_data_handle(const_cast<float*>(bias));
  // The C call: the one of C++ copies its arguments into containers each time.
  const dnnl_exec_arg_t list[] = {{DNNL_ARG_SRC, h.a.get()},
                                  {DNNL_ARG_WEIGHTS, h.b.get()},
                                  {DNNL_ARG_DST, h.d.get()},
                                  {DNNL_ARG_SCRATCHPAD, h.scratch.get()},
                                  {DNNL_ARG_BIAS, product_.bias ? h.bias.get() : nullptr}};
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_->matmul.get(), h.stream.get(), product_.bias ? 5 : 4, list);
  if (status != dnnl_success) throw std::runtime_error("oneDNN could not execute a matrix product");
}
#else
struct Matmul::Primitive {};
struct Matmul::Arguments::Handles {};
std::string onednn_version() {
  return {};
}
std::string onednn_isa() {
  return {};
}
Matmul::Matmul(const Product&) {
  throw std::runtime_error("this plugin was built without oneDNN");
}
std::size_t Matmul::scratch_bytes() const {
  return 0;
}
Matmul::Arguments::Arguments(const Matmul&) {}
void Matmul::run(Arguments&, const void*, const void*, const float*, void*, void*) const {}
#endif

Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul::Arguments::~Arguments() = default;
Matmul::Arguments::Arguments(Arguments&&) noexcept = default;

}  // namespace octachoron::cpu
