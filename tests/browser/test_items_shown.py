"""Items and single items, as a notebook shows them."""

import pytest

pytestmark = pytest.mark.browser

VIEW = ".jp-OutputArea-output .wb-items"


def test_items_and_an_item(notebook, lab):
    hostile = "<b class=hostile>bold</b> He saw , at last , the ___ ."
    cells = (
        "import workbench as wb",
        f"items, own = wb.load('sample', variant='capitalised'), wb.items_from_text({hostile!r})",
        "items",
        "items[17]",
        "wb.Items.concat([own, items[:0]])",
        "own[0]",
    )
    notebook.open(lab.write("items.ipynb", *cells))
    notebook.run_all()
    page = notebook.page
    page.wait_for_function("(at) => document.querySelectorAll(at).length === 4", arg=VIEW)
    assert page.locator(".hostile").count() == 0
    table, item, _, own = (page.locator(VIEW).nth(place) for place in range(4))
    assert table.locator("tbody tr").count() == 5
    assert "5 of " in table.inner_text()
    assert "the ▁▁▁." in own.inner_text()
    target = item.locator("details")
    answer = notebook.evaluate("print(items[17].answer)").strip()
    assert answer not in target.inner_text()
    notebook.screenshot("items-light")
    notebook.theme("JupyterLab Dark")
    target.locator("summary").click()
    assert answer in target.inner_text()
    notebook.screenshot("items-dark")
    notebook.narrow(VIEW)
    assert page.evaluate("(at) => document.querySelector(at).scrollWidth <= 700", VIEW)
    notebook.screenshot("items-narrow")
