#include "core/schedule/example_program.h"

#include "core/program/emit.h"

namespace octachoron {

namespace {

// Operands whose products are easy to check: activations of 1, weights of 1/hidden, so that each linear
// gives 1.
class Example {
 public:
  Example(const Parameters& parameters, const Target& target)
      : builder_(target),
        pattern_(parameters.example.pattern),
        hidden_(parameters.model.hidden),
        tokens_(parameters.batch.micro * parameters.model.sequence),
        shard_(hidden_ / parameters.grid.tp) {}

  StepProgram build() {
    builder_.call(builder_.segment("inputs"));
    input_ = filled("input", tokens_, hidden_, 1.0);
    const View shard = filled("weight.shard", shard_, hidden_, 1.0 / double(hidden_));
    second_weight_ = filled("weight.second", hidden_, hidden_, 1.0 / double(hidden_));
    consumer_weight_ = filled("weight.consumer", hidden_, hidden_, 1.0 / double(hidden_));

    builder_.call(builder_.segment("pattern"));
    // Features are rows, [hidden / tp, tokens], so that the gathered rows are those of the whole matrix.
    const View local = matrix("local", shard_, tokens_);
    emit_gemm(builder_, ExampleLabels::linear, {.a = shard, .b = input_, .d = local, .transpose_b = true});
    gathered_ =
        builder_.all_gather({Axis::tp, "activation"}, builder_.lane("tp"), ExampleLabels::gather, local);
    View second, consumed;
    if (pattern_ == ExamplePattern::wait_at_once) {
      consumed = consume();
      second = second_linear();
    } else {
      second = second_linear();
      consumed = consume();
    }
    const View sum = matrix("output", tokens_, hidden_);
    builder_.set_kept(sum);
    emit_add(builder_, ExampleLabels::sum, second, consumed, {}, sum);
    return builder_.finish();
  }

 private:
  View matrix(const char* name, std::int64_t rows, std::int64_t columns) {
    return builder_.matrix(name, builder_.type(OCT_STORAGE_ACTIVATION), rows, columns,
                           MemoryClass::activation);
  }
  View filled(const char* name, std::int64_t rows, std::int64_t columns, double value) {
    const View view = matrix(name, rows, columns);
    emit_fill(builder_, name, view, value);
    return view;
  }
  View product(const char* name, const View& features, bool transposed, const View& weight) {
    const View result = matrix(name, tokens_, hidden_);
    emit_gemm(builder_, name,
              {.a = features, .b = weight, .d = result, .transpose_a = transposed, .transpose_b = true});
    return result;
  }
  View second_linear() {
    return pattern_ == ExamplePattern::dependent
               ? product(ExampleLabels::second, gathered_, true, second_weight_)
               : product(ExampleLabels::second, input_, false, second_weight_);
  }
  View consume() { return product(ExampleLabels::consumer, gathered_, true, consumer_weight_); }

  ProgramBuilder builder_;
  ExamplePattern pattern_;
  std::int64_t hidden_, tokens_, shard_;
  View input_, second_weight_, consumer_weight_, gathered_;
};

}  // namespace

StepProgram build_example(const Parameters& parameters, const Target& target) {
  return Example(parameters, target).build();
}

}  // namespace octachoron
