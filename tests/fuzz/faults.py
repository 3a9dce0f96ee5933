"""Kill real work and fill its disk: ``python tests/fuzz/faults.py`` (one trial: ``--work NAME --seed N``).

Work runs in a child process, which is killed at one of its steps on the disk or after a random time, or has
a disk that becomes full. What lies there then is whole or absent, the next run gives the result of an
undisturbed one, and no temporary folder is left.
"""

import argparse
import gc
import hashlib
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "fcntl.flock")
PATIENCE = 1800  # seconds after which a child counts as one that hangs
NAMES = ("ada", "tom", "eve", "sam")
LINES = [
    f"{one} saw {two} . then {two} said to {one} : good day {one} !" for one in NAMES for two in NAMES
] * 8
ABSENT = "absent"
MODULES = (  # children have them at once
    "accelerate", "pandas", "pyarrow.parquet", "spacy", "torch", "workbench.analysis.annotations",
    "workbench.construction.shelf", "workbench.datasets.archives",
    "workbench.evaluation.interchange.export", "workbench.models", "workbench.models.neural.recurrent",
    "workbench.people.campaign", "workbench.runs.store", "workbench.training.loop",
)  # fmt: skip


def sha256(*parts):
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def frame(table):
    return sha256(table.to_json())


def items(n=12):
    import workbench as wb  # noqa: PLC0415 - after the home is set

    texts = [f"{NAMES[i % 4]} saw {NAMES[i % 3]} . number {i} said to ___" for i in range(n)]
    return wb.items_from_text(texts, answers=[NAMES[i % 3] for i in range(n)], tokenised=True)


def ngram(smoothing):
    from workbench.models import NGram  # noqa: PLC0415 - as above

    return NGram.fit(LINES, order=2, memory="60M", smoothing=smoothing, progress=False)


def lstm(folder):
    from workbench.models import LSTM  # noqa: PLC0415 - as above

    return LSTM.fit(
        LINES, vocabulary=14, width=8, rows=4, length=10, tokens=3000, development=items(), evaluations=6,
        folder=folder and folder / "lstm", device="cpu", progress=False,
    )  # fmt: skip


def weights(model):
    return sha256({name: tensor.tolist() for name, tensor in model.network.state_dict().items()})


def annotate(_):
    import workbench as wb  # noqa: PLC0415 - as above

    return frame(
        wb.annotate(items(), workers=1, progress=False).drop(columns=["mentions", "speech", "names"])
    )


def predict(_):
    import workbench as wb  # noqa: PLC0415 - as above

    table = wb.predict(items(), wb.models.RandomWord(vocabulary=list(NAMES)), seed=3).predictions
    return frame(table)


def predicted(_):
    from workbench.runs.store import find_run, runs  # noqa: PLC0415 - as above

    return frame(find_run(names[0]).predictions) if (names := runs()["run"].tolist()) else ABSENT


def corpus(_):
    from workbench.texts.corpus import Corpus  # noqa: PLC0415 - as above

    made = Corpus.of(LINES, workers=1, progress=False)
    return sha256(made.words, made.ids.tolist(), made.starts.tolist(), made.counts.tolist())


def shelf(folder):
    from workbench import construction  # noqa: PLC0415 - as above
    from workbench.datasets.books import Book  # noqa: PLC0415 - as above

    texts = {name: " ".join(LINES[number:]) for number, name in enumerate(NAMES)}
    books = [Book(name, name, None, None, text, tokenised=True, source="") for name, text in texts.items()]
    construction.read_shelf(books, language=None, workers=1, progress=False).save(folder / "shelf")
    return shelved(folder)


def shelved(folder):
    from workbench import construction  # noqa: PLC0415 - as above

    if not (folder / "shelf").exists():
        return ABSENT
    made = construction.Shelf(folder / "shelf")
    return sha256(made.manifest.digest, frame(made.frame), [book.text for book in made])


def stream(folder):
    from workbench.texts.corpus import Corpus  # noqa: PLC0415 - as above
    from workbench.texts.stream import Stream  # noqa: PLC0415 - as above

    made = Stream.of(Corpus.of(LINES, workers=1, progress=False), 14).copy(folder / "stream")
    return sha256(made.vocabulary, made.read(0, made.n_tokens).tolist(), made.starts.tolist())


def n_gram(smoothing):
    return lambda _: frame(ngram(smoothing).predict(items()))


def fit(_):
    return weights(lstm(None))


def fit_in_folder(folder):
    return weights(lstm(folder))


def save(folder):
    ngram("good-turing").save(folder / "saved")
    return saved(folder)


def saved(folder):
    from workbench.models import NGram  # noqa: PLC0415 - as above
    from workbench.storage.errors import DataError  # noqa: PLC0415 - as above

    try:
        return frame(NGram.load(folder / "saved").predict(items()))
    except DataError:
        if (folder / "saved" / "predictor.json").exists():
            raise
        return ABSENT


