"""A workbench for word prediction that needs broad discourse context.

``import workbench as wb`` gives the names listed in ``__init__.pyi``; each is imported when it is first used,
so that importing the package stays quick. A new public name is added there.

The examples of all functions use these names:

>>> import workbench as wb
>>> from workbench.models import NGram, RandomWord
>>> items = wb.load("sample", "test").sample(30)
>>> annotations = wb.annotate(items)
>>> ngram = NGram.fit(wb.books("sample", "train"), order=3)
>>> runs = [wb.predict(items, model) for model in (RandomWord("passage"), ngram)]
"""

from __future__ import annotations

import sys
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"


def _training_html(training: Any) -> str:
    """Return a training as HTML, with its curves where Altair is installed."""
    try:
        from workbench.charts.models import training_html  # noqa: PLC0415 - slow
    except ImportError:
        return str(training.to_html())
    return training_html(training)


def _chart_bundle(chart: Any, **options: Any) -> Any:
    """Return an Altair chart as what a notebook shows with no network, unless a renderer was chosen."""
    import workbench.charts  # noqa: F401, PLC0415 - slow; it lets charts show offline

    return chart._repr_mimebundle_(**options)


def _register_views() -> None:
    """Tell IPython, where it runs, how it shows trainings and charts: models know nothing of charts."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        formatter = shell.display_formatter
        formatter.formatters["text/html"].for_type_by_name(
            "workbench.training.history", "Training", _training_html
        )
        formatter.mimebundle_formatter.for_type_by_name(
            "altair.vegalite.v6.api", "TopLevelMixin", _chart_bundle
        )


_register_views()
