#!/usr/bin/env python3
"""The known answers of weight decay in test_optim.c: what PyTorch, and Optax for layer-wise optimizers, compute in float64.

Run it in a virtual environment with torch and optax; it prints the rows of the table `decays`. Weights and gradients are those of
test_optim.c: draws of Philox4x32-10; the rate is constant. PyTorch's weight_decay is coupled (l2 here) in SGD and Adam, and
decoupled (weight_decay here) in AdamW. Its epsilon is outside of the bias correction, unlike Keras's and ours, so it is next to 0.
Optax's lars takes the norm of the gradient with the decay in it, which is what l2 does here.
"""
import jax

jax.config.update("jax_enable_x64", True)
import optax
import torch

from make_layerwise import GRADIENTS, SHOWN, WEIGHTS


def show(name, params, w):
    print('    {"%s", {%s}, {%s}},' % (name, params, ", ".join("%.10f" % w[i] for i in SHOWN)))


def torch_row(name, params, make):
    w = torch.tensor(WEIGHTS.tolist(), dtype=torch.float64, requires_grad=True)
    optimizer = make([w])
    for g in GRADIENTS:
        w.grad = torch.tensor(g.tolist(), dtype=torch.float64)
        optimizer.step()
    show(name, params, w.detach().numpy())


def optax_row(name, params, optimizer):
    w = WEIGHTS
    state = optimizer.init(w)
    for g in GRADIENTS:
        updates, state = optimizer.update(g, state, w)
        w = optax.apply_updates(w, updates)
    show(name, params, w)


SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
torch_row("sgd", "0.1, 0, -1, -1, -1, 0, 0, -1, 0.3", lambda w: SGD(w, lr=0.1, weight_decay=0.3))
torch_row("sgd", "0.1, 0.9, -1, -1, -1, 0, 0, -1, 0.3", lambda w: SGD(w, lr=0.1, momentum=0.9, weight_decay=0.3))
torch_row("sgd", "0.1, 0.9, -1, -1, -1, 0, 1, -1, 0.3",
          lambda w: SGD(w, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.3))
torch_row("adam", "0.02, -1, 0.9, 0.99, 1e-14, 0, -1, -1, 0.3",
          lambda w: Adam(w, lr=0.02, betas=(0.9, 0.99), eps=1e-14, weight_decay=0.3))
torch_row("adamw", "0.02, -1, 0.9, 0.99, 1e-14, 0.3, -1, -1, 0",
          lambda w: AdamW(w, lr=0.02, betas=(0.9, 0.99), eps=1e-14, weight_decay=0.3))
optax_row("lars", "5, 0.9, -1, -1, 0, 0, 0, 0.01, 0.3",
          optax.lars(5.0, weight_decay=0.3, trust_coefficient=0.01, momentum=0.9))
optax_row("lamb", "0.1, -1, 0.8, 0.99, 1e-4, 0.2, -1, -1, 0.3",
          optax.chain(optax.add_decayed_weights(0.3), optax.lamb(0.1, b1=0.8, b2=0.99, eps=1e-4, weight_decay=0.2)))