def parquet(folder):
    items(200).to_parquet(folder / "items.parquet")
    return read_parquet(folder)


def read_parquet(folder):
    from workbench.items.items import Items  # noqa: PLC0415 - as above

    file = folder / "items.parquet"
    return sha256([str(item) for item in Items.from_parquet(file)]) if file.exists() else ABSENT


EXPORTS = ("table.csv", "table.jsonl", "table.parquet")


def export(folder):
    import workbench as wb  # noqa: PLC0415 - as above

    run = wb.predict(items(200), wb.models.RandomWord(vocabulary=list(NAMES)), seed=3)
    for name in EXPORTS:
        wb.export_results(run, folder / name)
    items(200).to_csv(folder / "items.csv")
    return exported(folder)


def exported(folder):
    files = [folder / name for name in (*EXPORTS, "items.csv")]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()]
    return sha256(digests) if len(digests) == len(files) else ABSENT


def unpack(folder):
    from workbench.datasets import archives  # noqa: PLC0415 - as above
    from workbench.storage.files import atomic_path  # noqa: PLC0415 - as above

    archive = folder / "data.tar.gz"
    if not archive.exists():
        with atomic_path(archive) as path, tarfile.open(path, "w:gz") as file:
            for number in range(20):
                content = f"{number} ".encode() * 2000
                member = tarfile.TarInfo(f"data/{number}.txt")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
    archives.unpack(archive, {})
    return unpacked(folder)


def unpacked(folder):
    files = sorted((folder / "data").rglob("*"))
    return sha256([(file.name, file.read_text(encoding="utf-8")) for file in files]) if files else ABSENT


def note(folder):
    from workbench.items.notes import read_notes, write_note  # noqa: PLC0415 - as above

    for number in range(8):
        write_note("x", f"x/{number}", note=f"note {number} " * 50, folder=folder / "notes")
    return sha256({key: value.note for key, value in read_notes(["x"], folder=folder / "notes").items()})


def any_notes(folder):
    """Read notes; those that are there are whole, in the order in which they were written."""
    from workbench.items.notes import read_notes  # noqa: PLC0415 - as above

    there = {key: value.note for key, value in read_notes(["x"], folder=folder / "notes").items()}
    whole = {
        f"x/{number}": f"note {number} ".strip() and (f"note {number} " * 50).strip()
        for number in range(len(there))
    }
    return ABSENT if there == whole else sha256(there)


def nothing(_):
    return ABSENT


# what is done, and what reads what is visible of it: the same result, or nothing
WORK = {
    "annotate": (annotate, nothing),
    "predict": (predict, predicted),
    "corpus": (corpus, nothing),
    "shelf": (shelf, shelved),
    "stream": (stream, nothing),
    "n-gram, Kneser-Ney": (n_gram("kneser-ney"), nothing),
    "n-gram, Good-Turing": (n_gram("good-turing"), nothing),
    "LSTM": (fit, nothing),
    "LSTM in a folder": (fit_in_folder, nothing),
    "save a model": (save, saved),
    "to_parquet": (parquet, read_parquet),
    "export": (export, exported),
    "unpack": (unpack, unpacked),
    "notes": (note, any_notes),
}


class Child:
    """A process that does work in a folder; its outcome: "same", "killed" or an error and its text."""

    def __init__(self, work, folder, kill_at=None, seconds=None):
        self.reader, writer = os.pipe()
        self.steps, self.seconds = 0, seconds
        self.pid = os.fork()
        if not self.pid:
            os.close(self.reader)
            try:
                self._run(work, folder, writer, kill_at)
            finally:
                os._exit(0)
        os.close(writer)

    def _run(self, work, folder, writer, kill_at):
        os.setsid()
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - as long as the process
        os.environ["WORKBENCH_HOME"] = str(folder / "home")
        done = 0

        def count(event, arguments):
            nonlocal done
            if event in STEPS and not (event == "open" and not writes(arguments)):
                done += 1
                if done == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        warnings.simplefilter("ignore")
        try:
            outcome = ["same", work(folder)]
        except BaseException as error:  # noqa: BLE001 - it is the outcome
            names = [each.__name__ for each in type(error).__mro__]
            kind = "DataError" if "DataError" in names else names[0]
            outcome = [kind, f"{error}\n{traceback.format_exc()}"]
        os.write(writer, json.dumps([*outcome, done]).encode()[:60_000])

    def outcome(self):
        """Wait for the end, or kill it after `seconds`."""
        end = time.monotonic() + (PATIENCE if self.seconds is None else self.seconds)
        while not (ended := os.waitpid(self.pid, os.WNOHANG)[0]) and time.monotonic() < end:
            time.sleep(0.002)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with os.fdopen(self.reader, "rb") as pipe:
            answer = pipe.read()
        if not answer:
            return ("killed" if self.seconds is not None or ended else "hangs"), ""
        kind, text, self.steps = json.loads(answer)
        return kind, text


