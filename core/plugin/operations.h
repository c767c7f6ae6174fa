/// \file
/// The closed, versioned set of operations, their operands and attributes. Part of the plugin ABI (C only).
///
/// Every operand is a row-major matrix with a pitch. Letters: T tokens of the rows at hand (row t = sequence
/// b * S + s of the micro-batch), S sequence, H hidden, V vocabulary rows of this rank, N heads, K key/value
/// heads, D head size. "x?" may be absent (rows 0, pointer null). "-> y" is written; "<> y" is written, or
/// also read where `accumulate` is 1 (y += result). Types: what an operand list does not say is the type of
/// the first operand; statistics carry the storage type of statistics; scalars of the step are F64; token ids
/// are I32, -1 in targets means ignored. Sums over tokens, columns and rows run in at least FP32; an
/// operation's result must not depend on its thread count.
///
/// **A cast fused into the operation that makes its input.** OCT_NORM, OCT_GELU and OCT_SWIGLU (their y) and
/// OCT_NORM_BACKWARD, OCT_GELU_BACKWARD and OCT_SWIGLU_BACKWARD (their dx) may have OCT_CAST_OPERANDS more behind
/// all of their own (absent ones included):
///     scale F32 [1,1] -> row [R,C], <> amax? U32 [1,1], <> counters? U64 [1,3]
/// They get, bit for bit, what OCT_QUANTIZE of y or dx would give them: what is cast, measured and counted is the
/// value after it was rounded to the type of y or dx, that of x. Beside them y or dx may be absent. A device need not
/// support this: who builds programs asks query().
#ifndef OCTACHORON_PLUGIN_OPERATIONS_H
#define OCTACHORON_PLUGIN_OPERATIONS_H
#include <stddef.h>
#include <stdint.h>

typedef enum oct_dtype {
  OCT_F32 = 0,
  OCT_F64 = 1,
  OCT_BF16 = 2,
  OCT_F16 = 3,
  OCT_E4M3 = 4,
  OCT_E5M2 = 5,
  OCT_E8M0 = 6,
  OCT_U8 = 7,
  OCT_I32 = 8,
  OCT_U32 = 9,
  OCT_U64 = 10,
  OCT_DTYPES = 11
} oct_dtype;

