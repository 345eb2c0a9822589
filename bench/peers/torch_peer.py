"""What the training steps in PyTorch have in common: a step under a setting, the search for the best one, the measurement.

Not a program: mnist_cnn_torch.py and resnet_torch.py are. Everything but PyTorch itself is Python's standard library.
"""
import contextlib
import ctypes
import itertools
import json
import math
import os
import pathlib
import signal
import statistics
import sys
import time

# How long an OpenMP thread of PyTorch's spins before it sleeps. The default (seconds) costs it a few per cent on idle
# cores, and a factor of ten and more when anything else runs; read when PyTorch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

# Started by torch.distributed.run: one process of several, each with its part of the batch.
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

try:
    import torch
    import torch.distributed
    import torch.nn.functional as F
except ImportError:
    sys.exit(f"{sys.executable} has no PyTorch; bench/peers/README.md says how to get it")

FORMATS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}


class Peer:
    """A network under one setting, ready to step. A program's own class has its network, optimizer and batches."""

    kept_batches = 8  # in turn, so that no batch's images simply stay in the cache

    def network(self, setting):
        raise NotImplementedError

    def make_optimizer(self, parameters, setting):
        raise NotImplementedError

    def image_shape(self, setting):
        """(C, H, W)."""
        raise NotImplementedError

    def __init__(self, setting):
        torch.manual_seed(42)
        torch.set_num_threads(setting["threads"])
        torch.set_flush_denormal(setting.get("flush_denormal") == "on")
        layout = FORMATS[setting["memory_format"]]
        self.bf16 = setting["precision"] == "bf16"
        self.batch = setting["batch"] // WORLD
        self.micro_batch = min(setting.get("micro_batch", self.batch), self.batch)
        self.model = self.network(setting).to(memory_format=layout).train()
        if WORLD > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True,
                                                                   static_graph=True)
        self.optimizer = self.make_optimizer(self.model.parameters(), setting)
        self.batches = [(torch.rand(self.batch, *self.image_shape(setting)).to(memory_format=layout),
                         torch.randint(0, 10, (self.batch,))) for _ in range(self.kept_batches)]
        if self.bf16:
            self.batches = [(x.bfloat16(), y) for x, y in self.batches]
        compiled = setting["compile"] != "off"
        self.loss = torch.compile(self.loss_of, mode=setting["compile"]) if compiled else self.loss_of
        self.done = 0

    def loss_of(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            logits = self.model(x)
        return F.cross_entropy(logits.float(), y, reduction="sum") / self.batch

    def step(self):
        x, y = self.batches[self.done % len(self.batches)]
        self.done += 1
        for i in range(0, self.batch, self.micro_batch):
            last = i + self.micro_batch >= self.batch
            with contextlib.nullcontext() if last or WORLD == 1 else self.model.no_sync():
                self.loss(x[i:i + self.micro_batch], y[i:i + self.micro_batch]).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def one_step(self):
        begin = time.perf_counter()
        self.step()
        return time.perf_counter() - begin

    def times(self, seconds, least=3):
        """The seconds of single steps, for about so long."""
        taken, now = [], time.perf_counter()
        end = now + seconds
        while now < end or len(taken) < least:
            self.step()
            before, now = now, time.perf_counter()
            taken.append(now - before)
        return taken


def probe(peer_class, setting, limit):
    """The best step of a short trial, in seconds (the best, for others on the machine only ever slow a step down);
    None where the setting does not work, or not within `limit` seconds."""
    def give_up(*_):
        raise TimeoutError(f"not done in {limit} s")

    torch.compiler.reset()
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit)
    try:
        peer = peer_class(setting)
        peer.times(0.5, least=1)  # compiles, packs, allocates
        return min(peer.times(1.0, least=2))
    except Exception as error:  # a failed compilation, say: not a candidate
        print(f"  does not work: {(str(error).splitlines() or [type(error).__name__])[0]}", file=sys.stderr)
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def search(peer_class, setting, choices, limit):
    """Tries every combination of the choices {name: values} within the setting and returns the fastest."""
    tried = []
    for values in itertools.product(*choices.values()):
        candidate = {**setting, **dict(zip(choices, values))}
        alone = math.prod(map(len, choices.values())) == 1
        seconds = 0.0 if alone else probe(peer_class, candidate, limit)
        if seconds:
            print(f"  {dict(zip(choices, values))}: {seconds * 1e3:.2f} ms", file=sys.stderr, flush=True)
        if seconds is not None:
            tried.append((seconds, len(tried), candidate))
    if not tried:
        sys.exit("no setting works; give one with --threads, --memory-format and --compile off")
    return min(tried)[2]