def writes(arguments):
    """Return whether a file is opened for writing."""
    _, mode, flags = arguments
    return (
        bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if mode is None
        else mode[:1] in "wax" or "+" in mode
    )


@contextmanager
def disk(folder, size):
    """Mount a small disk on a folder; yield a function that gives it room."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = shutil.which("mount")
    subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True, capture_output=True
    )
    try:
        yield lambda: subprocess.run(
            [mount, "-o", "remount,size=256m", folder], check=True, capture_output=True
        )
    finally:
        subprocess.run([shutil.which("umount"), "--lazy", folder], check=True)


def names(folder):
    """Return the names of all that is in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class Faults:
    """Expected results, and the trials."""

    def __init__(self, folder):
        self.folder, self.known = Path(folder), {}
        for module in MODULES:
            importlib.import_module(module)
        gc.collect()
        gc.freeze()  # children would copy all that their collector looks at

    def expected(self, name):
        """Return the result, the number of steps, the seconds and the bytes of undisturbed work."""
        if name not in self.known:
            folder = self.place()
            start = time.perf_counter()
            child = Child(WORK[name][0], folder)
            kind, text = child.outcome()
            if kind != "same":
                raise RuntimeError(f"{name}: {kind} {text}")
            seconds = time.perf_counter() - start
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            self.known[name] = SimpleNamespace(
                result=text, steps=child.steps, seconds=seconds, size=size, names=names(folder)
            )
        return self.known[name]

    def place(self):
        """Return an empty folder."""
        shutil.rmtree(self.folder / "trial", ignore_errors=True)
        (self.folder / "trial").mkdir()
        return self.folder / "trial"

    def problems(self, name, folder, allowed, outcome, *, room=None):
        """Return what is wrong after a fault with an outcome."""
        expected, found = self.expected(name).result, []
        if outcome[0] not in allowed or (outcome[0] == "same" and outcome[1] != expected):
            found.append(f"the fault gives {outcome}")
        seen = Child(WORK[name][1], folder).outcome()
        if seen[0] != "same" or seen[1] not in {expected, ABSENT}:
            found.append(f"half is visible: {seen}")
        if room is not None:
            room()
        again = Child(WORK[name][0], folder).outcome()
        if again != ("same", expected):
            found.append(f"the next run gives {again}")
        if left := sorted(self.known[name].names ^ names(folder)):
            found.append(f"left or lacking: {', '.join(left)}")
        return found

    def kill(self, name, *, step=None, seconds=None):
        """Kill work at a step, or after so many seconds; return what is wrong."""
        self.expected(name)
        folder = self.place()
        outcome = Child(WORK[name][0], folder, kill_at=step, seconds=seconds).outcome()
        return self.problems(name, folder, {"killed", "same"}, outcome)

    def full(self, name, size):
        """Do work on a disk of so many bytes; return what is wrong."""
        self.expected(name)
        folder = self.place()
        with disk(folder, size) as room:
            outcome = Child(WORK[name][0], folder).outcome()
            return self.problems(name, folder, {"same", "DataError"}, outcome, room=room)

    def trial(self, name, seed):
        """Do one trial, which the seed says; return its kind and what is wrong."""
        draw, known = random.Random(f"{name}/{seed}"), self.expected(name)  # noqa: S311 - no secret
        kind = draw.choice(["step", "step", "seconds", "full"])
        if kind == "step":
            return "kills", self.kill(name, step=draw.randint(1, known.steps))
        if kind == "seconds":
            return "kills", self.kill(name, seconds=draw.uniform(0, known.seconds))
        return "full disks", self.full(name, draw.randint(8192, max(16_384, int(known.size * 1.2))))


def writers(folder, seed, people=20):
    """Let 20 processes write notes at once, kill half of them; return what is wrong, and how many."""
    from workbench.items.notes import read_notes, write_note  # noqa: PLC0415 - as above

    draw, children = random.Random(seed), []  # noqa: S311 - no secret
    folder.mkdir(parents=True, exist_ok=True)
    logs = folder.parent / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()

    def write(who):
        with (logs / str(who)).open("a") as log:
            for number in range(10):
                write_note("x", f"{who}/{number}", note=str(number), folder=folder)
                log.write(f"{who}/{number}\n")
                log.flush()

    for who in range(people):
        seconds = draw.uniform(0, 1) if who % 2 else None
        children.append(Child(lambda _, who=who: write(who), folder, seconds=seconds))
    found = [outcome for child in children if (outcome := child.outcome())[0] not in {"same", "killed"}]
    write_note("x", "last", note="x", folder=folder)
    written = {line for log in logs.iterdir() for line in log.read_text().splitlines()}
    there = set(read_notes(["x"], folder=folder))
    left = [path.name for path in folder.iterdir() if path.name not in {"x.jsonl", ".x.jsonl.lock"}]
    problems = [f"lost: {written - there}"] if written - there else []
    return problems + [f"left: {left}"] * bool(left) + [str(each) for each in found], people // 2


