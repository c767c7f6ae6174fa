#!/usr/bin/env python3
"""The training step of a parameter file in plain PyTorch, on one GPU: BF16 or FP8 products, AdamW on FP32 masters.

First it compiles, with steps of its own, and says {"ready": true, ...}. Then it is told by lines on stdin: `run WARMUP
STEPS` trains from the start and answers with one line of JSON; `quit` ends. Between blocks it holds no memory but what
CUDA itself takes, so that another program has the GPU to itself.
"""
import argparse
import configparser
import json
import math
import sys
import time
import types

import torch
import torch.nn.functional as F
from torch import nn

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU
    triton = None

E4M3_MAX, E5M2_MAX = 448.0, 57344.0


def read_shape(path):
    """What the parameter file says of model, batch and optimiser, with the program's defaults."""
    ini = configparser.ConfigParser(inline_comment_prefixes=("#", ";"))
    ini.read(path)
    model, batch, optimizer = ini["model"], ini["batch"], ini["optimizer"]
    gpt2 = model.get("family", "gpt2") == "gpt2"
    hidden, heads = model.getint("hidden"), model.getint("heads")
    return types.SimpleNamespace(
        gpt2=gpt2, layers=model.getint("layers"), hidden=hidden, heads=heads, kv=model.getint("kv_heads", heads),
        head_dim=model.getint("head_dim", hidden // heads), ffn=model.getint("ffn"), vocab=model.getint("vocab"),
        sequence=model.getint("sequence"), tied=model.getboolean("tie_embeddings", gpt2),
        qkv_bias=model.getboolean("qkv_bias", gpt2), theta=model.getfloat("rope_theta", 10000.0),
        epsilon=model.getfloat("norm_epsilon", 1e-5), micro=batch.getint("micro", 1), batch=batch.getint("global"),
        rate=optimizer.getfloat("learning_rate", 3e-4),
        betas=(optimizer.getfloat("beta1", 0.9), optimizer.getfloat("beta2", 0.95)),
        adam_epsilon=optimizer.getfloat("epsilon", 1e-8), decay=optimizer.getfloat("weight_decay", 0.1),
        clip=optimizer.getfloat("clip", 1.0))


# ---------------------------------------------------------------- FP8 products, one scale a tensor from its own amax
def quantize(x, dtype, largest):
    amax = x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * (largest / amax)).clamp(-largest, largest).to(dtype), amax / largest


def scaled_product(a, b, scale_a, scale_b, fast):
    return torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)


class Fp8Product(torch.autograd.Function):
    """x w^T with x and w in E4M3 and gradients in E5M2. Hopper multiplies a b^T only, hence the transposed copies."""

    @staticmethod
    def forward(ctx, x, w, fast_forward: bool, fast_backward: bool):
        xq, sx = quantize(x, torch.float8_e4m3fn, E4M3_MAX)
        wq, sw = quantize(w, torch.float8_e4m3fn, E4M3_MAX)
        ctx.save_for_backward(xq, sx, wq, sw)
        ctx.fast = fast_backward
        return scaled_product(xq, wq.t(), sx, sw, fast_forward)

    @staticmethod
    def backward(ctx, dy):
        xq, sx, wq, sw = ctx.saved_tensors
        gq, sg = quantize(dy, torch.float8_e5m2, E5M2_MAX)
        dx = scaled_product(gq, wq.t().contiguous().t(), sg, sw, ctx.fast)
        dw = scaled_product(gq.t().contiguous(), xq.t().contiguous().t(), sg, sx, ctx.fast)
        return dx, dw, None, None


