"""Reverse-mode differentiation in float64, small enough to be read whole.

A Value holds an array and, for each value that it was computed from, the function that turns the gradient
of the result into the gradient of that input. The operations are primitive on purpose (sum, product, power,
matrix product, ...): a model composed of them has its backward pass derived and not written, so a slip in
somebody's formula for, say, the backward pass of a norm cannot be repeated here.
"""
import math

import numpy


class Value:
    """An array of a computation; `gradient` has its shape after backward()."""

    def __init__(self, data, inputs=()):
        self.data = numpy.asarray(data, dtype=numpy.float64)
        self.inputs = inputs  # pairs of Value and function
        self.gradient = None

    shape = property(lambda self: self.data.shape)

    def __add__(self, other):
        other = constant(other)
        return Value(self.data + other.data, ((self, lambda g: _fold(g, self.shape)),
                                              (other, lambda g: _fold(g, other.shape))))

    def __mul__(self, other):
        other = constant(other)
        return Value(self.data * other.data, ((self, lambda g: _fold(g * other.data, self.shape)),
                                              (other, lambda g: _fold(g * self.data, other.shape))))

    def __sub__(self, other):
        return self + constant(other) * -1.0

    def __matmul__(self, other):
        return Value(self.data @ other.data,
                     ((self, lambda g: _fold(g @ numpy.swapaxes(other.data, -1, -2), self.shape)),
                      (other, lambda g: _fold(numpy.swapaxes(self.data, -1, -2) @ g, other.shape))))

    def __getitem__(self, index):
        """Any NumPy index; elements taken twice get both gradients."""
        def scatter(g):
            result = numpy.zeros(self.shape)
            numpy.add.at(result, index, g)
            return result
        return Value(self.data[index], ((self, scatter),))

    def __pow__(self, exponent):
        return Value(self.data**exponent, ((self, lambda g: g * exponent * self.data**(exponent - 1)),))

    def sum(self, axis, keepdims=False):
        def spread(g):
            return numpy.broadcast_to(g if keepdims else numpy.expand_dims(g, axis), self.shape)
        return Value(self.data.sum(axis=axis, keepdims=keepdims), ((self, spread),))

    def mean(self, axis, keepdims=False):
        return self.sum(axis, keepdims) * (1.0 / self.shape[axis])

    def reshape(self, *shape):
        return Value(self.data.reshape(shape), ((self, lambda g: g.reshape(self.shape)),))

    def swap(self, a, b):
        return Value(numpy.swapaxes(self.data, a, b), ((self, lambda g: numpy.swapaxes(g, a, b)),))


def constant(data):
    return data if isinstance(data, Value) else Value(data)


def exp(x):
    y = numpy.exp(x.data)
    return Value(y, ((x, lambda g: g * y),))


def log(x):
    return Value(numpy.log(x.data), ((x, lambda g: g / x.data),))


def tanh(x):
    y = numpy.tanh(x.data)
    return Value(y, ((x, lambda g: g * (1 - y * y)),))


def erf(x):
    y = numpy.vectorize(math.erf)(x.data)
    return Value(y, ((x, lambda g: g * 2 / math.sqrt(math.pi) * numpy.exp(-x.data**2)),))


def concatenate(values, axis):
    edges = numpy.cumsum([v.shape[axis] for v in values])[:-1]
    part = [lambda g, i=i: numpy.split(g, edges, axis)[i] for i in range(len(values))]
    return Value(numpy.concatenate([v.data for v in values], axis), tuple(zip(values, part)))


def softmax(x):
    """Over the last axis. The largest element is a constant: softmax does not depend on it."""
    e = exp(x - x.data.max(axis=-1, keepdims=True))
    return e * e.sum(-1, keepdims=True)**-1.0


def log_sum_exp(x):
    """Over the last axis, which goes."""
    largest = x.data.max(axis=-1, keepdims=True)
    return log(exp(x - largest).sum(-1)) + largest[..., 0]


def backward(result):
    """Gives `gradient` to every value that the scalar `result` was computed from."""
    order, seen = [], set()

    def visit(value):
        if id(value) in seen:
            return
        seen.add(id(value))
        for source, _ in value.inputs:
            visit(source)
        order.append(value)

    visit(result)
    for value in order:
        value.gradient = numpy.zeros(value.shape)
    result.gradient = numpy.ones(result.shape)
    for value in reversed(order):
        for source, pull in value.inputs:
            source.gradient = source.gradient + pull(value.gradient)


def _fold(g, shape):
    """Sums a gradient over the axes that broadcasting has added or stretched."""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=stretched, keepdims=True) if stretched else g
