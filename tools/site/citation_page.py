"""The page that says how to cite, from ``CITATION.cff``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PAGE = """\
# How to cite

If the workbench helps your work, please cite it, and the data sets that you use.

> {software}

```bibtex
{bibtex}
```

## The papers of the data sets and methods

{references}

Cite a result with its signature, `run.signature`, which says what was measured and how. The repository's
file `CITATION.cff` has the references in a form that reference managers read.
"""


def page(path: Path) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    path : Path
        A file in the Citation File Format.
    """
    import yaml  # noqa: PLC0415 - comes with Sphinx's extensions

    cited: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    references = cited.get("references", [])
    year = str(cited.get("date-released", ""))[:4]
    fields = {
        "title": f"{{{cited['title']}}}",
        "author": " and ".join(f"{{{_name(author)}}}" for author in cited["authors"]),
        "version": str(cited.get("version", "")),
        "year": year,
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    bibtex = "\n".join(["@software{lambada-workbench,", *lines, "}"])
    return _PAGE.format(
        software=_formatted(cited),
        bibtex=bibtex,
        references="\n".join(f"- {_formatted(reference)}" for reference in references),
    )


def _name(author: dict[str, Any]) -> str:
    """Return the name of a person, or of a group."""
    family = " ".join(filter(None, [author.get("name-particle"), author.get("family-names")]))
    return str(author.get("name") or ", ".join(filter(None, [family, author.get("given-names")])))


def _formatted(work: dict[str, Any]) -> str:
    """Return authors, year, title, where it appeared, and its address."""
    names = [_name(author) for author in work["authors"]]
    authors = "; ".join(names) if len(names) < 4 else f"{names[0]} et al."  # noqa: PLR2004 - as papers do
    year = work.get("year") or str(work.get("date-released", ""))[:4]
    version = f"version {work['version']}" if "version" in work else ""
    venue = work.get("collection-title") or work.get("journal") or (work.get("conference") or {}).get("name")
    address = work.get("url") or (f"https://doi.org/{work['doi']}" if "doi" in work else "")
    link = f"[{work['title']}]({address})" if address else str(work["title"])
    dated = f"{authors} ({year})" if year else authors
    return ". ".join(filter(None, [dated, link, str(venue or ""), version])) + "."
