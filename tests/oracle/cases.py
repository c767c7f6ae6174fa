"""The models that are compared, and the grids on which each is run. Keys are those of the parameter file."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Run:
    """One launch of the program. options: further parameters."""
    dp: int = 1
    tp: int = 1
    precision: str = "fp32"
    micro: int = 1
    options: tuple = ()

    def name(self):
        options = "".join(f" {key.split('.')[1]}={value}" for key, value in self.options)
        return f"{self.dp}x{self.tp} {self.precision}{options}"


@dataclasses.dataclass(frozen=True)
class Case:
    model: dict
    runs: tuple
    optimizer: dict = dataclasses.field(default_factory=dict)


ONE = Run(micro=2)
SQUARE = Run(dp=2, tp=2)  # two micro-batches of two samples are accumulated
WIDE = Run(tp=4, micro=2)
NO_SEQUENCE_PARALLEL = (("parallel.sequence_parallel", "off"),)

BATCH = 4
# Weights, rates and a clip limit far from the usual, so that attention is not uniform, the second step sees
# biases and norms that are neither 0 nor 1, and the clip acts.
COMMON_MODEL = {"layers": 2, "sequence": 16, "init_std": 0.25, "vocab": 251}
COMMON_OPTIMIZER = {"learning_rate": 0.2, "min_learning_rate": 0.01, "warmup": 4, "decay_steps": 10,
                    "clip": 0.5, "weight_decay": 0.1}
GPT2 = {"family": "gpt2", "hidden": 32, "heads": 4}
LLAMA = {"family": "llama", "hidden": 32, "heads": 4, "ffn": 48}

CASES = {
    "gpt2_tied": Case(GPT2, (ONE, SQUARE, WIDE, Run(dp=2, tp=2, precision="bf16"))),
    "gpt2_untied": Case({**GPT2, "tie_embeddings": "off", "ffn": 40, "vocab": 256, "norm_epsilon": 1e-3},
                        (SQUARE, Run(tp=4, options=NO_SEQUENCE_PARALLEL)),
                        {"clip": 0, "decay": "linear", "warmup": 1, "learning_rate": 0.03}),
    "llama_grouped": Case({**LLAMA, "kv_heads": 2}, (ONE, SQUARE, Run(dp=2, tp=2, precision="bf16"))),
    "llama_shared_keys": Case({**LLAMA, "heads": 8, "kv_heads": 2}, 
                              (WIDE, Run(tp=4, options=NO_SEQUENCE_PARALLEL))),
    "llama_bias": Case({**LLAMA, "kv_heads": 1, "qkv_bias": "on"}, (SQUARE,)),
    "llama_tied": Case({**LLAMA, "tie_embeddings": "on", "rope_theta": 500}, (SQUARE,)),
    "llama_head_dim": Case({**LLAMA, "hidden": 40, "kv_heads": 2, "head_dim": 12}, (Run(tp=2, micro=2),)),
}


def parameters(case, run, output, data, steps):
    """The text of a parameter file."""
    sections = {
        "run": {"name": "oracle", "output": output, "steps": steps, "resume": "none"},
        "grid": {"dp": run.dp, "tp": run.tp},
        "backend": {"device": "cpu", "precision": run.precision, "comm": "mpi"},
        "model": {**COMMON_MODEL, **case.model},
        "batch": {"global": BATCH, "micro": run.micro},
        "optimizer": {**COMMON_OPTIMIZER, **case.optimizer},
        "data": {"train": data, "format": "text"},
        "checkpoint": {"every": 1, "keep": 0},
        "trace": {"gradients": "1-2"},
        "engine": {"threads": 1},
    }
    for key, value in run.options:
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    return "".join(f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
                   for section, keys in sections.items())
