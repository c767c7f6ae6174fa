"""GPT-2 and Llama as the papers and the file format describe them, in float64, without a thought of speed."""
import dataclasses
import math

import numpy

from tape import Value, backward, concatenate, erf, exp, log_sum_exp, softmax, tanh


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a model; the names are those of the parameter file."""
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    sequence: int
    tie_embeddings: bool
    rope_theta: float = 10000.0
    norm_epsilon: float = 1e-5


@dataclasses.dataclass(frozen=True)
class Conventions:
    """What an implementation could have done otherwise. The defaults are right; a test tries the rest."""
    gelu: str = "tanh"               # or erf
    rope_sign: float = 1.0           # of the rotation
    rope_pairs: str = "halves"       # (i, i + head_dim/2), or neighbours (2i, 2i + 1)
    kv_head: str = "blocks"          # query head h reads key head h / group, or h modulo kv_heads
    qkv_rows: str = "q k v"          # or q v k
    gate: str = "first"              # or last half of the rows of gate_up
    future: int = 0                  # how many tokens a query sees beyond its own
    attention_width: str = "head_dim"  # its root scales the scores; or hidden / heads
    variance: str = "biased"         # of a LayerNorm; or unbiased
    epsilon_factor: float = 1.0
    loss: str = "mean"               # over all targets; or divided by those of all samples but one


class Model:
    """weights: arrays by tensor name, [out, in] or [out]."""

    def __init__(self, shape, weights, conventions=Conventions()):
        self.shape, self.conventions = shape, conventions
        self.weights = {name: Value(array) for name, array in weights.items()}

    def loss_and_gradients(self, ids, targets):
        """ids, targets: [samples, sequence]. Returns the loss in nats and the gradients by tensor name."""
        loss = self.loss(ids, targets)
        backward(loss)
        return float(loss.data), {name: value.gradient for name, value in self.weights.items()}

    def loss(self, ids, targets):
        x = self.weights["embedding.token.weight"][ids]
        if self.shape.family == "gpt2":
            x = x + self.weights["embedding.position.weight"]
        for layer in range(self.shape.layers):
            prefix = f"layers.{layer}."
            x = x + self.attention(prefix + "attention.", self.norm(prefix + "norm1", x))
            x = x + self.mlp(prefix + "mlp.", self.norm(prefix + "norm2", x))
        head = "embedding.token" if self.shape.tie_embeddings else "head"
        logits = self.linear(head, self.norm("norm", x))
        samples, positions = numpy.indices(targets.shape)
        losses = log_sum_exp(logits) - logits[samples, positions, targets]
        count = targets.size - (targets.shape[1] if self.conventions.loss != "mean" else 0)
        return losses.sum(1).sum(0) * (1.0 / count)

    def linear(self, name, x):
        y = x @ self.weights[name + ".weight"].swap(0, 1)
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, name, x):
        """LayerNorm, or RMSNorm where the mean stays."""
        layer_norm = self.shape.family == "gpt2"
        if layer_norm:
            x = x - x.mean(-1, keepdims=True)
        squares = (x * x).mean(-1, keepdims=True)
        if self.conventions.variance != "biased":
            squares = squares * (x.shape[-1] / (x.shape[-1] - 1))
        y = x * (squares + self.shape.norm_epsilon * self.conventions.epsilon_factor)**-0.5
        y = y * self.weights[name + ".weight"]
        return y + self.weights[name + ".bias"] if layer_norm else y

    def attention(self, prefix, x):
        shape, batch = self.shape, x.shape[0]
        packed = self.linear(prefix + "qkv", x)
        query_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim

        def heads(first, count):
            part = packed[:, :, first:first + count * shape.head_dim]
            return part.reshape(batch, shape.sequence, count, shape.head_dim).swap(1, 2)

        q = heads(0, shape.heads)
        k, v = heads(query_width, shape.kv_heads), heads(query_width + kv_width, shape.kv_heads)
        if self.conventions.qkv_rows != "q k v":
            k, v = v, k
        if shape.family == "llama":
            q, k = self.rope(q), self.rope(k)
        number = numpy.arange(shape.heads)
        shared = number // (shape.heads // shape.kv_heads)
        if self.conventions.kv_head != "blocks":
            shared = number % shape.kv_heads
        k, v = k[:, shared], v[:, shared]
        by_heads = shape.hidden / shape.heads
        width = shape.head_dim if self.conventions.attention_width == "head_dim" else by_heads
        every = numpy.full((shape.sequence, shape.sequence), -1e30)
        hidden_future = numpy.triu(every, 1 + self.conventions.future)
        weights = softmax((q @ k.swap(2, 3)) * (1 / math.sqrt(width)) + hidden_future)
        mixed = (weights @ v).swap(1, 2).reshape(batch, shape.sequence, query_width)
        return self.linear(prefix + "out", mixed)

    def rope(self, x):
        """x: [batch, heads, sequence, head_dim]"""
        half = self.shape.head_dim // 2
        frequency = self.shape.rope_theta**(-2.0 * numpy.arange(half) / self.shape.head_dim)
        angle = self.conventions.rope_sign * numpy.arange(self.shape.sequence)[:, None] * frequency
        cosine, sine = numpy.cos(angle), numpy.sin(angle)
        neighbours = self.conventions.rope_pairs != "halves"
        a = x[..., 0::2] if neighbours else x[..., :half]
        b = x[..., 1::2] if neighbours else x[..., half:]
        return concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)

    def mlp(self, prefix, x):
        if self.shape.family == "gpt2":
            return self.linear(prefix + "fc2", self.gelu(self.linear(prefix + "fc1", x)))
        both = self.linear(prefix + "gate_up", x)
        gate, up = both[..., :self.shape.ffn], both[..., self.shape.ffn:]
        if self.conventions.gate != "first":
            gate, up = up, gate
        silu = gate * (exp(gate * -1.0) + 1.0)**-1.0
        return self.linear(prefix + "down", silu * up)

    def gelu(self, x):
        if self.conventions.gelu == "erf":
            return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)
        return x * 0.5 * (tanh((x + x**3 * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)
