"""Run the fuzz harness: ``python tests/fuzz/run.py --minutes 10``; a case again: ``--target NAME --seed N``.

Cases run in a process of their own, under a bound on memory. A case that ends the process, or hangs, is a
failure with its seed.
"""

import argparse
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import ChainMap, Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
PACKAGE = str(HERE.parents[1] / "workbench")
sys.path[:0] = [
    str(HERE.parents[1]),
    str(HERE),
    str(HERE.parent / "unit"),
]  # files and models are made as in other tests

PATIENCE = 1800  # seconds until a case counts as one that hangs
STILL = 120  # seconds without processor time, of the process and its children, after which it waits for ever
MEMORY = 2 << 30  # bytes beyond those that a process has at the start
UNPACKED = 64 << 20  # the bound of what is unpacked, so that a bomb is small
OUTCOMES = ("same", "valid", "absent", "problems", "DataError", "failure")


class Cases:
    """The cases of all targets: valid files are made once in a folder."""

    def __init__(self, folder):
        self.folder = Path(folder)
        from targets import TARGETS  # noqa: PLC0415 - reads where the home is

        self.targets = {target.name: target for target in TARGETS}
        self.expected = {}

    def valid(self, name):
        """Return the folder with the valid files of a target."""
        place = self.folder / "valid" / f"{list(self.targets).index(name)}"
        if not place.exists():
            made = self.folder / "making"
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
            self.targets[name].build(made)
            place.parent.mkdir(exist_ok=True)
            made.rename(place)
        return place

    def damaged(self, name, seed):
        """Return the folder of one case."""
        from mutator import copied  # noqa: PLC0415 - as above

        folder = copied(self.valid(name), self.folder / "case")
        self.targets[name].damage(folder, random.Random(f"{name}/{seed}"))  # noqa: S311 - no secret
        return folder

    def prepare(self, name):
        """Read the valid files, so that what must come out is known; return the functions that ran for it."""
        called = set()
        if name not in self.expected:
            from mutator import copied  # noqa: PLC0415 - as above

            folder = copied(self.valid(name), self.folder / "case")
            with calls(called):
                self.expected[name] = self.targets[name].read(folder)
            outcome = self.targets[name].judge(self.expected[name], folder, self.expected[name])
            assert outcome == "same", f"{name}: the valid file gives {outcome}"
        return called

    def outcome(self, name, seed):
        """Run one case: its outcome, and the traceback of a failure."""
        from workbench.storage.errors import DataError  # noqa: PLC0415 - as above

        target = self.targets[name]
        try:
            folder = self.damaged(name, seed)
        except Exception:  # noqa: BLE001 - the harness itself is broken
            return "broken", traceback.format_exc()
        try:
            return target.judge(target.read(folder), folder, self.expected[name]), ""
        except DataError:
            return "DataError", ""
        except Exception:  # noqa: BLE001 - that is what is looked for
            return "failure", traceback.format_exc(limit=-8)


@contextmanager
def calls(called):
    """Collect the functions of the package that run: file and first line."""

    def see(frame, _event, _argument):
        code = frame.f_code
        if PACKAGE in code.co_filename:
            called.add((code.co_filename, code.co_firstlineno))

    sys.settrace(see)  # told of calls alone, unlike a profile
    threading.settrace(see)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)


