#!/usr/bin/env python3
"""Starts the program again and again under random misfortune, and holds it to three promises.

    tests/faults/random_launches.py LOCKSTEP [--launches N] [--seed S] [--jobs J] [--only I] [--limit SECONDS]

Each launch has options, an environment, limits of memory, files and processor time, a /dev/shm, files to read and to write, and signals to its
processes, all drawn from the seed and the launch's number. Whatever comes: it ends within its time; where it fails it says so, with a
sentence; and nothing of ours is left behind, no process, no shared memory, no temporary file. What breaks a promise is printed with the number that
draws it again (--only). Exit status 0 when none does. As root on Linux; what needs namespaces is left out where there are none.
"""
import argparse, concurrent.futures, json, os, random, resource, shutil, signal, subprocess, sys, tempfile, threading, time

LIMIT = 75  # seconds (--limit): what is drawn takes a few; more where others use the machine too
NAMESPACES = False
totals = {"launches": 0, "ended well": 0, "refused or failed": 0, "with signals": 0, "several workers": 0, "broken": 0, "slowest": 0.0}
lock = threading.Lock()


class Launch:
    def __init__(self, program, seed, number):
        self.r = random.Random(seed * 1000003 + number)
        self.program, self.number = program, number
        self.folder = tempfile.mkdtemp(prefix="lockstep-launch.")
        self.tmp = os.path.join(self.folder, "tmp")
        os.mkdir(self.tmp)
        self.mark = "%d.%d.%d" % (os.getpid(), seed, number)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("LOCKSTEP_", "OMPI_", "PMI", "OMP_", "SLURM_"))}
        self.env.update(LOCKSTEP_TEST_LAUNCH=self.mark, TMPDIR=self.tmp, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.limits, self.closed, self.signal, self.shm, self.long = [], [], None, None, False
        self.quiet = False  # what it says cannot be read
        self.bad = self.chance(0.35)
        self.workers = 1

    def chance(self, p):
        return self.r.random() < p

    def pick(self, *choices):
        return self.r.choice(choices)

    def value(self, good, bad):
        """One that is taken, or in some launches, now and then, one that is not."""
        return self.r.choice(bad) if self.bad and self.chance(0.3) else self.r.choice(good)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def place(self, name):
        """Where something is to be written: mostly it can be."""
        return self.value([self.path(name)], [self.path("none/" + name), "/dev/full", "/proc/" + name, self.folder, "/dev/null", ""])

    def garbage(self):
        kind = self.r.randrange(4)
        if kind == 0:
            return self.r.randbytes(self.r.randrange(2000))
        if kind == 1:
            return b"{" * self.r.randrange(100000)
        if kind == 2:
            return json.dumps({"epochs": self.pick(1, "x", -1, 1e400, None, [1]), "lr": self.pick("nan", 1e-3, True)}).encode()
        return b""

    def train_options(self):
        r, o = self.r, []
        def maybe(p, *words):
            if self.chance(p):
                o.extend(str(w) for w in words)
        maybe(1, "--limit-train", self.pick(1, 2, 63, 100, 256, 600))
        maybe(1, "--limit-test", self.pick(1, 30, 100))
        maybe(1, "--epochs", self.pick(1, 1, 1, 2, 3) if not self.long else 1000000)
        maybe(0.4, "--batch-size", self.value([7, 32, 64, 64, 128], [1, 100, 0, -1, "x", "1e3", 1000000000, 4611686018427387904, 99999999999999999999]))
        maybe(0.3, "--micro-batch", self.value([1, 8, 16], [3, 0, 1000000000]))
        maybe(0.3, "--replicas", self.value([1, 1, 2], [3, 8, 100000, 0]))
        maybe(0.2, "--threads", self.value([1, 2, 3], [300000, -1]))
        maybe(0.2, "--strategy", self.value(["allreduce", "reduce-broadcast", "central", "tree", "parameter-server"], ["ring", "mirrored"]))
        maybe(0.05, "--servers", self.value([1], [0, 2, 100000]))
        maybe(0.3, "--optimizer", self.value(["sgd", "adam", "adamw", "lars", "lamb"], ["lion"]))
        maybe(0.3, "--lr", self.value([0, 1e-3, 0.1], [1e10, 1e38, "nan", "-1", "1e-400", "0x1p3", "1,5"]))
        maybe(0.1 * self.bad, "--momentum", self.pick(0.9, 1, -1, "x"))
        maybe(0.1, "--precision", self.value(["bf16", "fp32"], ["fp16"]))
        maybe(0.1, "--compress", self.value(["bf16", "none", "topk", "topk:0.1"], ["fp8", "topk:2"]))
        maybe(0.1, "--tune", self.value(["off", "auto", "again"], ["often"]))
        maybe(0.1, "--validate")
        maybe(0.1, "--remat")
        maybe(0.1, "--no-evaluate")
        maybe(0.1, "--no-bind")
        maybe(0.2, "--verbose", self.value([0, 1, 2], [3]))
        maybe(0.1, "--image-size", self.value([28], [7, 32, 4097]))
        maybe(0.1, "--augment", self.value(["flip", "crop", "flip,crop"], ["blur", ","]))
        maybe(0.1, "--normalize", self.value(["unit", "dataset"], ["x"]))
        maybe(0.1, "--clip-norm", self.value([1, 0.5], [0, "inf"]))
        maybe(0.05, "--classes", self.value([10, 11], [5, 1000000000]))
        maybe(0.1, "--schedule", self.value(["step", "cosine", "one-cycle", "cyclic", "polynomial"], ["x"]))
        maybe(0.1, "--seed", self.value([0, 1, 9223372036854775807], [-1]))
        maybe(0.15, "--record", self.place("run.json"))
        maybe(0.15, "--metrics", self.place("run.csv"))
        maybe(0.1, "--tensorboard", self.place("events"))
        maybe(0.1, "--trace", self.place("trace"))
        maybe(0.1, "--trace-steps", self.value([1, 5, 9223372036854775807], [0]))
        maybe(0.15, "--save", self.place("weights"))
        maybe(0.1, "--time-limit", self.value(["0:01", "0:03", "none", "1", "99999999:00"], ["soon"]))
        maybe(0.15, "--data", self.value(["digits"], ["shapes", "mnist:" + self.folder, "cifar10:" + self.folder, "mnist:/nowhere", "x" * 5000,
                                        "mnist:" + "y" * 12000, "", ":", "digits:"]))
        if self.chance(0.2 * self.bad):
            o += ["--weights", self.write("given", self.garbage())]
        if self.chance(0.2 * self.bad):
            if self.chance(0.2):
                os.mkfifo(self.path("pipe"))
                o += ["--config", self.path("pipe")]
            else:
                o += ["--config", self.write("config", self.garbage())]
        if self.chance(0.2 * self.bad):
            o.insert(r.randrange(len(o) + 1), self.pick("--", "--frobnicate", "-x", "word", "--help", "--epochs", "\x1b[2J", "--lr=", "\xff"))
        return o

    def draw(self):
        model = self.pick("mnist-mlp", "mnist-mlp", "mnist-mlp", "mnist-linear", "mnist-cnn", "resnet20" if self.chance(0.2) else "mnist-mlp", "no-model" if self.chance(0.2) else "mnist-mlp")
        command = self.pick(*["train"] * 14, "bench", "bench", "plan", "summary", "check", "scale", "report", "slurm", "models", "datasets", "--version", "nothing")
        several = self.chance(0.45)
        if several:
            self.workers = self.value([2, 2, 2, 3, 4], [100, 65536, 0])
        signals = command == "train" and self.chance(0.25)
        self.long = signals
        if command == "train":
            args = [model] + self.train_options()
            if several:
                args += ["--workers", str(self.workers)]
            if signals:
                args += ["--wait-limit", "0:03"]
        elif command == "bench":
            args = [model, "--steps", self.pick("2", "4"), "--batch-size", self.pick("32", "64", "0", "1000000000"), "--micro-batch", self.pick("8", "16", "3")]
            args += self.pick([], ["--layers"], ["--json"], ["--no-floor"], ["--input-shape", self.pick("65536x65536x1", "8x8x1", "0x0", "28x28x1")])
            if several:
                args += ["--workers", str(self.workers)]
        elif command == "plan":
            args = [model, "--memory", self.pick("1G", "1K", "x", "99999T", "-1")] + self.pick([], ["--workers", "64", "--hosts", "8"], ["--hosts", "3"])
        elif command == "scale":
            args = [model, "--workers", self.pick("1", "1,2", "2,x", "0"), "--limit-train", "128", "--limit-test", "50", "--epochs", "1", "--out", self.place("study")]
        elif command == "report":
            args = [self.pick(self.write("a.json", self.garbage()), "/nowhere", self.folder, "/dev/null", "/proc/self/mem"), "--out", self.place("page")]
        elif command == "slurm":
            args = [self.pick("train", "scale", "x"), model] + self.train_options()
        elif command == "check":
            args = ["--workers", str(self.workers)] if several and self.workers < 10 else []
        else:
            args = self.pick([], ["x"], [model], ["--help"])
        # The environment.
        for name, values in (("OMP_DYNAMIC", ("true", "x")), ("OMP_THREAD_LIMIT", ("1", "2", "0")), ("OMP_MAX_ACTIVE_LEVELS", ("0",)),
                             ("OMP_NUM_THREADS", ("1", "7", "x")), ("OMP_STACKSIZE", ("1", "64K")), ("OMP_WAIT_POLICY", ("active",)),
                             ("LOCKSTEP_LAUNCHED", ("2", "x", "")), ("OMPI_COMM_WORLD_RANK", ("1", "0", "x")), ("PMI_RANK", ("1",)),
                             ("OMPI_COMM_WORLD_SIZE", ("2",)), ("LOCKSTEP_STARTED", ("0", "x", "1e400")), ("LOCKSTEP_TERMINAL", ("1",)), ("LOCKSTEP_FAKE_HOSTS", ("2", "-1", "x")),
                             ("LC_ALL", ("de_DE.UTF-8", "C", "xx")), ("TMPDIR", ("/proc/nowhere", "/dev/null")), ("PATH", ("/nowhere",)),
                             ("ONEDNN_MAX_CPU_ISA", ("SSE41", "x")), ("TERM", ("dumb",)), ("SLURM_JOB_ID", ("7",)), ("LOCKSTEP_TRACE", ("1",)), ("COLUMNS", ("1", "-5"))):
            if self.chance(0.025):
                self.env[name] = self.pick(*values)
        # Limits.
        if self.chance(0.1):
            self.limits.append((resource.RLIMIT_AS, self.r.randrange(120, 1500) << 20))
        if self.chance(0.05):
            self.limits.append((resource.RLIMIT_NOFILE, self.r.randrange(4, 64)))
        if self.chance(0.05):
            self.limits.append((resource.RLIMIT_FSIZE, self.pick(0, 1000, 100000, 5000000)))
        if self.chance(0.03):
            self.limits.append((resource.RLIMIT_CPU, self.pick(1, 2)))
        if self.chance(0.03):
            self.limits.append((resource.RLIMIT_STACK, self.pick(256 << 10, 1 << 20)))
        if NAMESPACES and self.workers > 1 and self.chance(0.15):
            self.shm = self.pick(1, 4, 12, 30, 57, 60, 64, 66, 70, 76, 90)
        if self.chance(0.05):
            self.closed = [fd for fd in (0, 1, 2) if self.chance(0.5)]
        self.full = self.chance(0.03)
        self.quiet = 2 in self.closed or any(what == resource.RLIMIT_FSIZE for what, _ in self.limits)  # into a file, too
        if signals:
            self.signal = (self.pick(signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT, signal.SIGBUS),
                           self.pick("program", "launcher", "worker", "worker", "all"), self.r.uniform(0, 3.0))
        self.args = [command] + args

    def prepare(self):  # in the child
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for what, value in self.limits:
            resource.setrlimit(what, (value, value))
        for fd in self.closed:
            os.close(fd)

    def members(self):
        found = []
        for p in os.listdir("/proc"):
            if p.isdigit():
                try:
                    with open("/proc/%s/environ" % p, "rb") as f:
                        if ("LOCKSTEP_TEST_LAUNCH=" + self.mark).encode() in f.read().split(b"\0"):
                            found.append(int(p))
                except OSError:
                    pass
        return sorted(found)

    def is_daemon(self, pid):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                return os.path.basename(f.read().split(b"\0")[0]) == b"orted"
        except OSError:
            return False

    def hit(self, top):
        """Sends the signal; whom it went to."""
        number, who, _ = self.signal
        rest = [p for p in self.members() if p != top]
        if who == "program" or not rest:
            targets = [top]
        elif who == "launcher":
            targets = rest[:1]
        elif who == "worker":
            targets = rest[-1:]
        else:
            targets = [top] + rest
        if number == signal.SIGSTOP:  # Open MPI's daemon beside a single process: stopped, nobody of ours could end it
            targets = [p for p in targets if p == top or not self.is_daemon(p)]
        for p in targets:
            try:
                os.kill(p, number)
            except OSError:
                pass
        self.hits = targets
        self.direct = top in targets
        if number == signal.SIGSTOP and self.direct:  # nobody but its parent can end it then
            time.sleep(0.5)
            try:
                os.kill(top, signal.SIGCONT)
            except OSError:
                pass
        if number == signal.SIGSTOP and not rest and self.long:
            os.kill(top, signal.SIGTERM)

    def has_children(self, top):
        try:
            with open("/proc/%d/task/%d/children" % (top, top)) as f:
                return bool(f.read().strip())
        except OSError:
            return True

    def await_moment(self, child):
        """Until the signal is due: after a while, or in the moment in which the program has just started another process. Whether it still runs."""
        moment = time.monotonic() + (self.signal[2] if self.signal[2] > 0.2 else 5)
        while child.poll() is None and time.monotonic() < moment:
            if self.signal[2] > 0.2:
                time.sleep(0.01)
            elif self.has_children(child.pid):
                break
        return child.poll() is None

    def run(self):
        words = [self.program] + self.args
        if self.shm:
            words = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size="$0"m tmpfs /dev/shm && exec "$@"', str(self.shm)] + words
        out = open("/dev/full" if self.full else self.path("out"), "wb")
        err = open(self.path("err"), "wb")
        before = set(os.listdir("/dev/shm"))
        start = time.monotonic()
        self.direct = False
        try:
            child = subprocess.Popen(words, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=self.prepare)
        except (OSError, subprocess.SubprocessError, ValueError) as e:
            return "ended well", None, 0.0  # the system did not start it at all
        top = child.pid
        problem = None
        if self.signal and self.await_moment(child):
            self.hit(top)
        # With SSE4.1 alone eight images of mnist-cnn take five seconds of a core (with AVX2 a quarter of one); the slowest launch met took 180 s.
        deadline = start + LIMIT * (4 if self.env.get("ONEDNN_MAX_CPU_ISA") == "SSE41" else 1)
        if self.long:  # it does not end by itself, unless it was hit so that it must
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                if not (self.signal[0] in (signal.SIGHUP,) and not self.direct):
                    gone = [p for p in getattr(self, "hits", []) if p != top and not os.path.exists("/proc/%d" % p)]
                    if gone and self.signal[0] in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
                        problem = "goes on though %s was hit" % gone
                child.send_signal(signal.SIGTERM)
                self.direct = True
        try:
            status = child.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            problem = "does not end"
            status = None
        seconds = time.monotonic() - start
        with open(self.path("err"), "rb") as f:
            said = f.read().decode("utf-8", "replace")
        if problem is None and status != 0 and not self.quiet and not self.direct:
            told = [l for l in said.splitlines() if l.startswith(("lockstep", "/")) or "error while loading shared" in l or "libgomp:" in l or "An error occurred in MPI_Init" in l or l.startswith(("sh:", "unshare:", "mount:", "srun")) or self.signal and "*** Process received signal" in l]
            if not told:
                problem = "ends with %d and not a word" % status
        # Whoever is still there gets a moment to go.
        for _ in range(60):
            left = self.members()
            if not left:
                break
            time.sleep(0.1)
        if left and problem is None:
            problem = "leaves processes behind: %s" % [open("/proc/%d/cmdline" % p).read().replace("\0", " ")[:100] for p in left if os.path.exists("/proc/%d" % p)]
        for p in left:
            try:
                os.kill(p, signal.SIGKILL)
            except OSError:
                pass
        if child.poll() is None:
            child.kill()
            child.wait()
        mine = [n for n in set(os.listdir("/dev/shm")) - before if n.startswith("lockstep") and "fuzz" not in n]
        mine += [n for n in os.listdir(self.tmp) if not n.startswith("ompi.")]
        for top_folder, _, names in os.walk(self.folder):
            mine += [n for n in names if n.startswith(("run.json.", "weights.", "run.csv.", "trace.json."))]
        killed = self.signal and self.signal[0] in (signal.SIGKILL,) or self.limits
        if mine and problem is None and not killed and not self.signal:
            problem = "leaves files behind: %s" % mine
        kind = "ended well" if status == 0 else "refused or failed"
        if problem:
            problem += "\n    " + " ".join("'%s'" % w[:120] for w in words[1:]) + "\n    environment: %s\n    limits: %s, closed: %s, signal: %s, shm: %s\n    it said: %s" % (
                {k: v for k, v in self.env.items() if os.environ.get(k) != v}, self.limits, self.closed, self.signal, self.shm, said[-900:])
        return kind, problem, seconds


def one(program, seed, number):
    launch = Launch(program, seed, number)
    try:
        launch.draw()
        kind, problem, seconds = launch.run()
    finally:
        shutil.rmtree(launch.folder, ignore_errors=True)
    with lock:
        totals["launches"] += 1
        totals[kind] += 1
        totals["with signals"] += launch.signal is not None
        totals["several workers"] += launch.workers > 1
        totals["slowest"] = max(totals["slowest"], seconds)
        if problem:
            totals["broken"] += 1
            print("BROKEN: --only %d (seed %d): %s" % (number, seed, problem), flush=True)


def main():
    global NAMESPACES, LIMIT
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--launches", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int)
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="how long a launch may last")
    a = parser.parse_args()
    LIMIT = a.limit
    NAMESPACES = subprocess.call(["unshare", "-m", "true"], stderr=subprocess.DEVNULL) == 0
    numbers = [a.only] if a.only is not None else range(a.launches)
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for done in [pool.submit(one, os.path.abspath(a.program), a.seed, n) for n in numbers]:
            done.result()
    print(", ".join("%s: %s" % (k, round(v, 1)) for k, v in totals.items()))
    sys.exit(1 if totals["broken"] else 0)


if __name__ == "__main__":
    main()
