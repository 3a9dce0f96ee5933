"""Types that tell the shapes of tensors: jaxtyping's, or stand-ins where it is not installed.

``Float[Tensor, "rows time width"]`` is a tensor of floating-point numbers with three axes. Tests check the
shapes (jaxtyping's import hook, with beartype); elsewhere they are for the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class Float:
            """Stand-in: ``Float[Tensor, "rows"]`` is ``Tensor``."""

            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                """Return the type of the array."""
                return item[0]

        Bool = Int = Float

__all__ = ["Bool", "Float", "Int"]
