#!/usr/bin/env python3
"""The known answers of layer-wise optimizers in test_optim.c: what Optax computes, in float64.

Run it in a virtual environment with optax; it prints the rows of the table `optax`. Weights, gradients and rates are those of
test_optim.c: draws of Philox4x32-10, rate / step. Optax's lars takes the norm of the gradient with weight decay in it, not the
sum of two norms as the paper has it, so its rows are without decay.
"""
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import optax

from data import philox

KEY, N, STEPS = 99, 4096, 12
SHOWN = (0, 1, 1000, 4095)


def draw(what, step):
    return jnp.array([(philox(KEY, i, step, what, 0) >> 8) / 2**24 - 0.5 for i in range(N)])


WEIGHTS = draw(1, 0)
GRADIENTS = [draw(2, step) for step in range(1, STEPS + 1)]


def rate(lr):
    return lambda count: lr / (count + 1)


def row(name, params, optimizer):
    w = WEIGHTS
    state = optimizer.init(w)
    for g in GRADIENTS:
        updates, state = optimizer.update(g, state, w)
        w = optax.apply_updates(w, updates)
    print('    {"%s", {%s, 0}, {%s}},' % (name, params, ", ".join("%.10f" % w[i] for i in SHOWN)))


if __name__ == "__main__":
    row("lars", "5, 0.9, -1, -1, 0, 0, 0, 0.001", optax.lars(rate(5), trust_coefficient=0.001, momentum=0.9))
    row("lars", "5, 0.8, -1, -1, 0.5, 0, 1, 0.01",
        optax.lars(rate(5), trust_coefficient=0.01, eps=0.5, momentum=0.8, nesterov=True))
    row("lamb", "0.1, -1, 0.9, 0.999, 1e-6, 0, -1, -1", optax.lamb(rate(0.1), eps=1e-6))
    row("lamb", "0.1, -1, 0.8, 0.99, 1e-4, 0.3, -1, -1", optax.lamb(rate(0.1), b1=0.8, b2=0.99, eps=1e-4, weight_decay=0.3))
