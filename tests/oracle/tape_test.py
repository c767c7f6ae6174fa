"""The gradients of the oracle itself against central differences of its loss, which need no derivative."""
import sys

try:
    import numpy
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy")
    sys.exit(77)

from model import Conventions, Model, Shape

SIZES = {"layers": 1, "hidden": 8, "heads": 4, "ffn": 12, "vocab": 11, "sequence": 5}
SHAPES = {
    "gpt2": Shape("gpt2", kv_heads=4, head_dim=2, tie_embeddings=True, **SIZES),
    "llama": Shape("llama", kv_heads=2, head_dim=4, tie_embeddings=False, **SIZES),
}


def tensors(shape):
    """Shapes by name."""
    h, gpt2 = shape.hidden, shape.family == "gpt2"
    qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    result = {"embedding.token.weight": (shape.vocab, h), "norm.weight": (h,), "layers.0.norm1.weight": (h,),
              "layers.0.norm2.weight": (h,), "layers.0.attention.qkv.weight": (qkv, h),
              "layers.0.attention.qkv.bias": (qkv,),
              "layers.0.attention.out.weight": (h, shape.heads * shape.head_dim)}
    if not gpt2:
        return {**result, "layers.0.mlp.gate_up.weight": (2 * shape.ffn, h),
                "layers.0.mlp.down.weight": (h, shape.ffn), "head.weight": (shape.vocab, h)}
    with_bias = "norm", "layers.0.norm1", "layers.0.norm2", "layers.0.attention.out", "layers.0.mlp.fc2"
    biases = {f"{name}.bias": (h,) for name in with_bias}
    return {**result, **biases, "embedding.position.weight": (shape.sequence, h),
            "layers.0.mlp.fc1.weight": (shape.ffn, h), "layers.0.mlp.fc1.bias": (shape.ffn,),
            "layers.0.mlp.fc2.weight": (h, shape.ffn)}


def loss_at(shape, weights, conventions, ids, targets):
    return float(Model(shape, weights, conventions).loss(ids, targets).data)


def main():
    random, failures = numpy.random.default_rng(5), 0
    for family, shape in SHAPES.items():
        weights = {name: random.normal(0, 0.5, size) for name, size in tensors(shape).items()}
        ids, targets = random.integers(0, shape.vocab, (2, 2, shape.sequence))
        for conventions in (Conventions(), Conventions(gelu="erf")):
            _, gradients = Model(shape, weights, conventions).loss_and_gradients(ids, targets)
            for name, array in weights.items():
                # Along a random direction, in each tensor.
                direction = random.normal(size=array.shape)
                step = 1e-5 / numpy.linalg.norm(direction)
                up, down = (loss_at(shape, {**weights, name: array + sign * step * direction}, conventions,
                                    ids, targets) for sign in (1, -1))
                slope, exact = (up - down) / (2 * step), float((gradients[name] * direction).sum())
                scale = numpy.linalg.norm(gradients[name]) * numpy.linalg.norm(direction)
                if abs(slope - exact) > 1e-6 * scale:
                    failures += 1
                    print(f"FAIL {family} {name}: {exact} is {slope} by differences")
    print(f"{failures} gradients are wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
