#include "core/model/linear.h"

namespace octachoron {

namespace {

// Asks the recipe how both operands of a GEMM enter it; the builder refuses what this version cannot do.
void ask_recipe(const ModelContext& context, const ModuleName& module) {
  const auto ask = [&](oct_pass pass, oct_operand_role operand) {
    context.builder.spec(module.layer, int(context.shape.layers), module.name, pass, operand);
  };
  ask(OCT_FPROP, OCT_INPUT), ask(OCT_FPROP, OCT_WEIGHT);
  ask(OCT_DGRAD, OCT_GRAD_OUTPUT), ask(OCT_DGRAD, OCT_WEIGHT);
  ask(OCT_WGRAD, OCT_GRAD_OUTPUT), ask(OCT_WGRAD, OCT_INPUT);
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const ModelContext& context, ModuleName module, const std::string& tensor)
    : context_(context), module_(std::move(module)) {
  ask_recipe(context, module_);
  const ParameterBuffers& parameters = context.parameters;
  const auto weights = parameters.parts(tensor + ".weight"), biases = parameters.parts(tensor + ".bias");
  for (std::size_t k = 0; k < weights.size(); ++k) {
    Part part{.weight = parameters.weight(weights[k]), .dweight = parameters.gradient(weights[k]), .first_row = rows_};
    if (weights.size() > 1) part.suffix = weights[k].substr(weights[k].rfind('.'));
    if (parameters.has(biases[k])) part.bias = parameters.weight(biases[k]), part.dbias = parameters.gradient(biases[k]);
    rows_ += part.weight.rows;
    parts_.push_back(std::move(part));
  }
}

View ColumnParallelLinear::forward(const View& input) {
  input_ = input;
  const View gathered = context_.gather(module_.name + ".input", input);
  const View output = context_.activation(module_.name + ".output", gathered.rows, rows_);
  for (const Part& part : parts_)
    emit_gemm(context_.builder, module_.name + ".fprop" + part.suffix,
              {.a = gathered, .b = part.weight, .bias = part.bias,
               .d = output.column_range(part.first_row, part.weight.rows), .transpose_b = true});
  return output;
}

View ColumnParallelLinear::backward(const View& doutput, bool accumulate) const {
  ProgramBuilder& builder = context_.builder;
  const View gathered = context_.gather(module_.name + ".input", input_);
  const View partial = context_.activation(module_.name + ".dinput", doutput.rows, input_.columns);
  for (const Part& part : parts_) {
    const View doutput_part = doutput.column_range(part.first_row, part.weight.rows);
    if (!part.dbias.absent())
      emit_column_sum(builder, module_.name + ".dbias" + part.suffix, doutput_part, part.dbias, accumulate);
    emit_gemm(builder, module_.name + ".wgrad" + part.suffix,
              {.a = doutput_part, .b = gathered, .d = part.dweight, .transpose_a = true, .accumulate = accumulate});
  }
  for (const Part& part : parts_)
    emit_gemm(builder, module_.name + ".dgrad" + part.suffix,
              {.a = doutput.column_range(part.first_row, part.weight.rows), .b = part.weight, .d = partial,
               .accumulate = part.first_row > 0});
  return context_.reduce(module_.name + ".dinput", partial);
}

RowParallelLinear::RowParallelLinear(const ModelContext& context, ModuleName module, const std::string& tensor)
    : context_(context),
      module_(std::move(module)),
      weight_(context.parameters.weight(tensor + ".weight")),
      dweight_(context.parameters.gradient(tensor + ".weight")) {
  ask_recipe(context, module_);
  if (!context.parameters.has(tensor + ".bias")) return;
  bias_ = context.parameters.weight(tensor + ".bias");
  dbias_ = context.parameters.gradient(tensor + ".bias");
}

View RowParallelLinear::forward(const View& input) {
  input_ = input;
  const View partial = context_.activation(module_.name + ".output", input.rows, weight_.rows);
  emit_gemm(context_.builder, module_.name + ".fprop", {.a = input, .b = weight_, .d = partial, .transpose_b = true});
  return context_.reduce(module_.name + ".output", partial);
}

View RowParallelLinear::backward(const View& doutput, bool accumulate) const {
  ProgramBuilder& builder = context_.builder;
  const View gathered = context_.gather(module_.name + ".doutput", doutput);
  if (!dbias_.absent()) emit_column_sum(builder, module_.name + ".dbias", doutput, dbias_, accumulate);
  emit_gemm(builder, module_.name + ".wgrad",
            {.a = gathered, .b = input_, .d = dweight_, .transpose_a = true, .accumulate = accumulate});
  const View dinput = context_.activation(module_.name + ".dinput", gathered.rows, weight_.columns);
  emit_gemm(builder, module_.name + ".dgrad", {.a = gathered, .b = weight_, .d = dinput});
  return dinput;
}

}  // namespace octachoron
