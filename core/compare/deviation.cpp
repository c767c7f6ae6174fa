#include "core/compare/deviation.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace octachoron {

namespace {

double square(double x) {
  return x * x;
}

struct Squares {
  double difference = 0, reference = 0;
  double ratio() const {
    if (difference == 0) return 0;
    return reference > 0 ? std::sqrt(difference / reference) : std::numeric_limits<double>::infinity();
  }
};

Squares squares(const Assembled& a, const Assembled& reference, const KeyRows& left_out) {
  ensure(a.rows == reference.rows && a.columns == reference.columns &&
             a.values.size() == reference.values.size(),
         "two tensors of a comparison have different shapes");
  Squares sum;
  for (std::int64_t i = 0; i < std::int64_t(a.values.size()); ++i) {
    if (left_out.begin <= i && i < left_out.end) continue;
    sum.difference += square(a.values[i] - reference.values[i]);
    sum.reference += square(reference.values[i]);
  }
  return sum;
}

// "layers.3." of "layers.3.mlp.fc1.bias"
std::string layer_prefix(const std::string& name) {
  return name.substr(0, name.find('.', 7) + 1);
}

double zero_share(const Tensors& gradients, const std::string& name, const KeyRows& rows) {
  double zero = 0, layer = 0;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) zero += square(gradients.at(name).values[i]);
  for (const auto& [other, tensor] : gradients)
    if (other.starts_with(layer_prefix(name)))
      for (const double value : tensor.values) layer += square(value);
  return zero == 0 ? 0 : std::sqrt(zero / layer);
}

}  // namespace

double norm_of(const Tensors& tensors) {
  double sum = 0;
  for (const auto& [name, tensor] : tensors)
    for (const double value : tensor.values) sum += square(value);
  return std::sqrt(sum);
}

double relative_distance(const Assembled& a, const Assembled& reference) {
  return squares(a, reference, {}).ratio();
}

KeyRows zero_gradient_rows(const ModelParameters& model) {
  if (model.family != ModelFamily::gpt2 || !model.qkv_bias) return {};
  const std::int64_t queries = model.heads * model.head_dim;
  return {queries, queries + model.kv_heads * model.head_dim};
}

std::vector<GradientError> gradient_errors(const Tensors& a, const Tensors& reference, const KeyRows& keys) {
  ensure(a.size() == reference.size(), a.size(), " tensors against ", reference.size());
  std::vector<GradientError> errors;
  for (const auto& [name, tensor] : reference) {
    const KeyRows left_out = name.ends_with(".attention.qkv.bias") ? keys : KeyRows{};
    errors.push_back({name, squares(a.at(name), tensor, left_out).ratio(),
                      left_out.begin < left_out.end ? zero_share(a, name, left_out) : 0});
  }
  return errors;
}

double total_error(const Tensors& a, const Tensors& reference) {
  Squares sum;
  for (const auto& [name, tensor] : reference) {
    const Squares each = squares(a.at(name), tensor, {});
    sum.difference += each.difference, sum.reference += each.reference;
  }
  return sum.ratio();
}

}  // namespace octachoron