# ---------------------------------------------------------------- model
class Linear(nn.Module):
    def __init__(self, inputs, outputs, bias, fp8_fast=None):
        """fp8_fast: none for products in the weight's type, else which passes accumulate fast: '', fwd or all."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.fp8 = fp8_fast is not None
        self.fast_forward, self.fast_backward = fp8_fast in ("fwd", "all"), fp8_fast == "all"

    def forward(self, x):
        if not self.fp8:
            return F.linear(x, self.weight, self.bias)
        y = Fp8Product.apply(x.reshape(-1, x.shape[-1]), self.weight, self.fast_forward, self.fast_backward)
        y = y if self.bias is None else y + self.bias
        return y.view(*x.shape[:-1], -1)


class Norm(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.empty(s.hidden)), s.epsilon
        self.bias = nn.Parameter(torch.empty(s.hidden)) if s.gpt2 else None

    def forward(self, x):
        if self.bias is not None:
            return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.epsilon)
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype) * self.weight


def rotate(x, cos, sin):  # x: [batch, heads, sequence, head_dim]
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, s, options):
        super().__init__()
        self.gpt2, self.heads, self.kv, self.head_dim, self.grouped = s.gpt2, s.heads, s.kv, s.head_dim, options.grouped
        fp8 = options.fp8_fast if options.fp8 else None
        self.norm1, self.norm2 = Norm(s), Norm(s)
        self.qkv = Linear(s.hidden, (s.heads + 2 * s.kv) * s.head_dim, s.qkv_bias, fp8)
        self.out = Linear(s.heads * s.head_dim, s.hidden, s.gpt2, fp8)
        self.up = Linear(s.hidden, s.ffn * (1 if s.gpt2 else 2), s.gpt2, fp8)
        self.down = Linear(s.ffn, s.hidden, s.gpt2, fp8)

    def forward(self, x, cos, sin):
        batch, sequence, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, sequence, self.heads + 2 * self.kv, self.head_dim)
        q, k, v = qkv.transpose(1, 2).split([self.heads, self.kv, self.kv], 1)
        if not self.gpt2:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.kv != self.heads and not self.grouped:
            k, v = (each.repeat_interleave(self.heads // self.kv, 1) for each in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads and self.grouped)
        x = x + self.out(y.transpose(1, 2).reshape(batch, sequence, self.heads * self.head_dim))
        u = self.up(self.norm2(x))
        if self.gpt2:
            return x + self.down(F.gelu(u, approximate="tanh"))
        gate, u = u.chunk(2, -1)
        return x + self.down(F.silu(gate) * u)


class Head(nn.Module):
    """Last norm, logits and loss: one region, so that it can be compiled alone."""

    def __init__(self, s):
        super().__init__()
        self.norm, self.logits = Norm(s), Linear(s.hidden, s.vocab, False)

    def forward(self, x, targets):
        return F.cross_entropy(self.logits(self.norm(x).flatten(0, 1)).float(), targets.reshape(-1))


class Model(nn.Module):
    def __init__(self, s, options):
        super().__init__()
        self.shape = s
        self.tokens = nn.Embedding(s.vocab, s.hidden)
        self.positions = nn.Embedding(s.sequence, s.hidden) if s.gpt2 else None
        self.blocks = nn.ModuleList(Block(s, options) for _ in range(s.layers))
        self.head = Head(s)
        if s.tied:
            self.head.logits.weight = self.tokens.weight
        half = s.head_dim // 2
        turns = torch.outer(torch.arange(s.sequence).float(), s.theta ** (-torch.arange(half).float() / half))
        self.cos, self.sin = turns.cos(), turns.sin()

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(x, targets)


def initial(name, parameter, layers):
    """Fills an FP32 tensor as the program does: norms 1, biases 0, projections into the residual stream smaller."""
    if parameter.dim() == 1:
        return parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
    return parameter.normal_(0, 0.02 / math.sqrt(2 * layers) if name.endswith(("out.weight", "down.weight")) else 0.02)


# ---------------------------------------------------------------- optimiser: one kernel a tensor
if triton is not None:
    @triton.jit
    def adamw_kernel(P, G, W, M, V, C, n, rate, b1, b2, epsilon, decay, bias1, bias2, BLOCK: tl.constexpr):
        i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        k = i < n
        g = tl.load(G + i, mask=k, other=0.0).to(tl.float32) * tl.load(C)
        w = tl.load(W + i, mask=k, other=0.0)
        m = b1 * tl.load(M + i, mask=k, other=0.0) + (1.0 - b1) * g
        v = b2 * tl.load(V + i, mask=k, other=0.0) + (1.0 - b2) * g * g
        w = w - rate * ((m / bias1) / (tl.sqrt(v / bias2) + epsilon) + decay * w)
        tl.store(W + i, w, mask=k)
        tl.store(M + i, m, mask=k)
        tl.store(V + i, v, mask=k)
        tl.store(P + i, w.to(P.dtype.element_ty), mask=k)


class MasterAdamW:
    """Parameters in the type of computation, masters and moments in FP32; clips by the global norm."""

    def __init__(self, named, shape, device):
        self.named, self.shape, self.device, self.t = named, shape, device, 0
        self.sizes = [p.shape for _, p in named]
        self.state = [[], [], []]

    @torch.no_grad()
    def allocate(self):
        """From the start: initial weights, no moments. Parameters stay the same objects, so compiled code stays."""
        torch.manual_seed(0)
        self.t = 0
        masters = [initial(name, torch.empty(size, device=self.device), self.shape.layers)
                   for (name, _), size in zip(self.named, self.sizes)]
        self.state = [masters, [torch.zeros_like(w) for w in masters], [torch.zeros_like(w) for w in masters]]
        for (_, p), w in zip(self.named, masters):
            p.data = w.to(p.dtype)

    def release(self):
        self.state = [[], [], []]
        for _, p in self.named:
            p.grad, p.data = None, p.data.new_empty(0)

    @torch.no_grad()
    def step(self):
        s, parameters = self.shape, [p for _, p in self.named]
        self.t += 1
        b1, b2 = s.betas
        bias1, bias2 = 1 - b1**self.t, 1 - b2**self.t
        norms = torch._foreach_norm([p.grad for p in parameters], 2, torch.float32)
        norm = torch.linalg.vector_norm(torch.stack(norms))
        clip = (s.clip / (norm + 1e-6)).clamp(max=1.0)
        for p, w, m, v in zip(parameters, *self.state):
            decay, g = s.decay if p.dim() == 2 else 0.0, p.grad.contiguous()
            if p.is_cuda:
                n = p.numel()
                adamw_kernel[(triton.cdiv(n, 2048),)](p, g, w, m, v, clip, n, s.rate, b1, b2, s.adam_epsilon, decay,
                                                      float(bias1), float(bias2), BLOCK=2048, num_warps=8)
            else:
                g = g.float() * clip
                m.lerp_(g, 1 - b1)
                v.lerp_(g * g, 1 - b2)
                w -= s.rate * ((m / bias1) / ((v / bias2).sqrt() + s.adam_epsilon) + decay * w)
                p.copy_(w)
            p.grad = None


# ---------------------------------------------------------------- the benchmark
class Trainer:
    def __init__(self, shape, options):
        self.shape, self.options, self.cuda = shape, options, options.device == "cuda"
        torch.set_default_dtype(torch.bfloat16)
        with torch.device(options.device):
            self.model = Model(shape, options)
        torch.set_default_dtype(torch.float32)
        self.optimizer = MasterAdamW(list(self.model.named_parameters()), shape, options.device)
        self.run = self.model
        if options.compile == "full":
            self.run = torch.compile(self.model)
        elif options.compile == "block":
            for part in (*self.model.blocks, self.model.head):
                part.compile()
        with open(options.data, "rb") as file:
            ids = torch.frombuffer(bytearray(file.read()), dtype=torch.int32).to(options.device, torch.int64)
        samples = (ids.numel() - 1) // shape.sequence
        self.ids, self.targets = (ids[k:samples * shape.sequence + k].view(samples, shape.sequence) for k in (0, 1))
        self.samples = samples

    def batch(self, k):
        rows = (torch.arange(self.shape.micro, device=self.ids.device) + k * self.shape.micro) % self.samples
        return self.ids[rows], self.targets[rows]

    def step(self, i):
        parts, total = self.shape.batch // self.shape.micro, 0.0
        for j in range(parts):
            loss = self.run(*self.batch(i * parts + j)) / parts
            loss.backward()
            total = total + loss.detach()
        self.optimizer.step()
        return total

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def block(self, warmup, steps):
        """Trains warmup + steps steps from the start. Milliseconds of the last `steps` of them, losses of all."""
        self.optimizer.allocate()
        losses = [self.step(i) for i in range(warmup)]
        self.synchronize()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        begin, marks = time.time(), [self.mark()]
        for i in range(warmup, warmup + steps):
            losses.append(self.step(i))
            marks.append(self.mark())
            if self.cuda and len(marks) > 3:
                marks[-3].synchronize()  # at most two steps ahead
        self.synchronize()
        end = time.time()
        times = [a.elapsed_time(b) if self.cuda else (b - a) * 1e3 for a, b in zip(marks, marks[1:])]
        result = dict(step_ms=times, losses=[float(loss) for loss in losses], begin=begin, end=end,
                      allocated=torch.cuda.max_memory_allocated() if self.cuda else None,
                      reserved=torch.cuda.max_memory_reserved() if self.cuda else None)
        self.optimizer.release()
        if self.cuda:
            torch.cuda.empty_cache()
        return result

    def mark(self):
        if not self.cuda:
            return time.time()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def choose_attention(shape, options):
    """One backend of PyTorch's attention; whether it takes grouped heads, forward and backward, is tried."""
    options.grouped = True
    if options.device != "cuda":
        return
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(name == options.attention)
    try:
        q = torch.randn(1, shape.heads, 256, shape.head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        k = torch.randn(1, shape.kv, 256, shape.head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=shape.kv != shape.heads).sum().backward()
        torch.cuda.synchronize()
    except RuntimeError as error:
        if shape.kv == shape.heads:
            raise
        options.grouped = False
        print("keys and values are repeated:", str(error).splitlines()[0], file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="parameter file: [model], [batch], [optimizer]")
    parser.add_argument("--data", required=True, help="file of u32 ids")
    parser.add_argument("--fp8", action="store_true", help="products of the blocks in FP8")
    parser.add_argument("--fp8-fast", choices=["", "fwd", "all"], default="fwd", help="passes with fast accumulation")
    parser.add_argument("--compile", choices=["none", "block", "full"], default="block")
    parser.add_argument("--attention", choices=["cudnn", "flash", "mem_efficient", "math"], default="cudnn")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    shape = read_shape(options.file)
    torch.set_float32_matmul_precision("high")
    choose_attention(shape, options)
    trainer = Trainer(shape, options)
    trainer.block(1, 1)
    print(json.dumps(dict(ready=True, torch=torch.__version__, grouped=options.grouped,
                          parameters=sum(math.prod(size) for size in trainer.optimizer.sizes),
                          device=torch.cuda.get_device_name() if trainer.cuda else "cpu")), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] != ["run"]:
            break
        print(json.dumps(trainer.block(int(words[1]), int(words[2]))), flush=True)


if __name__ == "__main__":
    main()