def bounded():
    """Bound memory from now on."""
    from workbench.storage import files  # noqa: PLC0415 - as above

    files.MAX_IN_MEMORY = UNPACKED
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def work(pipe, folder):
    """Run the cases that come through a pipe."""
    warnings.simplefilter("ignore")
    if not os.environ.get("FUZZ_LOUD"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ["WORKBENCH_HOME"] = str(Path(folder) / "home")
    os.environ.pop("WORKBENCH_DATA", None)
    cases = Cases(folder)
    while True:
        name, seed = pipe.recv()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if seed is None:
            try:
                pipe.send(("ready", cases.prepare(name)))
            except Exception:  # noqa: BLE001 - the target itself is broken
                pipe.send(("broken", traceback.format_exc()))
            continue
        bounded()
        pipe.send(cases.outcome(name, seed))


class Worker:
    """The process that runs cases, started anew when a case has ended it."""

    def __init__(self, folder):
        self.folder, self.process = folder, None

    def ask(self, name, seed):
        """Run one case; a process that ended or hangs is a failure."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=work, args=(other, self.folder), daemon=True)
            self.process.start()
            other.close()
        self.pipe.send((name, seed))
        start, before = time.monotonic(), None
        try:
            while not self.pipe.poll(STILL):
                now = self.processor_time()
                if time.monotonic() - start > PATIENCE or now == before:
                    break
                before = now
            else:
                return self.pipe.recv()
            report = "it did not end, or waits for something that never comes"
        except (EOFError, ConnectionResetError):
            self.process.join()
            report = f"the process ended with {self.process.exitcode}"
        self.stop()
        return "failure", report

    def processor_time(self):
        """Return the processor time of each process that is at work."""
        process = psutil.Process(self.process.pid)
        return {each.pid: each.cpu_times()[:4] for each in (process, *process.children(recursive=True))}

    def stop(self):
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def run(targets, *, minutes=None, cases=None, first=0, failures, called=None, out=print):
    """Run cases of targets, evenly in time or so many of each; return the counts by target.

    `called` gets the functions that run where files are valid. A target whose valid files cannot be made or
    read is a failure, and the others still run.
    """
    counts = {target.name: Counter() for target in targets}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        worker = Worker(folder)
        try:
            for target in targets:
                seed, count = first, counts[target.name]
                outcome, report = worker.ask(target.name, None)
                if outcome != "ready":
                    count["failure"] += 1
                    out(f"FAILURE {target.name}, valid files\n{report}")
                    continue
                if called is not None:
                    called |= report
                end = time.monotonic() + 60 * (minutes or 0) / len(targets)
                while seed - first < cases if cases is not None else time.monotonic() < end:
                    if worker.process is None:
                        worker.ask(target.name, None)
                    outcome, report = worker.ask(target.name, seed)
                    outcome = "failure" if outcome == "broken" else outcome
                    count[outcome] += 1
                    if outcome == "failure":
                        saved = save(folder, failures, target.name, seed, report)
                        out(f"FAILURE {target.name} --seed {seed}, files in {saved}\n{report}")
                    seed += 1
        finally:
            worker.stop()
    return counts


def save(folder, failures, name, seed, report):
    """Keep the files of a failing case, and its report."""
    words = "".join(c if c.isalnum() else "-" for c in name)
    saved = Path(failures) / f"{words}-{seed}"
    shutil.rmtree(saved, ignore_errors=True)
    saved.mkdir(parents=True)
    for path in (Path(folder) / "case").rglob("*"):
        if path.is_file() and not path.is_symlink():
            copy = saved / path.relative_to(Path(folder) / "case")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    (saved / "report.txt").write_text(f"{name} --seed {seed}\n{report}", encoding="utf-8")
    return saved


def table(targets, counts):
    """Return the counts as text, a row for each kind and one for all."""
    kinds = {target.kind: Counter() for target in targets} | {"all": Counter()}
    for target in targets:
        kinds[target.kind] += counts[target.name]
        kinds["all"] += counts[target.name]
    lines = [["kind", "cases", *OUTCOMES]]
    lines += [[kind, count.total(), *map(count.get, OUTCOMES)] for kind, count in kinds.items()]
    return "\n".join(f"{line[0]:12}" + "".join(f"{cell or 0:>10}" for cell in line[1:]) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--cases", type=int, help="so many cases of each target, in place of minutes")
    parser.add_argument("--seed", type=int, help="the first seed, and with --target the only one")
    parser.add_argument("--kind", help="only targets of this kind")
    parser.add_argument("--target", help="only targets whose name begins so")
    parser.add_argument("--jobs", type=int, default=1, help="processes among which the targets are split")
    parser.add_argument("--failures", default=str(Path(tempfile.gettempdir()) / "workbench-fuzz"))
    arguments = parser.parse_args()
    from targets import TARGETS  # noqa: PLC0415 - the path is set now

    targets = [
        target
        for target in TARGETS
        if arguments.kind in {None, target.kind} and target.name.startswith(arguments.target or "")
    ]
    if not targets:
        parser.error("there is no such target: " + ", ".join(target.name for target in TARGETS))
    part = partial(
        run,
        minutes=arguments.minutes,
        cases=arguments.cases,
        first=arguments.seed or 0,
        failures=arguments.failures,
    )
    jobs = min(arguments.jobs, len(targets))
    with ThreadPoolExecutor(jobs) as pool:
        counts = dict(ChainMap(*pool.map(part, [targets[n::jobs] for n in range(jobs)])))
    print(table(targets, counts))  # noqa: T201
    sys.exit(any(count["failure"] for count in counts.values()))


if __name__ == "__main__":
    main()
