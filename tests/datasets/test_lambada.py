import json

import builders as b
import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.analysis.annotations import annotate
from workbench.analysis.mentions import mentions
from workbench.datasets import lambada, load

DEV = "lambada_development_plain_text.txt"
CAPITALISED = "lambada_development_capitalized_plain_text.txt"


def read(folder, *args, **options):
    return load("lambada", *args, path=folder, **options)


@pytest.fixture
def folder(tmp_path):
    return b.write(
        tmp_path,
        {
            DEV: b.text(b.PLAIN),
            CAPITALISED: b.text(b.CASED),
            "sub/lambada_test_plain_text.txt": b.text(b.PLAIN[:1]),
            "sub/lambada_control_test_data_plain_text.txt": b.text(b.PLAIN[1:]),
            "sub/rejected_plain_text.txt": b.text(b.PLAIN[:2]),
            "lambada_test.jsonl": b.OPENAI,
        },
    )


def test_the_text_is_kept_and_the_last_word_is_the_answer(folder):
    items = read(folder, "dev")
    assert [item.text for item in items] == b.PLAIN
    assert [item.answer for item in items] == ["heron", "kite", "bread"]
    assert [item.item_id for item in items] == [f"lambada/dev/00000{i}" for i in range(3)]
    assert items[0].tokenised
    assert items[0].query == "only the eels could see the _____"
    assert items[0].context == ["the heron stood in the reeds .", "`` it waits for eels , '' said ada ."]


def test_splits_and_variants(folder):
    items = read(folder)
    counts = {"dev": 3, "test": 1, "control": 2, "rejected": 2, None: 3}
    assert {split: len(read(folder, split)) for split in counts} == counts
    assert read(folder / "sub/lambada_test_plain_text.txt")[0].item_id == "lambada/test/000000"
    assert items.attrs["source"] == DEV
    assert len(items.attrs["sha256"]) == 64
    cased = read(folder, variant="capitalised")
    assert items.frame["item_id"].equals(cased.frame["item_id"])
    assert set(cased.frame["variant"]) == {"capitalised"}
    running = read(folder, variant="openai")
    assert set(running.frame["split"]) == {"test"}
    assert not running[0].tokenised
    assert [item.answer for item in running] == ["heron", "Ada", "bread"]  # without the quotation mark
    assert running[1].text.endswith('"Ada')
    assert "\n\n" in running[0].text


@pytest.mark.parametrize(
    ("name", "variant"),
    [("mine.jsonl", "openai"), ("my_capitalised.txt", "capitalised"), ("mine.txt", "plain")],
)
def test_a_file_is_read_as_what_it_is(tmp_path, name, variant):
    content = {"openai": b.OPENAI, "capitalised": b.text(b.CASED), "plain": b.text(b.PLAIN)}[variant]
    items = read(b.write(tmp_path, {name: content}) / name)
    assert set(items.frame["variant"]) == {variant}


ENDS = (("", "\r\n"), ("", "\n\n \r\n"), ("\ufeff", ""))
WINDOWS = "a caf\xe9 , d\xe9j\xe0\n".encode("cp1252") + "a na\xefve , caf\xe9\n".encode()


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        *((mark + "\r\n".join(b.PLAIN) + end, b.PLAIN) for mark, end in ENDS),
        *((f"one {odd} page , two\n", [f"one {odd} page , two"]) for odd in "\x0c\x85\u2028\x1c"),
        (WINDOWS, ["a caf\xe9 , d\xe9j\xe0", "a na\xefve , caf\xe9"]),
    ],
)  # fmt: skip
def test_line_ends_byte_order_marks_and_encodings(tmp_path, content, texts):
    items = read(b.write(tmp_path, {"x.txt": content}) / "x.txt")
    assert [item.text for item in items] == texts


