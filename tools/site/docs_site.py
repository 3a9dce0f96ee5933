"""Build the documentation site: stage the pages, run those that show what they do, and call Sphinx.

Nothing is written into the source: pages are staged in ``build/docs-source`` and the site is written to
``build/docs``. What pages compute is kept in ``build/docs-home``, so a second build takes a few seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import citation_page
import example_files
import executed_pages
import reference_pages
import results_pages

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
EXECUTED = ("gallery/", "tasks/")  # pages whose blocks are run, on the sample alone
ROOT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
CARDS = {"data/en_narrative/README.md": "data/en_narrative.md", "data/sample/README.md": "data/sample.md"}
_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)((?:#[^)\s]*)?\))")


def staged_path(path: str) -> str | None:
    """Return where a file of the project lies among the staged pages; None if it is not part of the site.

    Examples
    --------
    >>> staged_path("docs/data.md"), staged_path("ARCHITECTURE.md"), staged_path("workbench/cli.py")
    ('data.md', 'ARCHITECTURE.md', None)
    """
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in ROOT_PAGES or (path.startswith("notebooks/") and path.endswith(".ipynb")):
        return path
    return CARDS.get(path)


def with_staged_links(text: str, path: str) -> str:
    """Return a page's text with links that lead to the staged pages.

    Parameters
    ----------
    text : str
        Markdown, or a notebook as JSON.
    path : str
        The page's path in the project.
    """
    here = os.path.dirname(staged_path(path) or "")  # noqa: PTH120 - of a relative path in a text

    def replaced(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(path), match[2]))  # noqa: PTH118, PTH120
        staged = staged_path(target)
        if staged is None or not (ROOT / target).is_file():
            return match[0]
        return f"{match[1]}{os.path.relpath(staged, here or '.')}{match[3]}"

    return _LINK.sub(replaced, text)


def project_files() -> list[str]:
    """Return the paths of all pages and pictures that the site shows."""
    files = [path for path in (ROOT / "docs").rglob("*") if path.is_file()]
    files += (ROOT / "notebooks").glob("[0-9]*.ipynb")
    return sorted([*(path.relative_to(ROOT).as_posix() for path in files), *ROOT_PAGES, *CARDS])


def stage(source: Path, work: Path) -> None:
    """Write all pages into a folder; files that did not change stay, so that Sphinx reads only the others.

    Parameters
    ----------
    source : Path
        The folder.
    work : Path
        Where the executed pages run; it has the files that they read, and gets those that they write.
    """
    pages: dict[str, bytes] = {}
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    example_files.write_harness_log(work)
    for path in project_files():
        content = (ROOT / path).read_bytes()
        staged = staged_path(path)
        if staged is None:
            continue
        if path.endswith((".md", ".ipynb")):
            text = with_staged_links(content.decode(), path)
            if staged.startswith(EXECUTED):
                text = _executed(text, path, work)
            content = text.encode()
        pages[staged] = content
    pages |= {name: text.encode() for name, text in reference_pages.pages().items()}
    pages |= {name: text.encode() for name, text in results_pages.pages(ROOT).items()}
    pages["cite.md"] = citation_page.page(ROOT / "CITATION.cff").encode()
    from workbench.charts import saving  # noqa: PLC0415 - slow

    # the script's names are short, and those of the theme's scripts too
    pages["_static/charts.js"] = f"(() => {{\n{saving.chart_script()}\n}})();\n".encode()
    for name in ("style.css", "site.js"):
        pages[f"_static/{name}"] = (Path(__file__).parent / name).read_bytes()
    _write(source, pages)


def _executed(text: str, path: str, work: Path) -> str:
    """Return a page with what its blocks show; kept until the page or the code changes."""
    stored = (
        work.parent / "executed" / f"{hashlib.sha256(f'{_code_digest()} {text}'.encode()).hexdigest()}.md"
    )
    if not stored.exists():
        with contextlib.chdir(work):
            shown = executed_pages.run_page(text, ROOT / path)
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(shown, encoding="utf-8")
    return stored.read_text(encoding="utf-8")


@cache
def _code_digest() -> str:
    """Return a hash of the package, of the data that ship with it, and of what runs the pages."""
    folders = ("workbench", "data/sample", "data/published", "data/en_narrative")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for path in [*sorted(files), Path(executed_pages.__file__), Path(example_files.__file__)]:
        if "__pycache__" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)


def build(folder: Path, *, builder: str = "html", fresh: bool = False) -> int:
    """Build the site into a folder with Sphinx; return Sphinx's exit status.

    Parameters
    ----------
    folder : Path
        Where to; staged pages and what they computed lie beside it.
    builder : str, default "html"
        Sphinx's builder; "linkcheck" asks for each external link.
    fresh : bool, default False
        Compute and build everything anew.
    """
    from sphinx.cmd.build import build_main  # noqa: PLC0415 - slow, and not part of the usual set-up

    source, home, doctrees = (
        folder.with_name(f"{folder.name}-{name}") for name in ("source", "home", "trees")
    )
    if fresh:
        for each in (folder, source, home, doctrees):
            shutil.rmtree(each, ignore_errors=True)
    os.environ["WORKBENCH_HOME"] = str(home)
    started = time.perf_counter()
    stage(source, home / "work")
    print(f"pages are staged, {time.perf_counter() - started:.0f} s", flush=True)
    target = folder if builder == "html" else folder.with_name(f"{folder.name}-{builder}")
    configuration = ["-c", str(Path(__file__).parent), "-d", str(doctrees), "-b", builder]
    configuration += ["-D", f"html_static_path={source / '_static'}"]
    strict = ["-W", "--keep-going", "-n", "-q"]
    return build_main([*configuration, *strict, str(source), str(target)])


def main(argv: Sequence[str] | None = None) -> int:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="compute and build everything anew")
    parser.add_argument("--linkcheck", action="store_true", help="ask for every external link instead")
    parser.add_argument("--out", type=Path, default=BUILD / "docs", help="the folder of the site")
    options = parser.parse_args(argv)
    gc.set_threshold(50_000, 20, 100)  # Sphinx holds all pages: collecting takes a fifth of its time
    folder = options.out.resolve()
    started = time.perf_counter()
    status = build(folder, builder="linkcheck" if options.linkcheck else "html", fresh=options.fresh)
    print(f"{folder / 'index.html'}, {time.perf_counter() - started:.0f} s", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
