"""The data of an experiment: items and texts that do not share a book."""

from pathlib import Path

import pytest
from refused import refused

import workbench as wb
from workbench.storage.errors import DataError


@pytest.mark.parametrize(("task", "variant"), [("lambada", "plain"), ("cbt", "cbt"), ("msrcc", "msrcc")])
def test_the_sample_takes_the_place_of_what_is_not_there(no_data, task, variant):  # noqa: ARG001 - hides data
    data = wb.experiment_data(task)
    assert data.dataset == "sample"
    trained = {book.book_id for book in data.texts}
    tested = set(data.load("dev").frame["book_id"])
    assert trained == {book.book_id for book in wb.books("sample", "train")}
    assert trained | tested == {book.book_id for book in wb.books("sample")}
    assert not trained & tested
    same = wb.load("sample", "test", variant=variant).frame["item_id"].tolist()
    assert data.load("dev").frame["item_id"].tolist() == same
    assert data.load("dev").frame["dataset"].unique().tolist() == ["sample"]


def test_variants_of_the_sample_have_the_same_items(no_data):  # noqa: ARG001 - hides data
    data = wb.experiment_data("lambada", "sample")
    plain, cased = data.load("dev"), data.load("dev", "capitalised")
    assert plain.frame["item_id"].tolist() == cased.frame["item_id"].tolist()
    assert set(plain.frame["variant"]) == {"plain"}


def test_texts_of_ones_own(tmp_path):
    assert wb.experiment_data("lambada", "sample", texts=str(tmp_path)).texts == tmp_path


def test_what_is_not_there_is_named(no_data):
    refused(wb.experiment_data, "cnnqa")
    refused(wb.experiment_data, "lambada", "cbt")
    with pytest.raises(DataError):
        _ = wb.experiment_data("lambada", "lambada").texts
    novels = no_data / "raw" / "novels-1.tar.xz"
    novels.parent.mkdir(parents=True)
    novels.touch()
    assert wb.experiment_data("lambada", "lambada").texts == Path(novels)


@pytest.mark.data
def test_real_data(real_data):  # noqa: ARG001 - skips
    assert wb.experiment_data("lambada").dataset == "lambada"
    assert next(iter(wb.experiment_data("cbt").texts)).book_id
    assert len(wb.experiment_data("msrcc").load()) > 100


@pytest.mark.data
def test_a_sample_of_real_data_is_enough_to_try_things(real_data):  # noqa: ARG001 - skips
    data = wb.experiment_data("lambada", scale="smoke")
    plain, cased = data.load("dev"), data.load("dev", "capitalised")
    assert (len(plain), len(data.texts)) == (400, 12)
    assert plain.frame["item_id"].tolist() == cased.frame["item_id"].tolist()
    refused(wb.experiment_data, "lambada", scale="large")
