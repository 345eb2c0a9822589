#!/usr/bin/env python3
"""Kills a training again and again, at random moments, and goes on with it on other numbers of workers: in the end the weights are those of a run
that nobody touched, no checkpoint was ever unreadable, and nothing is left in shared memory.

usage: kills.py LOCKSTEP [--kills N] [--seed S] [--epochs E]
"""
import argparse, os, random, re, shutil, signal, subprocess, sys, tempfile, time

args = argparse.ArgumentParser()
args.add_argument("lockstep")
args.add_argument("--kills", type=int, default=20)
args.add_argument("--seed", type=int, default=int(time.time()))
args.add_argument("--epochs", type=int, default=30)
args = args.parse_args()
random.seed(args.seed)
here = tempfile.mkdtemp(prefix="lockstep-kills.")
ckpt = os.path.join(here, "ckpt")
env = {k: v for k, v in os.environ.items() if not re.match(r"LOCKSTEP_(LAUNCHED|STARTED|TERMINAL)|OMPI_|PMI", k)}
env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=here)
recipe = (
    f"train mnist-cnn --data digits --limit-train 1000 --limit-test 100 --batch-size 64 --micro-batch 8 --epochs {args.epochs} "
    "--schedule cosine --warmup-epochs 1 --augment crop --replicas 1 --no-bind --verbose 2"
).split()


def run(words, limit=600):
    return subprocess.run([args.lockstep, *words], env=env, capture_output=True, text=True, timeout=limit)


def digest_of(text):
    found = re.search(r"^Weights digest\s+([0-9a-f]{64})", text, re.M)
    return found.group(1) if found else None


def processes():
    """Processes of this test: all whose command line names its folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if ckpt.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def is_worker(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip() == "lockstep"
    except OSError:
        return False


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def segments():
    return {n for n in os.listdir("/dev/shm") if "vader" in n or "window" in n or "mpich" in n or "lockstep" in n}


broken, kinds, killed, lives = [], {}, 0, 0
before = segments()
whole = run(recipe)
want = digest_of(whole.stdout)
if not want:
    sys.exit(f"the run that is not touched fails: {whole.stderr}")
span = 3.0
final = None
while final is None and lives < 10 * args.kills + 50:
    workers = random.choice([1, 1, 2, 3, 4, 5, 8])
    words = recipe + ["--checkpoint", ckpt, "--resume", "--checkpoint-every", random.choice(["1steps", "5steps", "1epoch", "0.05s"])]
    words += ["--strategy", random.choice(["allreduce", "reduce-broadcast", "central", "tree", "parameter-server"]), "--keep", str(random.choice([1, 2, 5]))]
    if workers > 1:
        words += ["--workers", str(workers)]
    restarts = workers > 1 and random.random() < 0.3
    if restarts:
        words += ["--restarts", "2"]
    lives += 1
    child = subprocess.Popen([args.lockstep, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    kind = "none"
    if killed < args.kills:
        # Anywhere from before the workers are there to deep inside training.
        time.sleep(random.random() ** 2 * span)
        there = [p for p in processes() if is_worker(p)]
        kind = "restarts" if restarts else random.choice(["worker", "worker", "all"])
        if kind in ("worker", "restarts"):
            inner = [p for p in there if p != child.pid] or [child.pid]
            kill(random.choice(inner))
            killed += 1
        else:
            for p in [child.pid] + processes():
                kill(p)
            killed += 1
        kinds[kind] = kinds.get(kind, 0) + 1
        if killed % 50 == 0:
            print(f"{killed} kills, {lives} lives, {len(broken)} broken", flush=True)
    try:
        out, err = child.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        broken.append(f"life {lives} hangs: {' '.join(words)}")
        for p in processes():
            kill(p)
        child.communicate()
        continue
    for _ in range(100):  # those of a job that was killed as a whole end by themselves
        if not processes():
            break
        time.sleep(0.1)
    for p in processes():
        broken.append(f"life {lives}: process {p} is left")
        kill(p)
    if "damaged" in err or "is whole" in err:
        broken.append(f"life {lives}: a checkpoint was unreadable: {err}")
    if child.returncode == 0:
        if kind == "none" or digest_of(out):
            final = digest_of(out)
    elif child.returncode not in (1, 137, -9, 143) and child.returncode < 128:
        broken.append(f"life {lives} ended with {child.returncode}: {err}")
    elif kind == "none":
        broken.append(f"life {lives} failed though nobody killed it: {err}")
        break
    # A training that gets through all kills ends too early: the next begins anew.
    if final and killed < args.kills:
        if final != want:
            broken.append(f"life {lives}: ends with {final}, not {want}")
        final = None
        shutil.rmtree(ckpt, ignore_errors=True)
if final != want:
    broken.append(f"the last life ends with {final}, not {want}")
left = [n for n in os.listdir(ckpt) if n.startswith(".")] if os.path.isdir(ckpt) else []
if left:
    broken.append(f"left in the folder: {left}")
after = segments() - before
print(f"seed {args.seed}: {killed} kills {kinds}, {lives} lives, {len(broken)} broken; segments of jobs killed as a whole: {len(after)}")
for sentence in broken:
    print("  " + sentence)
for name in after:
    os.unlink(os.path.join("/dev/shm", name))
shutil.rmtree(here, ignore_errors=True)
sys.exit(1 if broken else 0)
