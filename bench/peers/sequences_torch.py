#!/usr/bin/env python3
"""A language model's training step in PyTorch on CPU cores, at its best: beside `lockstep bench lstm-lm` and `transformer-lm`.

    python bench/peers/sequences_torch.py lstm-lm --batch 64
    python bench/peers/sequences_torch.py transformer-lm --batch 64
    python bench/peers/sequences_torch.py transformer-lm --text FILE --epochs 3     # trains on a text, and prints its perplexity

The networks are Lockstep's: embedding, two LSTMs or GRUs of 256 or six causal layers of 256 with 8 heads (normalization first, GELU),
and a dense layer to the vocabulary, on sequences of 64 tokens. Attention is PyTorch's own scaled_dot_product_attention. One step is
forward, cross-entropy of every next token, backward and an update by Adam. Tokens are drawn and held in memory. PyTorch's LSTM has two
biases where Lockstep's and Keras's has one. Settings not given are tried, and the fastest is measured. Prints one JSON object.
"""
import argparse
import json
import math
import os
import time

import torch_peer  # sets up OpenMP before PyTorch is loaded
from torch_peer import Peer

import torch
import torch.nn.functional as F
from torch import nn

LENGTH, POSITIONS = 64, 512
# Layers and width; heads of a transformer.
RECURRENT = {"lstm-lm": (nn.LSTM, 2, 256), "gru-lm": (nn.GRU, 2, 256), "lstm-lm-mini": (nn.LSTM, 1, 64)}
TRANSFORMERS = {"transformer-lm": (6, 256, 8), "transformer-lm-mini": (2, 64, 4)}


class Recurrent(nn.Module):
    def __init__(self, kind, layers, width, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = kind(width, width, layers, batch_first=True)
        self.predictions = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.predictions(self.recurrent(self.embedding(tokens))[0])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.dense_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c)
        x = x + self.projection(y)
        return x + self.contract(F.gelu(self.expand(self.dense_norm(x))))


class Transformer(nn.Module):
    def __init__(self, layers, width, heads, vocabulary):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(POSITIONS, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.predictions = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight[:tokens.shape[1]]
        return self.predictions(self.norm(self.blocks(x)))


def draw_as_keras(model):
    """Keras's and Lockstep's initial weights: what a network has learnt after few epochs depends on them."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.05, 0.05)
        elif isinstance(module, nn.RNNBase):
            for name, p in module.named_parameters():
                if "weight_ih" in name:
                    nn.init.xavier_uniform_(p)
                elif "weight_hh" in name:
                    nn.init.orthogonal_(p)
                else:
                    nn.init.zeros_(p)
                    if isinstance(module, nn.LSTM) and "bias_ih" in name:  # the forget gate's
                        nn.init.ones_(p.data[module.hidden_size:2 * module.hidden_size])
    return model


def network(name, vocabulary):
    if name in RECURRENT:
        return draw_as_keras(Recurrent(*RECURRENT[name], vocabulary))
    return draw_as_keras(Transformer(*TRANSFORMERS[name], vocabulary))


def loss_of(model, x, y, bf16):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logits = model(x)
    return F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="sum")


class SequencePeer(Peer):
    def __init__(self, setting):
        torch.manual_seed(42)
        torch.set_num_threads(setting["threads"])
        self.bf16, self.batch, self.done = setting["precision"] == "bf16", setting["batch"], 0
        self.micro_batch = setting["micro_batch"]
        self.model = network(setting["model"], setting["vocabulary"]).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, **{setting["optimizer"]: True})
        draws = [torch.randint(1, setting["vocabulary"], (self.batch, LENGTH + 1)) for _ in range(self.kept_batches)]
        self.batches = [(d[:, :-1].contiguous(), d[:, 1:].contiguous()) for d in draws]
        compiled = setting["compile"] != "off"
        self.loss = torch.compile(self.step_loss, mode=setting["compile"]) if compiled else self.step_loss

    def step_loss(self, x, y):
        return loss_of(self.model, x, y, self.bf16) / (self.batch * LENGTH)


def windows(text):
    """Windows of a text as Lockstep's text:FILE has them: (tokens, targets) to train on and to test with."""
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    count = (len(data) - 1) // LENGTH
    x, y = data[:count * LENGTH].view(count, LENGTH), data[1:count * LENGTH + 1].view(count, LENGTH)
    test = count // 10
    return (x[:-test], y[:-test]), (x[-test:], y[-test:])


def train(args):
    """Epochs of Adam on a text, and the perplexity of its last tenth after each."""
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    with open(args.text, "rb") as file:
        (x, y), (test_x, test_y) = windows(file.read())
    model, bf16 = network(args.model, 256), args.precision == "bf16"
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-7)
    for epoch in range(args.epochs):
        begin, order = time.perf_counter(), torch.randperm(len(x))
        for part in order.split(args.batch):
            (loss_of(model, x[part], y[part], bf16) / (len(part) * LENGTH)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - begin
        with torch.no_grad():
            parts = zip(test_x.split(args.batch), test_y.split(args.batch))
            loss = sum(loss_of(model, a, b, bf16).item() for a, b in parts) / test_y.numel()
        print(json.dumps({"epoch": epoch + 1, "seconds": round(seconds, 2), "test_loss": round(loss, 4),
                          "test_perplexity": round(math.exp(loss), 4),
                          "tokens_per_second": round(x.numel() / seconds)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", choices=[*RECURRENT, *TRANSFORMERS])
    parser.add_argument("--vocabulary", type=int, default=128)
    parser.add_argument("--micro-batch", type=int, help="sequences at a time; default: tries the batch and half of it")
    torch_peer.add_arguments(parser, batch=64)
    parser.add_argument("--optimizer", choices=["fused", "foreach"], help="how Adam is run; default: tries both")
    parser.add_argument("--blocks", type=int, default=10, help="blocks to take the median of (default 10)")
    parser.add_argument("--text", help="train on this file instead")
    parser.add_argument("--epochs", type=int, default=3, help="of --text (default 3)")
    parser.add_argument("--lr", type=float, default=1e-3, help="of --text (default 0.001)")
    parser.add_argument("--seed", type=int, default=42, help="of --text (default 42)")
    args = parser.parse_args()
    if args.text:
        train(args)
        return
    if args.micro_batch and args.batch % args.micro_batch:
        parser.error(f"a batch of {args.batch} cannot be cut into micro-batches of {args.micro_batch}")
    cores = len(os.sched_getaffinity(0))
    halves = [args.batch // 2] if args.batch % 2 == 0 else []
    choices = {
        "threads": [args.threads] if args.threads else sorted({max(1, cores // 2), cores}),
        "micro_batch": [args.micro_batch] if args.micro_batch else [args.batch, *halves],
        "compile": [args.compile] if args.compile else ["off", "default"],
        "optimizer": [args.optimizer] if args.optimizer else ["fused", "foreach"],
    }
    torch_peer.main(SequencePeer, args, {"model": args.model, "vocabulary": args.vocabulary}, choices,
                    (("threads",), ("compile",), ("micro_batch",), ("optimizer",)))


if __name__ == "__main__":
    main()
