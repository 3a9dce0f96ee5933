"""The progress bar that all long work shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


_FORMAT = (  # sorting: 12 %|█  | 3.10k/25.0k n-grams [00:02<00:13, 1.50k n-grams/s]
    "{desc}: {percentage:.0f} %|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)


def progress_bar(
    total: float | None = None, *, label: str, unit: str = "it", shown: bool = True, **options: Any
) -> tqdm[Any]:
    """Return a progress bar that is removed when it is done: a widget in a notebook, text on a terminal.

    Parameters
    ----------
    total : number or None
        How many units there are, where that is known.
    label : str
        Text before the bar.
    unit : str
        What is counted, such as ``"words"`` or ``"B"``; large numbers are shown as 1.2k, 3.4M.
    shown : bool
        Whether to show it at all.
    **options
        Passed to ``tqdm``, such as ``initial`` for work that goes on where it was.

    Examples
    --------
    >>> with progress_bar(3, label="reading", unit="files", shown=False) as bar:
    ...     for _ in range(3):
    ...         _ = bar.update()
    """
    from tqdm.auto import tqdm  # noqa: PLC0415 - loads ipywidgets in a notebook

    space = "" if unit in {"", "B"} else " "
    settings = {"leave": False, "unit_scale": True, "dynamic_ncols": True} | options
    if total:
        settings.setdefault("bar_format", _FORMAT)
    return tqdm(total=total, desc=label, unit=space + unit, disable=not shown, **settings)
