#include "core/model/tensors.h"

#include <cmath>

namespace octachoron {

namespace {

class TensorList {
 public:
  TensorList(const ModelShape& shape, double init_std, int tp_place)
      : shape_(shape), init_std_(init_std), place_(tp_place) {}

  void matrix(const std::string& name, TensorLayout layout, double deviation, bool replicated = false) {
    add({.logical = {name, std::move(layout)}, .deviation = deviation, .replicated = replicated});
  }
  void vector(const std::string& name, TensorLayout layout, Initial initial, bool replicated) {
    add({.logical = {name, as_vector(std::move(layout))}, .initial = initial, .replicated = replicated});
  }
  TensorLayout whole(std::int64_t rows, std::int64_t columns) const { return replicated(rows, columns, place_ == 0); }
  TensorLayout vocabulary() const {
    return rows_split(shape_.vocab, shape_.hidden, shape_.tp, place_, shape_.vocab_rows() * shape_.tp);
  }

  void norm(const std::string& name) {
    vector(name + ".weight", whole(shape_.hidden, 1), Initial::one, true);
    if (shape_.gpt2()) vector(name + ".bias", whole(shape_.hidden, 1), Initial::zero, true);
  }
  void layer(std::int64_t number) {
    const std::string prefix = "layers." + std::to_string(number);
    const double output = init_std_ / std::sqrt(2.0 * double(shape_.layers));  // residual output projections
    norm(prefix + ".norm1");
    qkv(prefix + ".attention.qkv.weight", false);
    if (shape_.qkv_bias) qkv(prefix + ".attention.qkv.bias", true);
    matrix(prefix + ".attention.out.weight",
           columns_split(shape_.hidden, shape_.attention_columns(), shape_.tp, place_), output);
    output_bias(prefix + ".attention.out.bias");
    norm(prefix + ".norm2");
    shape_.gpt2() ? plain_mlp(prefix + ".mlp", output) : gated_mlp(prefix + ".mlp", output);
  }

  std::vector<ParameterTensor> tensors;

 private:
  void add(ParameterTensor tensor) {
    tensor.key = tensor.logical.name;
    tensor.size = tensor.logical.layout.local_size();
    tensors.push_back(std::move(tensor));
  }
  // Rows q, k, v. Shared keys and values have gradients to sum over the ranks that share them: a part of their own.
  void qkv(const std::string& name, bool bias) {
    const TensorLayout layout =
        qkv_split(shape_.heads, shape_.kv_heads, shape_.head_dim, bias ? 1 : shape_.hidden, shape_.tp, place_);
    bias ? vector(name, layout, Initial::zero, false) : matrix(name, layout, init_std_);
    if (shape_.kv_sharers() == 1) return;
    ParameterTensor shared = tensors.back();
    ParameterTensor& query = tensors.back();
    const std::int64_t columns = bias ? 1 : shape_.hidden;
    query.size = shape_.local_query_rows() * columns;
    query.key += ".query";
    shared.flat_begin = query.size;
    shared.size = shape_.local_kv_rows() * columns;
    shared.key += ".key_value";
    shared.sharers = shape_.kv_sharers();
    tensors.push_back(std::move(shared));
  }
  void output_bias(const std::string& name) {
    if (shape_.gpt2()) vector(name, whole(shape_.hidden, 1), Initial::zero, true);
  }
  void plain_mlp(const std::string& prefix, double output) {
    matrix(prefix + ".fc1.weight", rows_split(shape_.ffn, shape_.hidden, shape_.tp, place_), init_std_);
    vector(prefix + ".fc1.bias", rows_split(shape_.ffn, 1, shape_.tp, place_), Initial::zero, false);
    matrix(prefix + ".fc2.weight", columns_split(shape_.hidden, shape_.ffn, shape_.tp, place_), output);
    output_bias(prefix + ".fc2.bias");
  }
  void gated_mlp(const std::string& prefix, double output) {
    matrix(prefix + ".gate_up.weight", stacked_rows_split({shape_.ffn, shape_.ffn}, shape_.hidden, shape_.tp, place_),
           init_std_);
    matrix(prefix + ".down.weight", columns_split(shape_.hidden, shape_.ffn, shape_.tp, place_), output);
  }

  const ModelShape& shape_;
  double init_std_;
  int place_;
};

}  // namespace

std::vector<ParameterTensor> model_tensors(const ModelShape& shape, double init_std, const Coordinate& at) {
  TensorList list(shape, init_std, at[int(Axis::tp)]);
  list.matrix("embedding.token.weight", list.vocabulary(), init_std);
  if (shape.gpt2())
    list.matrix("embedding.position.weight", list.whole(shape.sequence, shape.hidden), init_std, true);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) list.layer(layer);
  list.norm("norm");
  if (!shape.tied) list.matrix("head.weight", list.vocabulary(), init_std);
  return std::move(list.tensors);
}

}  // namespace octachoron
