"""The learning rate and AdamW of the parameter file, in float64."""
import dataclasses
import math

import numpy


@dataclasses.dataclass(frozen=True)
class AdamW:
    """The names are those of the parameter file."""
    learning_rate: float
    min_learning_rate: float
    warmup: int
    decay_steps: int
    decay: str = "cosine"
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0
    decayed_dimensions: int = 2  # tensors of at least as many have weight decay

    def rate(self, step):
        """Steps count from 1; the step `warmup` has the whole rate."""
        if step < self.warmup:
            return self.learning_rate * step / self.warmup
        progress = (step - self.warmup) / (self.decay_steps - self.warmup)
        left = 0.5 * (1 + math.cos(math.pi * progress)) if self.decay == "cosine" else 1 - progress
        return self.min_learning_rate + (self.learning_rate - self.min_learning_rate) * left

    def update(self, step, norm, gradient, master, average, square):
        """norm: of all gradients before clipping. Returns master, exp_avg and exp_avg_sq after the step."""
        if self.clip and norm > self.clip:
            gradient = gradient * (self.clip / norm)
        rate = self.rate(step)
        average = self.beta1 * average + (1 - self.beta1) * gradient
        square = self.beta2 * square + (1 - self.beta2) * gradient**2
        direction = average / (1 - self.beta1**step) / (
            numpy.sqrt(square / (1 - self.beta2**step)) + self.epsilon)
        if master.ndim >= self.decayed_dimensions:
            master = master * (1 - rate * self.weight_decay)
        return master - rate * direction, average, square


def global_norm(gradients):
    return math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
