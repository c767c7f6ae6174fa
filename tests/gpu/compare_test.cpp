/// Every operation at awkward sizes on two devices with the same numbers: the results agree within what the
/// order of sums and one rounding explain, and a rerun gives equal bits.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/compare.h"

namespace octachoron::gpu {
namespace {

using namespace conformance;

Operand ids(std::int64_t tokens, std::int64_t vocabulary, bool ignored) {
  Operand o = zeros(OCT_I32, 1, tokens);
  for (std::int64_t t = 0; t < tokens; ++t) {
    // A third of the tokens are one id, so that rows of very different lengths are summed.
    o.values[std::size_t(t)] = double(t % 3 == 0 ? 7 % vocabulary : t * 7919 % vocabulary);
    if (ignored && t % 11 == 5) o.values[std::size_t(t)] = -1;
  }
  return o;
}

Operand scalars() {
  return filled(OCT_F64, 1, 8, {1e-3, 5, 1. / 117, 0, 0, 0, 0, 0});
}

/// A matrix with gaps between its rows, and unaligned ones.
Operand gapped(DType type, std::int64_t rows, std::int64_t columns, unsigned seed, double scale = 1) {
  return with_gap(random(type, rows, columns, seed, scale), 3);
}

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases;
  for (const std::int64_t columns : {1, 129, 768, 4099}) {
    const std::string size = " 61 x " + std::to_string(columns);
    const std::int64_t rows = 61;
    cases.push_back({"add" + size, OCT_ADD, [=](DType t) {
                       return std::vector<Operand>{random(t, rows, columns, 1), random(t, rows, columns, 2),
                                                   random(t, 1, columns, 3), zeros(t, rows, columns)};
                     }});
    cases.push_back({"copy" + size, OCT_COPY, [=](DType t) {
                       return std::vector<Operand>{gapped(t, rows, columns, 1),
                                                   zeros(t == OCT_F32 ? OCT_BF16 : OCT_F32, rows, columns)};
                     }});
    for (const std::int64_t gap : {0, 8}) {
      cases.push_back({"convert" + size, OCT_COPY, [=](DType t) {
                         return std::vector<Operand>{with_gap(random(t, rows, columns, 1), gap),
                                                     zeros(t == OCT_F32 ? OCT_BF16 : OCT_F32, rows, columns)};
                       }});
      cases.push_back({"move" + size, OCT_COPY, [=](DType t) {
                         return std::vector<Operand>{with_gap(random(t, rows, columns, 1), gap),
                                                     with_gap(zeros(t, rows, columns), gap)};
                       }});
      cases.push_back({"fill" + size,
                       OCT_FILL,
                       [=](DType t) { return std::vector<Operand>{with_gap(zeros(t, rows, columns), gap)}; },
                       {.f = {1.25}}});
    }
    cases.push_back({"gelu" + size, OCT_GELU, [=](DType t) {
                       return std::vector<Operand>{random(t, rows, columns, 1, 2), zeros(t, rows, columns)};
                     }});
    cases.push_back({"gelu_backward" + size, OCT_GELU_BACKWARD, [=](DType t) {
                       return std::vector<Operand>{random(t, rows, columns, 1, 2),
                                                   random(t, rows, columns, 2), zeros(t, rows, columns)};
                     }});
    cases.push_back(
        {"swiglu" + size, OCT_SWIGLU, [=](DType t) {
           return std::vector<Operand>{random(t, rows, 2 * columns, 1, 2), zeros(t, rows, columns)};
         }});
    cases.push_back({"swiglu_backward" + size, OCT_SWIGLU_BACKWARD, [=](DType t) {
                       return std::vector<Operand>{gapped(t, rows, 2 * columns, 1, 2),
                                                   gapped(t, rows, columns, 2), zeros(t, rows, 2 * columns)};
                     }});
  }
  return cases;
}

/// Rows for each way that a kernel takes: one warp a row, several, a whole block and two blocks' worth, more
/// rows than all blocks hold at once, pieces of 16 bytes that do not fill the threads, none at all, more
/// columns than registers.
constexpr RowShape kRowShapes[] = {{61, 5},     {2500, 768},     {61, 768, 8}, {61, 770},  {61, 1024, 3},
                                   {600, 1600}, {61, 2048},      {300, 4096},  {40, 6400}, {21, 9001},
                                   {290, 8192}, {11, 12296, 16}, {7, 17000}};

std::vector<Case> norm_cases() {
  std::vector<Case> cases;
  for (const RowShape s : kRowShapes) {
    const auto numbers = [=](DType t, unsigned seed, double scale = 1) {
      return with_gap(random(t, s.rows, s.columns, seed, scale), s.gap);
    };
    const auto row = [=](DType t, unsigned seed) { return random(t, 1, s.columns, seed); };
    for (const int rms : {0, 1}) {
      const std::string name = std::string(rms ? " rms " : " layer ") + std::to_string(s.rows) + " x " +
                               std::to_string(s.columns) + " + " + std::to_string(s.gap);
      cases.push_back({"norm" + name,
                       OCT_NORM,
                       [=](DType t) {
                         return std::vector<Operand>{numbers(t, 1, 3), row(t, 2), rms ? absent() : row(t, 3),
                                                     numbers(t, 9), zeros(OCT_F32, s.rows, 2)};
                       },
                       {.i = {rms}, .f = {1e-5}},
                       double(s.columns)});
      cases.push_back({"norm_backward" + name,
                       OCT_NORM_BACKWARD,
                       [=](DType t) {
                         std::vector<Operand> o = {numbers(t, 1), numbers(t, 2), row(t, 3),
                                                   random(OCT_F32, s.rows, 2, 4),
                                                   rms ? absent() : numbers(t, 5)};
                         o.push_back(rms ? numbers(t, 9) : alias_of(o, 4));
                         o.push_back(row(OCT_F32, 6));
                         o.push_back(rms ? absent() : row(OCT_F32, 7));
                         return o;
                       },
                       {.i = {rms, 1}},
                       double(s.columns + s.rows),
                       true});
    }
  }
  for (const std::int64_t columns : {5, 768, 1600, 4099}) {
    cases.push_back(
        {"column_sum 1031 x " + std::to_string(columns),
         OCT_COLUMN_SUM,
         [=](DType t) {
           return std::vector<Operand>{gapped(t, 1031, columns, 1), random(OCT_F32, 1, columns, 2)};
         },
         {.i = {1}},
         1031});
  }
  return cases;
}

std::vector<Case> table_cases() {
  std::vector<Case> cases;
  for (const std::int64_t columns : {33, 768, 2049}) {
    const std::string size = " H " + std::to_string(columns);
    const std::int64_t tokens = 1500, rows = 777;
    cases.push_back({"embedding" + size,
                     OCT_EMBEDDING,
                     [=](DType t) {
                       return std::vector<Operand>{ids(tokens, 900, false), random(t, rows, columns, 1),
                                                   zeros(t, tokens, columns)};
                     },
                     {.i = {5}}});
    for (const int accumulate : {0, 1})
      cases.push_back({"embedding_backward" + size,
                       OCT_EMBEDDING_BACKWARD,
                       [=](DType t) {
                         return std::vector<Operand>{ids(tokens, 900, false), random(t, tokens, columns, 1),
                                                     random(OCT_F32, rows, columns, 2)};
                       },
                       {.i = {5, accumulate}},
                       500});
    cases.push_back(
        {"position_backward" + size,
         OCT_POSITION_BACKWARD,
         [=](DType t) {
           return std::vector<Operand>{random(t, tokens, columns, 1), random(OCT_F32, 100, columns, 2)};
         },
         {.i = {130, 100, 1}},
         15});
  }
  for (const std::int64_t d : {2, 64, 80, 128, 256})
    for (const std::int64_t direction : {1, -1})
      cases.push_back({"rope D " + std::to_string(d),
                       OCT_ROPE,
                       [=](DType t) { return std::vector<Operand>{random(t, 300, 8 * d, 1)}; },
                       {.i = {150, 4, 2, d, direction, 4000, 1}, .f = {10000}}});
  return cases;
}

std::vector<Case> loss_cases() {
  std::vector<Case> cases;
  // Whole pieces of 16 bytes; rows that begin anywhere; more columns than all threads hold.
  for (const auto& [tokens, columns, gap] : {RowShape{37, 40}, RowShape{37, 5003}, RowShape{23, 50257},
                                             RowShape{37, 50304}, RowShape{11, 128256, 8}}) {
    const std::string size =
        " " + std::to_string(tokens) + " x " + std::to_string(columns) + " + " + std::to_string(gap);
    const std::int64_t vocabulary = columns - 3;
    cases.push_back({"loss_statistics" + size,
                     OCT_LOSS_STATISTICS,
                     [=, tokens = tokens, columns = columns, gap = gap](DType t) {
                       return std::vector<Operand>{with_gap(random(t, tokens, columns, 1, 4), gap),
                                                   ids(tokens, vocabulary, true), zeros(OCT_F32, tokens, 3)};
                     },
                     {.i = {0, vocabulary}},
                     double(columns)});
    cases.push_back({"loss" + size,
                     OCT_LOSS,
                     [=, tokens = tokens, columns = columns, gap = gap](DType t) {
                       Operand statistics = zeros(OCT_F32, tokens, 3);
                       for (std::int64_t r = 0; r < tokens; ++r)
                         for (std::int64_t c = 0; c < 3; ++c)
                           statistics.values[std::size_t(3 * r + c)] = c == 0 ? 12 : c == 1 ? 9.5 : 3.25;
                       std::vector<Operand> o = {with_gap(random(t, tokens, columns, 1, 4), gap),
                                                 ids(tokens, vocabulary, true), statistics, scalars()};
                       // In place; apart, at other places of 16 bytes.
                       o.push_back(tokens == 37 ? alias_of(o, 0)
                                                : with_gap(zeros(t, tokens, columns), gap > 0 ? 1 : 0));
                       o.push_back(filled(OCT_F64, 1, 1, {10}));
                       return o;
                     },
                     {.i = {0, vocabulary, 1, 1}}});
  }
  return cases;
}

std::vector<Case> optimizer_cases() {
  std::vector<Case> cases;
  for (const std::int64_t n : {1, 1000, 300007}) {
    const std::string size = " " + std::to_string(n);
    cases.push_back({"sum_of_squares" + size,
                     OCT_SUM_OF_SQUARES,
                     [=](DType t) {
                       return std::vector<Operand>{random(t, 1, n, 1), filled(OCT_F64, 1, 1, {3})};
                     },
                     {.i = {1}, .f = {0.5}}});
    cases.push_back({"adamw" + size,
                     OCT_ADAMW,
                     [=](DType t) {
                       Operand square = random(OCT_F32, 1, n, 4, 0.1);
                       for (double& v : square.values) v = rounded(OCT_F32, v * v);
                       return std::vector<Operand>{random(t, 1, n, 1),
                                                   scalars(),
                                                   filled(OCT_F64, 1, 4, {1, 0.3, 1, 0}),
                                                   random(OCT_F32, 1, n, 2),
                                                   random(OCT_F32, 1, n, 3, 0.1),
                                                   square,
                                                   zeros(OCT_BF16, 1, n)};
                     },
                     {.f = {0.9, 0.95, 1e-8, 0.1}}});
  }
  return cases;
}

std::vector<Case> attention_cases() {
  struct Shape {
    std::int64_t batch, sequence, heads, key_heads, size;
  };
  std::vector<Case> cases;
  for (const Shape s :
       {Shape{1, 1, 1, 1, 2}, Shape{2, 37, 3, 3, 20}, Shape{1, 257, 4, 2, 64}, Shape{1, 300, 8, 2, 128},
        Shape{1, 129, 2, 1, 80}, Shape{2, 100, 2, 1, 256}, Shape{1, 1000, 1, 1, 64}}) {
    const std::int64_t tokens = s.batch * s.sequence, columns = (s.heads + 2 * s.key_heads) * s.size;
    const Attributes a = {.i = {s.sequence, s.heads, s.key_heads, s.size},
                          .f = {1 / std::sqrt(double(s.size))}};
    const std::string name = " S " + std::to_string(s.sequence) + " D " + std::to_string(s.size);
    // With gaps, which leave it to the own kernels, and without.
    for (const std::int64_t gap : {3, 0}) {
      cases.push_back({"attention" + name + " gap " + std::to_string(gap), OCT_ATTENTION,
                       [=](DType t) {
                         return std::vector<Operand>{with_gap(random(t, tokens, columns, 1), gap),
                                                     zeros(t, tokens, s.heads * s.size),
                                                     zeros(OCT_F32, tokens, s.heads)};
                       },
                       a, double(s.sequence), true});
    }
    cases.push_back({"attention_backward" + name, OCT_ATTENTION_BACKWARD,
                     [=](DType t) {
                       // Any numbers will do for out and for a log-sum-exp large enough.
                       Operand lse = random(OCT_F32, tokens, s.heads, 4);
                       for (double& v : lse.values) v = rounded(OCT_F32, 6 + v);
                       return std::vector<Operand>{
                           random(t, tokens, columns, 1), random(t, tokens, s.heads * s.size, 2), lse,
                           random(t, tokens, s.heads * s.size, 3), zeros(t, tokens, columns)};
                     },
                     a, double(s.sequence), true});
  }
  return cases;
}

std::vector<Case> gemm_cases() {
  std::vector<Case> cases;
  struct Shape {
    std::int64_t m, n, k;
  };
  for (const Shape s : {Shape{1, 1, 1}, Shape{129, 65, 257}, Shape{256, 384, 512}, Shape{112, 48, 4096}}) {
    for (int bits = 0; bits < 16; ++bits) {
      const bool ta = bits & 1, tb = bits & 2, add = bits & 4, f32 = bits & 8;
      cases.push_back({"gemm " + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                           (ta ? " A'" : "") + (tb ? " B'" : "") + (add ? " add" : "") +
                           (f32 ? " to f32" : " + bias"),
                       OCT_GEMM,
                       [=](DType t) {
                         return std::vector<Operand>{random(t, ta ? s.k : s.m, ta ? s.m : s.k, 1),
                                                     random(t, tb ? s.n : s.k, tb ? s.k : s.n, 2),
                                                     absent(),
                                                     absent(),
                                                     f32 ? absent() : random(t, 1, s.n, 3),
                                                     random(f32 ? OCT_F32 : t, s.m, s.n, 4)};
                       },
                       {.i = {ta, tb, add, 0}},
                       double(s.k)});
    }
  }
  return cases;
}

TEST(Compare, Elementwise) {
  compare(elementwise_cases());
}
TEST(Compare, Norms) {
  compare(norm_cases());
}
TEST(Compare, Tables) {
  compare(table_cases());
}
TEST(Compare, Loss) {
  compare(loss_cases());
}
TEST(Compare, Optimizer) {
  compare(optimizer_cases());
}
TEST(Compare, Attention) {
  compare(attention_cases());
}
TEST(Compare, Gemm) {
  compare(gemm_cases());
}

}  // namespace
}  // namespace octachoron::gpu
