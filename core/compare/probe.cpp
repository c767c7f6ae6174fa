#include "core/compare/probe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/numerics/formats.h"

namespace octachoron {

namespace {

constexpr std::array<const char*, 3> kPasses = {"fprop", "dgrad", "wgrad"};
/// Roles of the first and the second operand of the GEMM of each pass.
constexpr std::array<std::array<oct_operand_role, 2>, 3> kRoles = {
    {{OCT_INPUT, OCT_WEIGHT}, {OCT_GRAD_OUTPUT, OCT_WEIGHT}, {OCT_GRAD_OUTPUT, OCT_INPUT}}};

double from_bf16(std::uint16_t bits) {
  return double(std::bit_cast<float>(std::uint32_t(bits) << 16));
}

template <class T, class Convert>
void append(const std::byte* data, const View& view, std::vector<double>& values, Convert convert) {
  for (std::int64_t row = 0; row < view.rows; ++row)
    for (std::int64_t column = 0; column < view.columns; ++column) {
      T element;
      std::memcpy(&element, data + (row * view.pitch + column) * std::int64_t(sizeof element),
                  sizeof element);
      values.push_back(convert(element));
    }
}

// "layers.3.mlp.fc1.fprop.query" -> module, pass, ".query"
bool split_label(const std::string& label, std::string& module, int& pass, std::string& part) {
  for (pass = 0; pass < 3; ++pass) {
    const std::string middle = std::string(".") + kPasses[pass];
    const std::size_t at = label.rfind(middle);
    if (at == std::string::npos) continue;
    module = label.substr(0, at), part = label.substr(at + middle.size());
    return part.empty() || part[0] == '.';
  }
  return false;
}

// The point of the residual stream that a norm reads.
std::string stream_point(const std::string& norm, std::int64_t layers) {
  if (norm == "norm") return text("layers.", layers - 1, ".mlp");
  const std::size_t end = norm.rfind('.');
  if (norm.ends_with(".norm2")) return norm.substr(0, end) + ".attention";
  const int layer = std::stoi(norm.substr(norm.find('.') + 1));
  return layer == 0 ? "embedding" : text("layers.", layer - 1, ".mlp");
}

}  // namespace

std::vector<double> read_values(const std::byte* data, const View& view) {
  std::vector<double> values;
  values.reserve(std::size_t(view.elements()));
  const auto as_it_is = [](auto x) { return double(x); };
  switch (view.dtype) {
    case OCT_F32:
      append<float>(data, view, values, as_it_is);
      break;
    case OCT_F64:
      append<double>(data, view, values, as_it_is);
      break;
    case OCT_BF16:
      append<std::uint16_t>(data, view, values, from_bf16);
      break;
    default:
      ensure(is_fp8(view.dtype), "values of type ", name(view.dtype));
      append<std::uint8_t>(data, view, values,
                           [&](std::uint8_t code) { return double(decode_fp8(view.dtype, code)); });
  }
  return values;
}

double cast_of(double master, DType type, float scale) {
  if (type == OCT_F64) return master;
  const float single = float(master);
  if (type == OCT_F32) return single;
  if (type == OCT_BF16) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(single);
    return from_bf16(std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }
  return decode_fp8(type, encode_fp8(type, single * scale));
}

float scale_asked(const oct_quant_spec& spec, std::span<const float> history) {
  if (spec.amax_algorithm == OCT_AMAX_FROZEN) return 0;
  float amax = 0;
  for (const float entry : history) {
    if (entry > 0 && std::isfinite(entry)) amax = std::max(amax, entry);
    if (amax > 0 && spec.amax_algorithm != OCT_AMAX_MAX) break;  // the newest
  }
  return amax > 0 ? scale_of(amax, format_maximum(DType(spec.format)), spec.margin) : 0;
}

StepProbe::StepProbe(TrainingSession& session, const Parameters& parameters)
    : session_(session),
      layers_(parameters.model.layers),
      hidden_(parameters.model.hidden),
      tokens_(parameters.batch.micro * parameters.model.sequence) {
  const auto& tensors = session.precision().plan().tensors;
  rows_.resize(tensors.size());
  for (std::size_t row = 0; row < tensors.size(); ++row) row_of_[tensors[row].name] = int(row);
}

float StepProbe::scalar(const View& view, const Call& call) const {
  float value = 0;
  std::vector<std::byte> storage;
  std::memcpy(&value, session_.training().look(view.column_range(0, 1).row_range(0, 1), call, storage), sizeof value);
  return value;
}

std::vector<double> StepProbe::values(const View& view, const Call& call) const {
  std::vector<std::byte> storage;
  return read_values(session_.training().look(view, call, storage), view);
}

// Scales and histories are as the step finds them, a calibration before it included.
void StepProbe::begin() {
  begun_ = true;
  const PrecisionState& state = session_.precision();
  for (int row = 0; row < int(rows_.size()); ++row) {
    const auto history = state.history(row);
    histories_.emplace_back(history.begin(), history.end());
    if (state.plan().tensors[row].has_history()) rows_[row].scale = state.scale(row);
  }
}

void StepProbe::look(const Issue& issue) {
  if (!begun_) begin();
  const Operation& operation = *issue.operation;
  const Call& call = session_.training().program().schedule.calls[issue.call];
  if (operation.op == OCT_QUANTIZE) look_at_cast(operation, call);
  if (call.micro_batch != 0) return;
  if (operation.op == OCT_NORM) look_at_norm(operation, call);
  if (operation.op == OCT_GEMM) look_at_product(operation, call);
}

void StepProbe::look_at_norm(const Operation& operation, const Call& call) {
  const std::string point = stream_point(operation.label, layers_);
  for (const Stream& seen : stream_)
    if (seen.name == point) return;  // computed again for the backward pass
  const View& x = operation.operands[0].view;
  stream_.push_back({point, values(x, call)});
}

void StepProbe::look_at_cast(const Operation& operation, const Call& call) {
  const auto found = row_of_.find(operation.label);
  if (found == row_of_.end()) return;
  const QuantizedTensor& tensor = session_.precision().plan().tensors[found->second];
  Row& row = rows_[found->second];
  const float scale = scalar(operation.operands[1].view, call);
  if (!row.cast_seen && !tensor.has_history()) row.scale = scale;
  if (tensor.has_history() && scale != row.scale) row.cast_scale = scale;
  if (tensor.is_weight) return;  // a window of the masters: the weight is looked at where it is read
  const View &x = operation.operands[0].view, &q = operation.operands[2].view;
  const std::vector<double> handed = values(x, call);
  for (const double value : handed)
    row.handed = std::max(row.handed, std::bit_cast<std::uint32_t>(std::fabs(float(value))));
  if (row.cast_seen || call.micro_batch != 0) return;
  row.cast_seen = true;
  const std::vector<double> cast = values(q, call);
  row.looked_at = std::int64_t(handed.size());
  for (std::size_t i = 0; i < handed.size(); ++i) {
    row.wrong += cast[i] != cast_of(handed[i], q.dtype, row.scale);
    if (!std::isfinite(handed[i])) continue;
    row.difference += (cast[i] / row.scale - handed[i]) * (cast[i] / row.scale - handed[i]);
    row.square += handed[i] * handed[i];
  }
}

void StepProbe::look_at_product(const Operation& operation, const Call& call) {
  std::string module, part;
  int pass = 0;
  if (!split_label(operation.label, module, pass, part)) return;
  const ModuleQuantization& quantization = session_.precision().plan().module(module);
  for (int k = 0; k < 2; ++k)
    if (const View& scale = operation.operands[2 + k].view; !scale.absent())
      look_at_scale(scale, quantization.row[kRoles[pass][k]], pass, call);
  const bool is_transposed = operation.i[1] == 1;
  if (pass == OCT_FPROP && is_transposed)
    look_at_weight(quantization, part, operation.operands[1].view, call);
}

// Each operand must be divided by the scale that it was cast with.
void StepProbe::look_at_scale(const View& scale, int row, int pass, const Call& call) {
  if (row >= 0 && rows_[row].product < 0 && scalar(scale, call) != rows_[row].scale)
    rows_[row].product = pass;
}

void StepProbe::look_at_weight(const ModuleQuantization& module, const std::string& part, const View& view,
                               const Call& call) {
  const std::string key = module.tensor + ".weight" + part;
  const int tensor = session_.programs().set.find(key);
  if (tensor < 0 || weights_.count(key)) return;
  weights_[key] = {module.module, tensor, view.dtype,
                   values(view, call)};
}

}  // namespace octachoron
