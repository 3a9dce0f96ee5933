"""A file that bears the name of a published one is compared with it; files of odd line ends are read."""

import hashlib

import builders as b
import pytest

from workbench.datasets import lambada, load, sources
from workbench.items.items import Items

DEV = "lambada_development_plain_text.txt"
CONTENT = b.text(b.PLAIN).encode()


@pytest.fixture
def published(monkeypatch, tmp_path):
    """A registry in which the toy is the published development set, and a file in a published archive."""
    sums = {name: hashlib.sha256(CONTENT).hexdigest() for name in (f"deep/{DEV}", "lambada-vocab-2.txt")}
    table = {"name": "x.tar.gz", "members": sums}
    lambada_table = sources.registry()["lambada"] | {"files": [{"name": "no sum"}, table]}
    monkeypatch.setattr(sources, "registry", lambda: {"lambada": lambada_table})
    return tmp_path


@pytest.mark.parametrize("name", [DEV, DEV.upper()])
def test_the_published_file_has_no_note(published, capsys, name):
    assert "note" not in load("lambada", path=b.write(published, {name: CONTENT}) / name).attrs
    packed = b.write(published / "packed", {"lambada-dataset.tar.gz": b.tar({DEV: CONTENT})})
    assert "note" not in load("lambada", path=packed).attrs
    assert capsys.readouterr().err == ""


def test_a_difference_is_printed_once_with_the_path(published, capsys):
    path = b.write(published, {DEV: CONTENT[:-20]}) / DEV
    note = load("lambada", path=path).attrs["note"]
    assert note == load("lambada", path=path).attrs["note"]
    assert capsys.readouterr() == ("", f"{path.parent}/{note}\n")
    packed = b.write(published / "packed", {"lambada-dataset.tar.gz": b.tar({f"x/{DEV}": CONTENT[:-20]})})
    assert load("lambada", path=packed).attrs["note"] == note
    assert capsys.readouterr().err.endswith(f"/lambada-dataset.tar.gz/x/{note}\n")


def test_a_file_of_another_name_is_compared_with_nothing(published, capsys):
    items = load("lambada", path=b.write(published, {"mine.txt": CONTENT[:-20] + b"\n"}) / "mine.txt")
    assert "note" not in items.attrs
    items = load("lambada", path=b.write(published, {"mine.txt": CONTENT[:-20]}) / "mine.txt")
    assert items.attrs["note"] == "mine.txt has no end of its last line, so it may be cut short"
    assert items.attrs["note"] in capsys.readouterr().err


def test_a_changed_vocabulary_is_printed(published, capsys):
    path = b.write(published, {"lambada-vocab-2.txt": "a\t3\nb\t2\n"}) / "lambada-vocab-2.txt"
    assert lambada.vocabulary(path) == {"a": 3, "b": 2}
    assert "lambada-vocab-2.txt differs from the published file" in capsys.readouterr().err


OTHER_BREAKS = "one\x0ctwo\u2028three\x85four\x0bfive was here"
FORMS = {
    "lambada": ("lambada", {"mine.txt": b.text([*b.PLAIN, OTHER_BREAKS])}),
    "cbt": ("cbt", {"cbtest_NE_mine.txt": b.cbt()}),
    "msrcc": ("msrcc", b.OFFICIAL),
    "msrcc csv": ("msrcc", b.CSV),
}


@pytest.mark.parametrize(("form", "end"), [*((form, "\r") for form in FORMS), ("cbt", "\r\n")])
def test_other_line_ends_give_the_same_items(tmp_path, form, end):
    dataset, files = FORMS[form]
    options = {"split": "dev"} if dataset in {"lambada", "cbt"} else {}
    read = {}
    for name, kind in (("usual", "\n"), ("other", end)):
        folder = b.write(
            tmp_path / name, {n: t.replace("\r\n", "\n").replace("\n", kind) for n, t in files.items()}
        )
        read[name] = load(dataset, path=folder / next(iter(files)), **options)
    assert read["other"].frame.equals(read["usual"].frame)
    assert "note" not in read["other"].attrs | read["usual"].attrs


@pytest.mark.data
@pytest.mark.parametrize("name", ["lambada_development_plain_text.txt", "cbtest_NE_valid_2000ex.txt"])
def test_the_real_files_are_the_published_ones_whole_and_not_cut(real_data, tmp_path, name):
    dataset = "lambada" if "lambada" in name else "cbt"
    whole = load(dataset, path=real_data / dataset / name)
    assert "note" not in whole.attrs
    data = (real_data / dataset / name).read_bytes()
    for content in (data[: 10**6], data.replace(b"\n", b"\r")):
        items = load(dataset, path=b.write(tmp_path, {name: content}) / name, on_error="skip")
        assert isinstance(items, Items)
        assert f"{name} differs from the published file" in items.attrs["note"]
    assert items.frame.equals(whole.frame)
