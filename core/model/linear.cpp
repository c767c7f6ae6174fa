#include "core/model/linear.h"

namespace octachoron {

namespace {

LinearOperand operand(const ModelContext& context, const ModuleQuantization& module, oct_operand_role role, const View& x) {
  const int row = module.row[role];
  return {x, row < 0 ? Quantized{} : context.quantizer.cast(row, x)};
}

LinearOperand weight(const ModelContext& context, const ModuleQuantization& module, const std::string& key) {
  const int row = module.row[OCT_WEIGHT];
  return {context.parameters.weight(key),
          row < 0 ? Quantized{} : Quantized{context.parameters.quantized_weight(key), context.quantizer.scale(row)}};
}

// The rows of all TP ranks; bytes travel where the operand was cast, for its scale is shared.
Quantized gather(const ModelContext& context, const std::string& label, const Quantized& local) {
  return {context.gather(label, local.data), local.scale};
}

Gemm gemm(const Quantized& a, const Quantized& b, bool fast) {
  return {.a = a.data, .b = b.data, .a_scale = a.scale, .b_scale = b.scale, .fast_accumulation = fast};
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const ModelContext& context, const std::string& module)
    : context_(context), module_(context.quantizer.plan().module(module)) {
  const ParameterBuffers& parameters = context.parameters;
  const auto weights = parameters.parts(module_.tensor + ".weight"), biases = parameters.parts(module_.tensor + ".bias");
  for (std::size_t k = 0; k < weights.size(); ++k) {
    Part part{.weight = weight(context, module_, weights[k]), .dweight = parameters.gradient(weights[k]), .first_row = rows_,
              .rows = parameters.rows(weights[k])};
    if (weights.size() > 1) part.suffix = weights[k].substr(weights[k].rfind('.'));
    if (parameters.has(biases[k])) part.bias = parameters.weight(biases[k]), part.dbias = parameters.gradient(biases[k]);
    rows_ += part.rows;
    parts_.push_back(std::move(part));
  }
}

View ColumnParallelLinear::forward(const View& input) {
  input_ = operand(context_, module_, OCT_INPUT, input);
  const bool quantized = module_.quantized[OCT_FPROP];
  const Quantized gathered = gather(context_, module_.module + ".input", input_.in(quantized));
  const View output = context_.activation(module_.module + ".output", gathered.data.rows, rows_);
  for (const Part& part : parts_) {
    Gemm product = gemm(gathered, part.weight.in(quantized), module_.fast_accumulation[OCT_FPROP]);
    product.d = output.column_range(part.first_row, part.rows), product.bias = part.bias, product.transpose_b = true;
    context_.quantizer.product(module_.module + ".fprop" + part.suffix, product);
  }
  return output;
}

View ColumnParallelLinear::backward(const View& doutput, bool accumulate) const {
  const std::string& name = module_.module;
  const LinearOperand gradient = operand(context_, module_, OCT_GRAD_OUTPUT, doutput);
  const auto rows_of = [](Quantized whole, const Part& part) {
    whole.data = whole.data.column_range(part.first_row, part.rows);
    return whole;
  };
  const bool wgrad = module_.quantized[OCT_WGRAD], dgrad = module_.quantized[OCT_DGRAD];
  const Quantized gathered = gather(context_, name + ".input", input_.in(wgrad));
  const View partial = context_.activation(name + ".dinput", doutput.rows, input_.plain.columns);
  for (const Part& part : parts_) {
    if (!part.dbias.absent())
      emit_column_sum(context_.builder, name + ".dbias" + part.suffix, doutput.column_range(part.first_row, part.rows),
                      part.dbias, accumulate);
    Gemm product = gemm(rows_of(gradient.in(wgrad), part), gathered, module_.fast_accumulation[OCT_WGRAD]);
    product.d = part.dweight, product.transpose_a = true, product.accumulate = accumulate;
    context_.quantizer.product(name + ".wgrad" + part.suffix, product);
  }
  for (const Part& part : parts_) {
    Gemm product =
        gemm(rows_of(gradient.in(dgrad), part), part.weight.in(dgrad), module_.fast_accumulation[OCT_DGRAD]);
    product.d = partial, product.accumulate = part.first_row > 0;
    context_.quantizer.product(name + ".dgrad" + part.suffix, product);
  }
  return context_.reduce(name + ".dinput", partial);
}

RowParallelLinear::RowParallelLinear(const ModelContext& context, const std::string& module)
    : context_(context),
      module_(context.quantizer.plan().module(module)),
      weight_(weight(context, module_, module_.tensor + ".weight")),
      dweight_(context.parameters.gradient(module_.tensor + ".weight")) {
  if (!context.parameters.has(module_.tensor + ".bias")) return;
  bias_ = context.parameters.weight(module_.tensor + ".bias");
  dbias_ = context.parameters.gradient(module_.tensor + ".bias");
}

View RowParallelLinear::forward(const View& input) {
  input_ = operand(context_, module_, OCT_INPUT, input);
  const bool quantized = module_.quantized[OCT_FPROP];
  const View partial = context_.activation(module_.module + ".output", input.rows, context_.shape.hidden);
  Gemm product = gemm(input_.in(quantized), weight_.in(quantized), module_.fast_accumulation[OCT_FPROP]);
  product.d = partial, product.transpose_b = true;
  context_.quantizer.product(module_.module + ".fprop", product);
  return context_.reduce(module_.module + ".output", partial);
}

View RowParallelLinear::backward(const View& doutput, bool accumulate) const {
  const std::string& name = module_.module;
  const LinearOperand local = operand(context_, module_, OCT_GRAD_OUTPUT, doutput);
  const bool wgrad = module_.quantized[OCT_WGRAD], dgrad = module_.quantized[OCT_DGRAD];
  const Quantized gradient = gather(context_, name + ".doutput", local.in(wgrad));
  const Quantized gradient_of_input = wgrad == dgrad ? gradient : gather(context_, name + ".doutput", local.in(dgrad));
  if (!dbias_.absent()) emit_column_sum(context_.builder, name + ".dbias", doutput, dbias_, accumulate);

  Gemm weights = gemm(gradient, input_.in(wgrad), module_.fast_accumulation[OCT_WGRAD]);
  weights.d = dweight_, weights.transpose_a = true, weights.accumulate = accumulate;
  context_.quantizer.product(name + ".wgrad", weights);

  const View dinput = context_.activation(name + ".dinput", gradient.data.rows, input_.plain.columns);
  Gemm inputs = gemm(gradient_of_input, weight_.in(dgrad), module_.fast_accumulation[OCT_DGRAD]);
  inputs.d = dinput;
  context_.quantizer.product(name + ".dgrad", inputs);
  return dinput;
}

}  // namespace octachoron
