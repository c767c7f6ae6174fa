"""The same models in PyTorch and Transformers: filled with the program's weights, evaluated and trained."""
import math

import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from parity_runs import MODELS, OPTIMIZER, read_group


def gpt2_names(shape):
    """(tensor, rows or None for all, tensor there, transposed there): how its weights are laid out in ours."""
    yield "embedding.token.weight", None, "transformer.wte.weight", False
    yield "embedding.position.weight", None, "transformer.wpe.weight", False
    for n in range(shape.layers):
        ours, theirs = f"layers.{n}.", f"transformer.h.{n}."
        for name, there in (("norm1", "ln_1"), ("norm2", "ln_2")):
            for part in ("weight", "bias"):
                yield f"{ours}{name}.{part}", None, f"{theirs}{there}.{part}", False
        for name, there in (("attention.qkv", "attn.c_attn"), ("attention.out", "attn.c_proj"),
                            ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj")):
            yield f"{ours}{name}.weight", None, f"{theirs}{there}.weight", True  # its Conv1D is [in, out]
            yield f"{ours}{name}.bias", None, f"{theirs}{there}.bias", False
    for part in ("weight", "bias"):
        yield f"norm.{part}", None, f"transformer.ln_f.{part}", False


def llama_names(shape):
    """As gpt2_names()."""
    q, kv, ffn = shape.query_width, shape.kv_width, shape.ffn
    yield "embedding.token.weight", None, "model.embed_tokens.weight", False
    for n in range(shape.layers):
        ours, theirs = f"layers.{n}.", f"model.layers.{n}."
        for name, rows, there in (
            ("norm1", None, "input_layernorm"), ("norm2", None, "post_attention_layernorm"),
            ("attention.qkv", slice(0, q), "self_attn.q_proj"), ("attention.qkv", slice(q, q + kv), "self_attn.k_proj"),
            ("attention.qkv", slice(q + kv, q + 2 * kv), "self_attn.v_proj"),
            ("attention.out", None, "self_attn.o_proj"),
            ("mlp.gate_up", slice(0, ffn), "mlp.gate_proj"), ("mlp.gate_up", slice(ffn, 2 * ffn), "mlp.up_proj"),
            ("mlp.down", None, "mlp.down_proj")):  # yapf: disable
            yield f"{ours}{name}.weight", rows, f"{theirs}{there}.weight", False
    yield "norm.weight", None, "model.norm.weight", False
    yield "head.weight", None, "lm_head.weight", False


def configured(shape):
    """The model with weights of no meaning, in FP32, without dropout."""
    common = {"vocab_size": shape.vocab, "tie_word_embeddings": shape.tie_embeddings, "bos_token_id": None,
              "eos_token_id": None, "attn_implementation": "eager", "use_cache": False}  # yapf: disable
    if shape.family == "gpt2":
        return GPT2LMHeadModel(GPT2Config(
            n_positions=shape.sequence, n_embd=shape.hidden, n_layer=shape.layers, n_head=shape.heads,
            n_inner=shape.ffn, activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            layer_norm_epsilon=shape.norm_epsilon, **common))
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=shape.hidden, intermediate_size=shape.ffn, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim,
        max_position_embeddings=shape.sequence, rms_norm_eps=shape.norm_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta}, **common))


class Peer:
    """The model of a checkpoint on a device of PyTorch ("cpu", "cuda")."""

    def __init__(self, model, checkpoint, device, dtype=torch.float32):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        self.shape, self.device = MODELS[model], device
        self.names = list(gpt2_names(self.shape) if self.shape.family == "gpt2" else llama_names(self.shape))
        self.module = configured(self.shape).to(device)
        self.parameters = dict(self.module.named_parameters())
        self._fill(read_group(checkpoint, "/master"))
        for parameter in self.parameters.values():  # and no buffer: angles of RoPE stay FP32
            parameter.data = parameter.data.to(dtype)

    def _fill(self, weights):
        unknown = weights.keys() - {name for name, *_ in self.names}
        missing = self.parameters.keys() - {there for _, _, there, _ in self.names}
        if unknown or missing:
            raise ValueError(f"tensors without a counterpart: {sorted(unknown)}, {sorted(missing)}")
        for name, rows, there, transposed in self.names:
            part = weights[name] if rows is None else weights[name][rows]
            values = torch.tensor(part.T if transposed else part, dtype=torch.float32)
            if values.shape != self.parameters[there].shape:
                raise ValueError(f"{name} is {tuple(values.shape)}, {there} {tuple(self.parameters[there].shape)}")
            self.parameters[there].data.copy_(values)

    def loss(self, ids, targets):
        """Mean over all targets, in nats, as a tensor. ids, targets: arrays [samples, sequence]."""
        logits = self.module(input_ids=torch.tensor(ids, device=self.device)).logits
        wanted = torch.tensor(targets, device=self.device).reshape(-1)
        return torch.nn.functional.cross_entropy(logits.float().reshape(wanted.numel(), -1), wanted)

    def evaluate(self, ids, targets):
        self.module.eval()
        with torch.no_grad():
            return float(self.loss(ids, targets))

    def train(self, ids, targets, steps):
        """Steps on the one batch: losses, and the gradients of the first by our tensors' names."""
        self.module.train()
        groups = [{"params": [p for p in self.parameters.values() if p.dim() == 2],
                   "weight_decay": OPTIMIZER.weight_decay},
                  {"params": [p for p in self.parameters.values() if p.dim() != 2], "weight_decay": 0.0}]
        adamw = torch.optim.AdamW(groups, lr=1.0, betas=(OPTIMIZER.beta1, OPTIMIZER.beta2), eps=OPTIMIZER.epsilon)
        losses, first = [], None
        for step in range(1, steps + 1):
            adamw.zero_grad()
            loss = self.loss(ids, targets)
            loss.backward()
            losses.append(float(loss.detach()))
            first = first or self.gradients()
            norm = math.sqrt(sum(float(p.grad.double().square().sum()) for p in self.parameters.values()))
            for parameter in self.parameters.values():
                parameter.grad *= min(1.0, OPTIMIZER.clip / norm)
            for group in adamw.param_groups:
                group["lr"] = OPTIMIZER.rate(step)
            adamw.step()
        return numpy.array(losses), first

    def gradients(self):
        parts = {}
        for name, _, there, transposed in self.names:  # rows of a tensor come in their order
            gradient = self.parameters[there].grad.detach().double().cpu().numpy()
            parts.setdefault(name, []).append(gradient.T if transposed else gradient)
        return {name: numpy.concatenate(rows) for name, rows in parts.items()}
