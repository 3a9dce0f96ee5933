"""The documentation site: its pages run, nothing is loaded from elsewhere, and all links lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import built_site
import docs_site
import executed_pages
import pytest
import reference_pages
import results_pages
from built_site import ROOT, Page, addresses
from test_docstrings import PUBLIC

import workbench as wb

PAGE = Path("page.md")


@pytest.fixture(scope="module")
def site():
    return built_site.build()


@pytest.fixture(scope="module")
def pages(site):
    folder, _ = site
    return {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")}


def test_it_is_built_without_a_warning(site):
    folder, said = site
    assert "WARNING" not in said
    assert "ERROR" not in said
    assert folder.joinpath("index.html").exists()


def test_every_page_of_the_project_is_in_it(pages):
    staged = map(docs_site.staged_path, docs_site.project_files())
    expected = {str(Path(path).with_suffix(".html")) for path in staged if path.endswith((".md", ".ipynb"))}
    assert expected - pages.keys() == set()
    assert {f"api/{name}.html" for name in reference_pages.public()} - pages.keys() == set()
    assert {f"{name}.html" for name in built_site.PAGES_TO_CHECK} - pages.keys() == set()


def test_nothing_is_loaded_from_another_host(site, pages):
    folder, _ = site
    loaded = {address for page in pages.values() for address in page.loaded}
    loaded |= {each for path in folder.rglob("*.css") for each in addresses(path.read_text(encoding="utf-8"))}
    assert [
        each for each in loaded if each.partition(":")[0] in {"http", "https"} or each.startswith("//")
    ] == []
    assert len(loaded) > 20


def broken(pages, folder):
    """Yield each link to a file or heading of the site that does not exist."""
    for name, page in pages.items():
        for link in page.links:
            path, _, heading = unquote(link).partition("#")
            if ":" in path.partition("/")[0] or (link.startswith(("#", "javascript")) and not heading):
                continue
            target = (folder / name).parent / path if path else folder / name
            if not target.is_file():
                yield name, link
            elif heading and target.suffix == ".html":
                other = pages[target.resolve().relative_to(folder.resolve()).as_posix()]
                yield from [] if heading in other.names else [(name, link)]


def test_links_lead_to_pages_and_headings_that_exist(site, pages):
    folder, _ = site
    assert list(broken(pages, folder)) == []


# -- pages that run


def test_a_block_is_followed_by_what_it_shows():
    page = "# A\n\n```python\nx = 6\nprint('hello')\nx * 7\n```\n\nB\n\n```python\nx = x + 1\n```\n"
    shown = executed_pages.run_page(page, PAGE)
    assert shown == page.replace(
        "x * 7\n```\n", "x * 7\n```\n\n```text\nhello\n```\n\n```text\n42\n```\n\n"
    ).replace("x + 1\n```\n", "x + 1\n```\n\n")


WRONG = {
    "x = 1\n1 / 0": ("ZeroDivisionError", 5),
    "import warnings\nwarnings.warn('the page warns')": ("the page warns", 5),
}


@pytest.mark.parametrize("code", WRONG)
def test_a_block_that_fails_names_the_line_of_the_page(code):
    problem, line = WRONG[code]
    with pytest.raises(executed_pages.PageError) as caught:
        executed_pages.run_page(f"# A\n\n```python\n{code}\n```\n", PAGE)
    assert problem in str(caught.value)
    assert f'page.md", line {line}' in str(caught.value)


def test_charts_widgets_and_tables_are_shown_without_a_document_of_their_own():
    items = wb.load("sample", "test").sample(2, seed=0)
    browser = wb.browse(items)
    view = executed_pages.markup(browser)
    browser.close()
    assert f"<b>{items[0].answer}</b>" in view
    assert "<!DOCTYPE" not in view
    assert "Content-Security-Policy" not in view
    assert "<table" in executed_pages.markup(wb.available())


PARTS = {
    '<!DOCTYPE html>\n<meta charset="utf-8">\n<p>a</p>': "<p>a</p>",
    '<html lang="en"><head><title>T</title><style>:root{--a:1}body{margin:0}tbody{x:1}</style></head>'
    "<body>b</body></html>":
        '<style>:host{--a:1}.body{margin:0}tbody{x:1}</style><div class="body">b</div>',
}  # fmt: skip


@pytest.mark.parametrize("page", PARTS)
def test_a_page_becomes_a_part_of_another(page):
    assert executed_pages._body(page) == PARTS[page]


# -- links and addresses of pages


def test_links_lead_to_the_staged_pages():
    page = "[a](docs/data.md#items) [b](ARCHITECTURE.md) [c](https://x.org/docs/data.md) [d](#e) [f](x.py)"
    assert docs_site.with_staged_links(page, "CONTRIBUTING.md") == page.replace("docs/data.md#", "data.md#")
    page = "[a](../../data/sample/README.md) ![b](../goldilocks.png) [c](../data.md)"
    staged = docs_site.with_staged_links(page, "docs/experiments/x.md")
    assert staged == "[a](../data/sample.md) ![b](../goldilocks.png) [c](../data.md)"


# -- the papers' tables


def test_numbers_are_those_of_the_dated_page():
    page = ROOT / "docs/experiments/2026-11-21-counting-lambada.md"
    assert results_pages.find_cells(page, "5-gram, Kneser-Ney", ["accuracy %", "median rank"]) == [
        "0.0, 9.3",
        "5,088, 73",
    ]
    for row, column in (("no such row", "accuracy %"), ("5-gram, Kneser-Ney", "no such column")):
        with pytest.raises(results_pages.ResultError, match="no such"):
            results_pages.find_cells(page, row, [column])


def test_ours_stand_below_the_papers():
    text = results_pages.pages(ROOT)["results.md"]
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]
    [row] = [k for k, cells in enumerate(lines) if cells[:3] == ["MEMNNS (WINDOW MEMORY)", "paper", "54.2"]]
    assert lines[row][3:6] == ["59.1", "69.3", "70.4"]
    assert lines[row + 1][2:6] == ["23.4", "36.3", "60.4", "56.0"]
    assert lines[row + 1][1].startswith("[window memory](experiments/")
    [row] = [k for k, cells in enumerate(lines) if cells[0] == "Average LSA similarity"]
    assert (lines[row][1:3], lines[row + 1][2]) == (["paper", "49"], "49.0")
    [row] = [k for k, cells in enumerate(lines) if cells[0] == "RNN"]
    assert [cells[1] for cells in lines[row : row + 2]] == ["paper, lambada", "paper, control"]
    assert lines[row + 2][2].startswith("development %, known: ")
    computed = text.partition("## A pretrained model")[2]  # from the predictions that come with it
    assert "SmolLM2-135M-Instruct" in computed
    assert re.search(r">66(<[^>]*>)?\.9<", computed)


# -- the reference


def test_all_documented_names_have_a_page():
    documented = {id(value): name for name, value in PUBLIC.items()}
    named = {id(value) for value in reference_pages.public().values()}
    assert sorted(name for key, name in documented.items() if key not in named) == []


def test_a_reference_by_the_home_of_a_name_leads_to_its_page():
    assert reference_pages.public_name("workbench.evaluation.metrics.evaluate") == "workbench.evaluate"
    assert reference_pages.public_name("workbench.load") == "workbench.load"
    assert reference_pages.public_name("workbench.nothing") is None