def keep_memory():
    """Tells the C library's malloc to keep what is freed. By default it hands large blocks back to the system, which
    clears and maps each activation anew, in every step; PyTorch's tuning guide recommends another malloc for that."""
    libc = ctypes.CDLL(None)
    m_trim_threshold, m_mmap_max = -1, -4  # of malloc.h
    libc.mallopt(m_mmap_max, 0)
    libc.mallopt(m_trim_threshold, 2**31 - 1)


def memory(name):
    """Bytes of resident memory: now ("VmRSS"), or the most there were ("VmHWM")."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def forget_peak():
    """Lets VmHWM start anew; False where the system does not let us."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        return True
    except OSError:
        return False


def add_arguments(parser, batch):
    """The options all peers have. What is not given is tried by main()."""
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, help="default: tries some")
    parser.add_argument("--memory-format", choices=list(FORMATS), help="default: tries both")
    parser.add_argument("--compile", choices=["off", "default", "max-autotune"],
                        help="torch.compile's mode; default: tries the first two")
    parser.add_argument("--compile-limit", type=int, default=900, metavar="SECONDS",
                        help="how long a setting may take to be tried (default 900)")
    parser.add_argument("--steps", type=int, default=0, help="steps per block (default: as many as fill 0.1 s)")
    parser.add_argument("--malloc", choices=["keep", "stock"], default="keep",
                        help="keep: the C library keeps freed memory (default, faster); stock: as it comes")


def together(steps):
    """A number of steps that all processes make: the first one's."""
    if WORLD == 1:
        return steps
    count = torch.tensor([steps])
    torch.distributed.broadcast(count, 0)
    return int(count)


def main(peer_class, args, extra, choices, rounds):
    """Searches in rounds (names of choices that depend on each other are tried together), measures, prints JSON.

    As one of several processes (DistributedDataParallel over gloo) it does not search: every choice has to be made."""
    if WORLD > 1:
        open_choices = [name for name, values in choices.items() if len(values) > 1]
        if open_choices or args.batch % WORLD:
            sys.exit(f"{WORLD} processes: choose {', '.join(open_choices) or 'a batch that can be divided'}")
        torch.distributed.init_process_group("gloo")
    if args.malloc == "keep":
        keep_memory()
    bare = memory("VmRSS")  # Python, PyTorch, and nothing of ours
    setting = {"precision": args.precision, "batch": args.batch, "malloc": args.malloc, **extra}
    setting.update((name, values[0]) for name, values in choices.items())
    for names in rounds:
        setting = search(peer_class, setting, {name: choices[name] for name in names}, args.compile_limit)

    torch.compiler.reset()
    peer = peer_class(setting)
    if WORLD > 1:
        for _ in range(3):
            peer.step()
    step = min(peer.times(1.0, least=2)) if WORLD == 1 else peer.one_step()
    whole = memory("VmHWM")
    forgotten = forget_peak()
    steps = together(args.steps or max(1, round(0.1 / step)))
    blocks = []
    for _ in range(args.blocks):
        if WORLD > 1:
            torch.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            peer.step()
        blocks.append((time.perf_counter() - begin) / steps)
    median, best = statistics.median(blocks), min(blocks)
    if WORLD > 1:
        torch.distributed.destroy_process_group()
    if RANK > 0:
        return
    print(json.dumps({
        "images_per_second": round(args.batch / median, 1),
        "step_ms": round(median * 1e3, 4),
        "best_images_per_second": round(args.batch / best, 1),
        "best_step_ms": round(best * 1e3, 4),
        "processes": WORLD,
        "blocks": args.blocks,
        "steps_per_block": steps,
        "peak_rss_bytes": max(whole, memory("VmHWM")),
        "steps_peak_rss_bytes": memory("VmHWM") if forgotten else None,  # without compiling and starting
        "bare_rss_bytes": bare,
        "setting": setting,
        "torch": torch.__version__,
    }))
