"""Stand-ins for the data sets in the forms of the releases, and the files that pages name: all of the sample."""

import lzma

import builders as b

import workbench as wb
from workbench.items import text as wt


def released(folder):
    """Write each data set; items come from the first ten stories, novels from the others."""
    return b.write(folder, lambada() | cbt() | cnn() | {f"msrcc/{name}": b.OFFICIAL[name] for name in b.OFFICIAL})


def lambada():
    files = {
        "lambada_development_plain_text.txt": passages("dev", "plain"),
        "lambada_development_capitalized_plain_text.txt": passages("dev", "capitalised"),
        "lambada_control_test_data_plain_text.txt": passages("control", "plain"),
        "lambada_test.jsonl": b.OPENAI,
    }
    novels = {
        f"train-novels/{book.book_id}.txt": " ".join(wt.tokenize(book.text)).lower() for book in stories()[10:]
    }
    return {f"lambada/{name}": text for name, text in (files | novels).items()}


def stories():
    return list(wb.books("sample"))


def of_the_first_ten(items):
    return items[items.frame["book_id"].isin([book.book_id for book in stories()[:10]])]


def passages(split, variant, number=40):
    items = of_the_first_ten(wb.load("sample", split, variant=variant))
    return b.text(item.text for item in items.sample(number))