JUDGES = 4


def judges(folder, seed, rounds=5):
    """Let processes judge the items of one campaign, kill all of them again and again.

    Return what is wrong, and how many were killed.

    An answer that was acknowledged is there; of the others at most the last one of a process is.
    """
    from workbench.people.campaign import Campaign  # noqa: PLC0415 - as above

    folder.mkdir(parents=True)
    draw, path = random.Random(seed), folder / "campaign.db"  # noqa: S311 - no secret
    found, n_killed = [], 0
    asked = items(1000)
    right = dict(zip(asked.frame["item_id"], asked.frame["answer"], strict=True))
    Campaign.create(path, asked, people=(1, 1, 2), per_page=5, lease=1e6).close()

    def play(who, start):
        campaign, last = Campaign.open(path), 0
        with (folder / f"{who}.log").open("a", buffering=1) as log:
            while page := campaign.next_page(who):
                for task in page.tasks:
                    if not task.finished:
                        word = right[task.item_id] if last % 9 else f"{start} {last}"
                        log.write(f"? {task.item_id} {word}\n")
                        campaign.answer(page.id, who, task.item_id, [word])
                        log.write(f"! {task.item_id} {word}\n")
                        last += 1
                campaign.submit(page.id, who)
        campaign.close()

    campaign = Campaign.open(path)
    people = [campaign.add_subject().id for _ in range(JUDGES)]
    campaign.close()
    for start in range(rounds):
        seconds = draw.uniform(0, 0.4)
        children = [
            Child(lambda _, who=who, start=start: play(who, start), folder, seconds=seconds) for who in people
        ]
        outcomes = [child.outcome() for child in children]
        n_killed += sum(kind == "killed" for kind, _ in outcomes)
        found += [str(each) for each in outcomes if each[0] not in {"same", "killed"}]
        campaign = Campaign.open(path)
        frame = campaign.judgments()
        campaign.close()
        there = {(row.subject, f"{row.item_id} {row.prediction}") for row in frame.itertuples()}
        sent, taken = set(), set()
        for who in people:
            lines = (
                (folder / f"{who}.log").read_text().splitlines() if (folder / f"{who}.log").exists() else []
            )
            sent |= {(who, line[2:]) for line in lines if line[0] == "?"}
            taken |= {(who, line[2:]) for line in lines if line[0] == "!"}
        if lost := taken - there:
            found.append(f"lost: {lost}")
        if strange := there - sent:
            found.append(f"never sent: {strange}")
        if frame.duplicated(["subject", "item_id"]).any():
            found.append("judged twice")
    return found, n_killed


PROCESSES = {"20 writers": writers, "campaign": judges}
"""What several processes do at once; returned is what is wrong, and how many were killed."""


def main():
    """Run trials for some minutes and print a table: work, faults, failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--work", choices=[*WORK, *PROCESSES], action="append")
    parser.add_argument("--seed", type=int, help="only this trial")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rows, failures, names = {}, [], arguments.work or [*WORK, *PROCESSES]
    end, seed = time.monotonic() + arguments.minutes * 60, arguments.start
    with tempfile.TemporaryDirectory(prefix="faults-") as base:
        faults = Faults(base)
        os.environ["WORKBENCH_HOME"] = str(Path(base) / "home")
        while time.monotonic() < end:
            for name in names:
                number = seed if arguments.seed is None else arguments.seed
                if name in PROCESSES:
                    kind, (problems, n) = "kills", PROCESSES[name](faults.place() / "here", number)
                else:
                    (kind, problems), n = faults.trial(name, number), 1
                row = rows.setdefault(name, {"kills": 0, "full disks": 0, "failures": 0})
                row[kind] += n
                row["failures"] += bool(problems)
                if problems:
                    failures.append((name, number))
                    print(f"{name}, seed {number}: {'; '.join(problems)}", flush=True)  # noqa: T201
                if time.monotonic() > end:
                    break
            seed += 1
            if arguments.seed is not None:
                break
    print(f"{'work':<22}{'kills':>8}{'full disks':>12}{'failures':>10}")  # noqa: T201
    for name, row in rows.items():
        print(f"{name:<22}{row['kills']:>8}{row['full disks']:>12}{row['failures']:>10}")  # noqa: T201
    return int(any(row["failures"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
