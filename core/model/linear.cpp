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

bool training(const ModelContext& context) {
  return !context.parameters.buckets().front().gradient.absent();
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const ModelContext& context, ModuleName module,
                                           const std::string& tensor, bool bias)
    : context_(context), module_(std::move(module)), weight_(context.parameters.weight(tensor + ".weight")) {
  ask_recipe(context, module_);
  if (bias) bias_ = context.parameters.weight(tensor + ".bias");
  if (!training(context)) return;
  dweight_ = context.parameters.gradient(tensor + ".weight");
  if (bias) dbias_ = context.parameters.gradient(tensor + ".bias");
}

View ColumnParallelLinear::forward(const View& input) {
  input_ = input;
  const View gathered = context_.gather(module_.name + ".input", input);
  const View output = context_.activation(module_.name + ".output", gathered.rows, weight_.rows);
  emit_gemm(context_.builder, module_.name + ".fprop",
            {.a = gathered, .b = weight_, .bias = bias_, .d = output, .transpose_b = true});
  return output;
}

View ColumnParallelLinear::backward(const View& doutput, bool accumulate) const {
  ProgramBuilder& builder = context_.builder;
  const View gathered = context_.gather(module_.name + ".input", input_);
  if (!dbias_.absent()) emit_column_sum(builder, module_.name + ".dbias", doutput, dbias_, accumulate);
  emit_gemm(builder, module_.name + ".wgrad",
            {.a = doutput, .b = gathered, .d = dweight_, .transpose_a = true, .accumulate = accumulate});
  const View partial = context_.activation(module_.name + ".dinput", doutput.rows, weight_.columns);
  emit_gemm(builder, module_.name + ".dgrad", {.a = doutput, .b = weight_, .d = partial});
  return context_.reduce(module_.name + ".dinput", partial);
}

RowParallelLinear::RowParallelLinear(const ModelContext& context, ModuleName module,
                                     const std::string& tensor)
    : context_(context),
      module_(std::move(module)),
      weight_(context.parameters.weight(tensor + ".weight")),
      bias_(context.parameters.weight(tensor + ".bias")) {
  ask_recipe(context, module_);
  if (!training(context)) return;
  dweight_ = context.parameters.gradient(tensor + ".weight");
  dbias_ = context.parameters.gradient(tensor + ".bias");
}

View RowParallelLinear::forward(const View& input) {
  input_ = input;
  const View partial = context_.activation(module_.name + ".output", input.rows, weight_.rows);
  emit_gemm(context_.builder, module_.name + ".fprop",
            {.a = input, .b = weight_, .d = partial, .transpose_b = true});
  return context_.reduce(module_.name + ".output", partial);
}

View RowParallelLinear::backward(const View& doutput, bool accumulate) const {
  ProgramBuilder& builder = context_.builder;
  const View gathered = context_.gather(module_.name + ".doutput", doutput);
  emit_column_sum(builder, module_.name + ".dbias", doutput, dbias_, accumulate);
  emit_gemm(builder, module_.name + ".wgrad",
            {.a = gathered, .b = input_, .d = dweight_, .transpose_a = true, .accumulate = accumulate});
  const View dinput = context_.activation(module_.name + ".dinput", gathered.rows, weight_.columns);
  emit_gemm(builder, module_.name + ".dgrad", {.a = gathered, .b = weight_, .d = dinput});
  return dinput;
}

}  // namespace octachoron