typedef enum oct_op {
  OCT_FILL = 1, /* -> out; f0 value */
  OCT_COPY = 2, /* in -> out: converts the type, rounds to nearest even; same rows and columns */
  OCT_ADD = 3,  /* a, b, bias? -> out: out = a + b (+ bias [1,C] on every row); out may be a or b */
  OCT_GEMM =
      4, /* a, b, a_scale?, b_scale?, bias? <> d [m,n]: d = op(a) op(b) (1/a_scale) (1/b_scale) + bias [1,n];
            i0 transpose a, i1 transpose b, i2 accumulate (the scaled product is added), i3 fast accumulation.
            a and b in FP8 (either format each) come with their scales, F32 [1,1], at addresses that are multiples
            of 16; operands of other types without */
  OCT_COLUMN_SUM = 5, /* x [T,C] <> sum [1,C]; i0 accumulate */
  OCT_QUANTIZE =
      6, /* x [R,C], scale F32 [1,1] -> row? [R,C], column? [C,R] (the same values transposed), <> amax? U32 [1,1],
            <> counters? U64 [1,3] (saturated, flushed, nonfinite): contract 1.4, 1.7. row and column in OCT_E4M3 or
            OCT_E5M2; amax as OCT_AMAX with accumulate; counters grow. i0 = 1: a window: x is [1,n] and its first
            element is number i1 of a sequence of which only those from i2 to below i3 are treated; the others of
            row stay as they are, and there is no column */
  OCT_NORM = 7,     /* x [T,H], weight [1,H], bias? [1,H] -> y [T,H], statistics [T,2] (mean, 1/deviation);
                       f0 epsilon; i0 0 LayerNorm, 1 RMSNorm (mean is 0) */
  OCT_NORM_BACKWARD =
      8,        /* dy, x, weight, statistics, residual? [T,H] -> dx, <> dweight [1,H], <> dbias? [1,H]:
                   dx = residual + backward(dy); i0 as OCT_NORM, i1 accumulate; dx may be residual or dy */
  OCT_GELU = 9, /* x -> y; tanh form */
  OCT_GELU_BACKWARD = 10,   /* x, dy -> dx; dx may be dy */
  OCT_SWIGLU = 11,          /* x [T,2F] (gate, up) -> y [T,F] = silu(gate) * up */
  OCT_SWIGLU_BACKWARD = 12, /* x [T,2F], dy [T,F] -> dx [T,2F] */
  OCT_ROPE = 13, /* <> qkv [T,(N+2K)D] in place on q and k; i0 sequence S of the rows, i1 N, i2 K, i3 D,
                    i4 -1 for the transposed rotation (backward), i5 position of row 0; f0 theta; i6
                    accumulate = 1 always */
  OCT_ATTENTION =
      14, /* qkv [T,(N+2K)D] (q, k, v by heads) -> out [T,N*D], lse [T,N] (log-sum-exp, natural);
             causal; i0 S, i1 N, i2 K, i3 D; f0 scale of q k^T. The score matrix is never stored */
  OCT_ATTENTION_BACKWARD = 15, /* qkv, out, lse, dout -> dqkv; attributes as OCT_ATTENTION */
  OCT_EMBEDDING =
      16, /* ids [1,T], table [V,H] -> out [T,H]; i0 id of the table's first row; other ids give 0 */
  OCT_EMBEDDING_BACKWARD = 17, /* ids, dout [T,H] <> dtable [V,H]; i0 first id, i1 accumulate */
  OCT_POSITION = 18,           /* x [T,H], table [S,H] -> out = x + table[(row + i0) mod S]; out may be x;
                                  i0 token number of row 0, i1 S */
  OCT_POSITION_BACKWARD = 19,  /* dout [T,H] <> dtable [S,H]; i0, i1 as OCT_POSITION; i2 accumulate */
  OCT_LOSS_STATISTICS =
      20, /* logits [T,V], targets [1,T] -> statistics [T,3]: maximum m, sum of exp(l - m), logit of
             the target (0 where it is elsewhere); i0 id of column 0, i1 vocabulary: columns whose id
             is not below it do not exist (all absent: m = -infinity, sum 0) */
  OCT_LOSS =
      21, /* logits [T,V], targets [1,T], statistics [P*T,3] (of all P parts, stacked), scalars F64 [1,8]
             -> dlogits? [T,V] = (softmax - onehot) * inverse_tokens (0 for ignored rows and absent columns;
             may be logits), <> loss F64 [1,1] += sum over valid rows of -log softmax[target];
             i0, i1 as OCT_LOSS_STATISTICS, i2 P, i3 accumulate of loss = 1 always */
  OCT_SUM_OF_SQUARES = 22, /* x <> sum F64 [1,1]; i0 accumulate; f0 factor of the sum (0: 1); summed in F64 */
  OCT_CLIP =
      23, /* control F64 [1,4] (sums of squares: split, replicated; loss sum; unused), scalars F64 [1,8]
             -> result F64 [1,4]: gradient norm, clip factor, finite flag (1 or 0), mean loss; f0 clip, 0 off
           */
  OCT_ADAMW = 24, /* gradient, scalars F64 [1,8], result F64 [1,4] <> master, exp_avg, exp_avg_sq -> weight?
                     (compute copy); f0 beta1, f1 beta2, f2 epsilon, f3 decay. Does nothing where the flag
                     is 0. g = gradient * factor; decoupled decay; epsilon outside the root; contract 1.13 */
  OCT_AMAX =
      25, /* x <> amax U32 [1,1]: bits of the largest absolute value as F32 (of F64: rounded to nearest), integer
             maximum, so that NaN beats infinity beats all numbers; i0 accumulate; i4 = 1: the window of
             OCT_QUANTIZE in i1, i2, i3 */
  OCT_UPDATE_SCALE =
      26, /* amax U32 [n,1] <> history F32 [n,W] (newest first), <> scale F32 [n,1] (any pitch): row by row, a finite
             amax enters the history and the oldest entry leaves it; one that is not finite leaves the row as it is.
             Then the scale is made from the largest positive entry (i1 = OCT_AMAX_MAX) or the newest positive one
             (OCT_AMAX_MOST_RECENT); OCT_AMAX_FROZEN: from the newest, and only where the row had no positive
             entry before. No positive entry: the scale stays. f0 format maximum, i0 margin: contract 1.4.
             i2 = 1: rows that had a positive entry before are left alone (calibration) */
  OCT_CURRENT_SCALE =
      27, /* amax U32 [1,1], history? F32 [1,W], kept? F32 [1,1] -> scale F32 [1,1]: from the amax, 1 where that is
             0 or not finite; where the history has a positive entry: `kept`. f0, i0 as OCT_UPDATE_SCALE */
  OCT_TRANSPOSE = 28, /* in [R,C] -> out [C,R], same type, elements of 1, 2 or 4 bytes */
  OCT_DEVICE_OPS = 29,

  OCT_ALL_GATHER = 100, /* in -> out */
  OCT_REDUCE_SCATTER = 101,
  OCT_ALL_REDUCE = 102,
  OCT_BROADCAST = 103, /* in (of the root) -> out */
  OCT_SEND = 104,      /* in */
  OCT_RECEIVE = 105,   /* -> out */
  OCT_OPS_END = 106
} oct_op;

/// Places in the F64 buffer `scalars` that the host writes before each step.
typedef enum oct_scalar {
  OCT_SCALAR_LEARNING_RATE = 0,
  OCT_SCALAR_STEP = 1,           /* number of this update, from 1: skipped steps do not count */
  OCT_SCALAR_INVERSE_TOKENS = 2, /* 1 / valid targets of the global batch */
  OCT_SCALARS = 8
} oct_scalar;

typedef struct oct_matrix {
  int32_t dtype;
  int32_t reserved;
  int64_t rows, columns;
  int64_t pitch; /* elements from row to row; >= columns */
} oct_matrix;

#define OCT_MAX_OPERANDS 12
#define OCT_CAST_OPERANDS 4 /* of a fused cast: scale, row, amax, counters */
typedef struct oct_operation {
  size_t struct_size;
  int32_t op; /* oct_op */
  int32_t operands;
  oct_matrix operand[OCT_MAX_OPERANDS]; /* in the order of the list above, inputs then outputs */
  int64_t i[8];
  double f[4];
} oct_operation;

#endif
