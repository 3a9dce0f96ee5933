"""Small files in the forms of the releases, with words of our own."""

import io
import json
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

PLAIN = [
    "the heron stood in the reeds . `` it waits for eels , '' said ada . only the eels could see the heron",
    "tom had a kite of red silk . he ran down the hill and let go of the string , and up went the kite",
    "they baked all night . at dawn the whole street smelled of fresh bread",
]
CASED = [line[0].upper() + line[1:].replace(" ada", " Ada") for line in PLAIN]
RUNNING = [
    'The heron stood in the reeds.\n\n"It waits for the eels," said Ada. Only the eels could see the heron',
    'There was only one who could have done it, and I called her name. "Ada',
    "They baked all night. At dawn the whole street smelled of fresh bread",
]
WORDS = ["goose", "well", "lamp", "miller", "path", "cart", "bell", "crow", "barn", "oven"]


@dataclass
class Text:
    """What a corpus reads of a book."""

    text: str
    book_id: str = "one"
    title: str | None = None
    tokenised: bool = True


def book(book_id, lines):
    """Return a tokenised novel of lines."""
    return Text(" ".join(lines), book_id, book_id)


def lines(seed, n):
    """Make sentences of a few frequent words and many rare ones; some words are names or hold digits."""
    rng = np.random.default_rng(seed)
    rare = [f"{a}{b}" for a in "abcdefghij" for b in "klmnop"] + ["X-ray", "Ann", "a1", "well-kept"]
    parts = [["the", "The"], ["old", "new"], rare, ["sat", "ran"], ["down", *rare[:20]], ["."]]
    return [" ".join(rng.choice(part) for part in parts) for _ in range(n)]


def text(lines):
    return "".join(f"{line}\n" for line in lines)


OPENAI = text(json.dumps({"text": running}) for running in RUNNING)


def cbt_block(query="The XXXXX ran .", answer="goose", candidates=None, context=20, empty="\t"):
    candidates = "|".join(WORDS) if candidates is None else candidates
    rows = [f"{i} Sentence {i} tells of the {WORDS[i % 10]} ." for i in range(1, context + 1)]
    return "\n".join([*rows, f"{context + 1} {query}\t{answer}\t{empty}{candidates}"]) + "\n"


def cbt(n=3, **options):
    return "\n".join(cbt_block(**options) for _ in range(n))


HOLMES = [
    ("I keep my [{}] in the coal scuttle , as you know.", ["pipe", "horse", "river", "cloud", "duke"], "a"),
    ("He [{}] at me and said nothing.", ["boiled", "looked", "grew", "rang", "froze"], "b"),
    ("The hound's [{}] was heard on the moor.", ["violin", "ink", "howl", "visa", "tax"], "c"),
]


QUESTIONS, ANSWERS = "Holmes.machine_format.questions.txt", "Holmes.machine_format.answers.txt"
TABLE, KEY = "testing_data.csv", "test_answer.csv"
LINES = [
    (f"{i}{letter}) {line.format(word)}", letter == key)
    for i, (line, words, key) in enumerate(HOLMES, 1)
    for letter, word in zip("abcde", words, strict=True)
]
OFFICIAL = {QUESTIONS: text(line for line, _ in LINES), ANSWERS: text(line for line, right in LINES if right)}
ROWS = [
    f'{i},"{line.replace("[{}]", "_____")}",{",".join(words)}' for i, (line, words, _) in enumerate(HOLMES, 1)
]
CSV = {
    TABLE: text(["id,question,a),b),c),d),e)", *ROWS]),
    KEY: text(["id,answer", *(f"{i},{key}" for i, (_, _, key) in enumerate(HOLMES, 1))]),
}


def cnn(answer="@entity3", question="@placeholder sails to @entity1 on friday"):
    blocks = [
        "http://news.example/ferry",
        'the ferry of @entity1 is back . @entity3 , its captain , was glad : " at last " .',
        question,
        answer,
        "@entity3:Ada Brine\n@entity1:Port Ellery: East\n@entity20:Thursday",
    ]
    return "\n\n".join(blocks)


def write(folder, files):
    """Write files by name; text as UTF-8."""
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Path(folder)


def write_table(path, frame, **options):
    """Write a frame in the form that the end of a file's name tells; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    suffix = path.suffix.lower()
    if suffix in {".csv", ".tsv", ".tab"}:
        frame.to_csv(path, **{"index": False, "sep": "," if suffix == ".csv" else "\t"} | options)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix in {".arrow", ".feather"}:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        new = pa.ipc.new_stream if suffix == ".arrow" else pa.ipc.new_file
        with new(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table)
    elif suffix == ".xlsx":
        frame.astype("str").to_excel(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=suffix != ".json", **options)
    return path


def tar(files, mode="w:gz"):
    """Pack files by name; a TarInfo stands for what is no file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo()
            entry.name, entry.size = name, len(data) if entry is not content else 0
            archive.addfile(entry, io.BytesIO(data) if entry.size else None)
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def hub_rows(text):
    """Return the questions of the release as rows of the hub's set."""
    rows = []
    for block in text.strip().split("\n\n"):
        *sentences, last = [line.partition(" ")[2] for line in block.split("\n")]
        query, answer, *_, options = last.split("\t")
        rows.append(
            {"sentences": sentences, "question": query, "answer": answer, "options": options.split("|")}
        )
    return rows


def hub_row(question):
    """Return a question file of the release as a row of the hub's set."""
    url, article, query, answer, entities = question.strip().split("\n\n")
    return {
        "id": "one", "url": url, "article": article, "question": query, "answer": answer,
        "entities": entities.split("\n"),
    }  # fmt: skip
