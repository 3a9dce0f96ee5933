import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.datasets import published
from workbench.storage.paths import resource

NUMBERS = st.decimals(0, 10_000, places=2).map(lambda number: f"{number:f}")


def test_the_numbers_of_the_paper_are_read():
    found = published.find_value("2b", "lambada", "proper nouns")
    assert found == (48, 48, 48, "48")
    assert published.find_value("2a", "lambada", "target (or its lemma) in context")[:3] == (80, None, 84)
    assert published.find_value("2a", "input", "target (or its lemma) in context")[:3] == (None, 15, None)
    assert published.find_value("3.1", "step 1", "items discarded")[:3] == (84, 86, None)


def test_every_cell_of_the_table_is_a_number():
    rows = published.published_table(published.ANALYSIS)
    assert list(rows.columns) == ["figure", "set", "quantity", "value", "unit", "note"]
    assert set(rows["unit"]) == {"percent", "count", "mean", "probability"}
    for row in rows.itertuples():
        assert published.find_value(row.figure, row.set, row.quantity).text == row.value
    assert not rows.duplicated(["figure", "set", "quantity"]).any()


def test_the_parts_of_the_data_set_add_up():
    dev, test, everything = (
        published.find_value("text", name, "passages") for name in ("dev", "test", "all")
    )
    assert dev.about + test.about == everything.about
    assert published.find_value("text", "dev", "novels").about == 1331


def test_a_number_that_is_not_in_the_paper():
    assert published.find_value("2b", "input", "verbs") is None


@pytest.mark.parametrize("text", ["", "about 5", "5 %", "> 5", "86-84", "-5", "5-", "1,000", "<5-6", "nan"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="is not a number"):
        published.parse_value(text)


@given(NUMBERS, NUMBERS)
def test_numbers_are_read_in_each_form(one, other):
    low, high = sorted([one, other], key=float)
    assert published.parse_value(one) == (float(one), float(one), float(one), one)
    assert published.parse_value(f">{one} (about {other})")[:3] == (float(one), None, float(other))
    assert published.parse_value(f" <{one}")[:4] == (None, float(one), None, f"<{one}")
    for dash in "-\u2013":
        assert published.parse_value(f"{low}{dash}{high}")[:3] == (float(low), float(high), None)


def test_later_results_name_the_paper_before_who_quotes_it():
    table = published.published_table("later_results")
    assert not table["source"].str.contains("GPT-[23] paper|cited by").any()
    quoted = table[table["source"].str.contains("quoted in")]
    names = r"[A-Z][a-z]+( et al\.| and [A-Z][a-z]+)? 20\d\d\b"
    assert quoted["source"].str.match(rf"{names}.*, as quoted in ").all()
    gpt_3 = table[table["system"].str.startswith("GPT-3")]["source"]
    assert gpt_3.str.startswith("Brown et al. 2020").all()
    assert len(gpt_3) == 3


def test_rows_of_the_harness_say_the_same_in_both_tables():
    later = published.published_table("later_results").set_index("system")
    harness = published.published_table("harness_2026")
    assert len(harness) == 42
    for row in harness.to_dict("records"):
        name = {"GPT-2 117M": "GPT-2 117M, every token greedy"}.get(row["model"], row["model"])
        listed = later.loc[name + (", five-shot" if row["shots"] == "5" else "")]
        assert float(listed["accuracy_percent"]) == float(row["accuracy"])
        assert float(listed["perplexity"] or "nan") == pytest.approx(
            float(row["perplexity"] or "nan"), nan_ok=True
        )
        assert (listed["dataset"], listed["split"], listed["variant"]) == ("lambada", "test", row["variant"])
    suite = later.loc[["Pythia 70M", "Pythia 2.8B", "Pythia 6.9B"]]
    assert suite["accuracy_percent"].tolist() == ["18.46", "64.72", "67.28"]
    assert suite["perplexity"].tolist() == ["142.43", "5.04", "4.45"]


@pytest.mark.parametrize("name", sorted(path.stem for path in resource("published").glob("*.csv")))
def test_every_perplexity_is_that_of_the_target(name):
    """Papers on diffusion models call the perplexity per token of whole passages LAMBADA's."""
    table = published.published_table(name)
    if "perplexity" not in table:
        return
    listed = table[table["perplexity"] != ""]
    assert set(listed.get("unit", ["word"])) == {"word"}
    words = listed.astype(str).agg(" ".join, axis=1).str.casefold()
    assert not words.str.contains("diffusion|per token|sedd|mdlm|plaid|whole passage").any()
    if "source" in listed:
        assert listed["source"].str.contains("lm-evaluation-harness|EleutherAI/pythia evals").all()
