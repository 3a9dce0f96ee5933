"""Sphinx's settings of the documentation site; `docs_site.py` stages the pages and calls Sphinx."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes

sys.path.insert(0, str(Path(__file__).parent))
import reference_pages

import workbench

project = "lambada-workbench"
author = "The workbench's authors"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx's name for it
release = version = workbench.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
]
root_doc = "index"
exclude_patterns = ["_static"]
templates_path: list[str] = []
pages = Path(__file__).parents[2] / "docs"
figure_pages = [path.relative_to(pages).with_suffix("").as_posix() for path in pages.glob("[gt]a*/*.md")]
wide_pages: list[str] = ["index", "results", *figure_pages]  # without a list of their headings beside them
html_theme = "pydata_sphinx_theme"
html_title = f"lambada-workbench {release}"
html_css_files = ["style.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_sidebars: dict[str, list[str]] = {name: [] for name in ("index", "getting_started", "results")}
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "lambada-workbench"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "secondary_sidebar_items": {"**": ["page-toc"]} | {page: [] for page in wide_pages},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
}

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are shown as they are; the pages that show results are run when staged

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings name the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()
default_role = "code"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def resolve_home(_app: Any, _env: Any, node: Any, content: nodes.Element) -> nodes.Node | None:
    """Lead a reference to where a public object is defined to its page; without a page it is code."""
    if node.get("refdomain") != "py":
        return None
    name = reference_pages.public_name(node["reftarget"])
    if name is None:
        return content.deepcopy()
    reference = nodes.reference("", "", internal=True, refuri="")
    document = f"api/{name}"
    reference["refuri"] = _app.builder.get_relative_uri(node["refdoc"], document)
    reference += nodes.literal(name, name)
    return reference


def setup(app: Any) -> None:
    """Add the script of the charts to pages that have one, and references by a home's name."""
    app.connect("missing-reference", resolve_home)
    app.connect("html-page-context", add_scripts)


def add_scripts(app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Load the script that draws charts where a page has charts."""
    if 'class="wb-chart"' in context.get("body", ""):
        app.add_js_file("charts.js", loading_method="defer")