def test_short_lines_name_file_and_line(tmp_path):
    path = b.write(tmp_path, {"x.txt": b.text([b.PLAIN[0], "alone", "", b.PLAIN[1]])}) / "x.txt"
    refused(read, path)
    items = read(path, on_error="skip")
    assert [item.item_id[-1] for item in items] == ["0", "3"]
    assert [problem.line for problem in items.problems] == [2, 3]
    path = b.write(tmp_path, {"x.txt": "\n \n"}) / "x.txt"
    refused(read, path)


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"txt": "a b"}', '{"text": 3}', '{"text": "a \\ud800"}', '{"text": "one"}']
)
def test_bad_json_lines(tmp_path, line):
    path = b.write(tmp_path, {"x.jsonl": b.OPENAI + line + "\n" + b.OPENAI}) / "x.jsonl"
    refused(read, path)
    assert len(read(path, on_error="skip")) == 6


def test_parquet_of_the_hub(tmp_path):
    frame = pd.DataFrame({"text": b.PLAIN, "domain": ["Fantasy", "Romance", "Horror"]})
    folder = b.write(tmp_path, {"x": ""})
    frame.to_parquet(folder / "validation-00000-of-00001.parquet")
    items = read(folder)
    assert [item.text for item in items] == b.PLAIN
    assert items[1].meta == {"domain": "Romance"}
    broken = (folder / "validation-00000-of-00001.parquet").read_bytes()[:-20]
    refused(read, b.write(folder, {"cut.parquet": broken}) / "cut.parquet")


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("train",), {}),
        (("dve",), {}),
        (("validation",), {}),
        (("dev",), {"variant": "openai"}),
        (("dev",), {"variant": "upper"}),
        (("dev",), {"on_error": "ignore"}),
    ],
)
def test_what_there_is_not(folder, args, options):
    refused(read, folder, *args, **options)


@pytest.mark.data
def test_real_files(real_data):
    items, cased = load("lambada"), load("lambada", variant="capitalised")
    assert len(items) == len(cased) == 4869
    assert items.attrs["sha256"] == "f5b0f1e38fcdad6a1cd3a17bee4b6932a28cd9c5f463ada970c61de0f8679f2f"
    lines = (real_data / "lambada" / DEV).read_bytes().decode().split("\n")[:-1]
    assert items.frame["text"].tolist() == lines
    assert [text.lower() for text in cased.frame["text"]] == lines
    assert len(load("lambada", "control")) == 2500
    running = load("lambada", variant="openai")
    assert len(running) == 300
    assert sum(item.answer == "Nadia" and item.text.endswith('"Nadia') for item in running) == 1


LINES = "<s>\t5\nheron\t3\n"


def test_the_vocabulary_is_read(no_data, tmp_path):
    b.write(no_data / "raw", {"lambada-vocab-2.txt": LINES})
    b.write(tmp_path / "packed", {"lambada-dataset.tar.gz": b.tar({"lambada-vocab-2.txt": LINES})})
    expected = {"<s>": 5, "heron": 3}
    assert lambada.vocabulary() == lambada.vocabulary_at_hand() == expected
    assert lambada.vocabulary(no_data / "raw" / "lambada-vocab-2.txt") == expected
    assert lambada.vocabulary(tmp_path / "packed") == expected


def test_a_missing_vocabulary_is_reported_where_it_is_needed(no_data):
    b.write(no_data / "raw", {"other.txt": LINES})
    for path in (no_data, None):
        refused(lambada.vocabulary, path)
    assert lambada.vocabulary_at_hand() is None


@pytest.mark.parametrize("line", ["heron 3", "heron\t", "\t3", "heron\t-3", "heron\t3\t4", "", "heron\t3.0"])
def test_lines_that_are_none_of_a_vocabulary_are_told(tmp_path, line):
    file = tmp_path / "v.txt"
    file.write_text(f"<s>\t5\n{line}\nreed\t1\n")
    raised = refused(lambada.vocabulary, file)
    assert raised.line == 2


@pytest.mark.data
def test_the_vocabulary_of_the_release(real_data):
    words = lambada.vocabulary(next(real_data.rglob("lambada-vocab-2.txt")))
    assert len(words) == 112_746  # lines of the release
    assert list(words)[:2] == ["<s>", "</s>"]
    common = dict(sorted(words.items(), key=lambda pair: -pair[1])[:60_000])
    answers = [item.answer for item in wb.load("lambada", "dev")]
    assert sum(answer in common for answer in answers) / len(answers) == pytest.approx(0.939, abs=0.0005)


TRANSLATED = [
    "Der Reiher stand im Schilf. »Er wartet auf die Aale«, sagte Ada. Nur die Aale sahen den Reiher",
    "Sie hatte es getan, und ich rief ihren Namen. »Ada",
    "Sie hatte es getan, und ich rief ihren Namen: „Ada“",
]


def jsonl(texts):
    return b.text(json.dumps({"text": text}) for text in texts)


def test_a_variant_of_the_split_that_is_here_is_named(no_data):
    b.write(no_data / "raw", {"lambada_test.jsonl": jsonl(["a b c ."])})
    refused(load, "lambada", "test")


@pytest.mark.parametrize("language", ["de", "es", "fr", "it"])
def test_a_translation_is_not_the_english_text(tmp_path, language):
    folder = b.write(tmp_path / "data", {f"lambada_test_{language}.jsonl": jsonl(TRANSLATED)})
    refused(read, folder, "test", variant="openai")
    for items in (
        read(folder, "test", variant=f"openai-{language}"),  # as the advice says
        read(folder / f"lambada_test_{language}.jsonl"),
    ):
        assert [item.item_id for item in items] == [
            f"lambada/test/openai-{language}/00000{i}" for i in range(3)
        ]
        assert set(items.frame["variant"]) == {f"openai-{language}"}
        assert [item.answer for item in items] == ["Reiher", "Ada", "Ada"]
        assert [items[0].text[slice(*span)] for span in mentions(items[0])] == ["Reiher"]
    refused(read, folder / f"lambada_test_{language}.jsonl", variant="openai")
    refused(annotate, items)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("lambada_multilingual_stablelm/data/lambada_test_de.jsonl", "openai-mt-de"),
        ("lambada_multilingual_stablelm/nl/test-00000-of-00001.parquet", "openai-mt-nl"),
        ("lambada_openai/de/test-00000-of-00001.parquet", "openai-de"),
        ("lambada_openai/it/lambada_openai-test.parquet", "openai-it"),
        ("lambada_openai/en/test-00000-of-00001.parquet", "openai"),
        ("lambada_openai/default/test-00000-of-00001.parquet", "openai"),
        ("lambada_openai/data/lambada_test_en.jsonl", "openai"),
    ],
)
def test_the_files_of_the_hub_tell_their_language(tmp_path, name, variant):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pytest.importorskip("datasets").Dataset.from_dict({"text": TRANSLATED})
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_json(path)
    for items in (read(tmp_path, "test", variant=variant), read(path)):
        assert set(items.frame["variant"]) == {variant}
        assert items.frame["text"].tolist() == TRANSLATED


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.jsonl", "openai"), ("a.parquet", "plain"), ("a.txt", "plain"), ("a.txt", "capitalised")],
)
def test_the_form_of_a_file_is_checked_and_the_hint_works(tmp_path, name, form):
    texts = {"openai": b.RUNNING, "plain": b.PLAIN, "capitalised": b.CASED}[form]
    if name == "a.txt":
        path = b.write(tmp_path, {name: b.text(texts)}) / name
    else:
        path = b.write_table(tmp_path / name, pd.DataFrame({"text": texts}))
    for variant in {"openai", "plain", "capitalised"} - {form}:
        raised = refused(read, path, variant=variant)
        assert raised.hint == f'pass path="{path}", variant="{form}"'
    items = read(path, variant=form)
    assert items.frame["text"].tolist() == texts
    assert all(item.context for item in items)


def halves(texts, space=""):
    pairs = [text.rstrip().rsplit(" ", 1) for text in texts]
    return pd.DataFrame(
        [[context, space + word] for context, word in pairs], columns=["context", "continuation"]
    )


@pytest.mark.data
def test_real_passages_in_two_parts(real_data, tmp_path):
    expected = load("lambada", path=next(real_data.rglob("lambada_openai_first300.jsonl")))
    path = b.write_table(tmp_path / "lambada_openai.jsonl", halves(expected.frame["text"]))
    refused(read, path)
    own = load(path)
    names = ["text", "answer", "answer_span"]
    assert own.frame[names].equals(expected.frame[names])
