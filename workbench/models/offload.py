"""Give back the memory of a GPU that models hold; each model takes it again when it is next used."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

_DEPTH = 4  # objects within objects
_PARTS = 100  # of a list that are looked at
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def free(*models: object) -> str:
    """Move the weights of models off the GPU, and give their memory and torch's reserve back.

    Parameters
    ----------
    *models : object
        Models of the workbench, or torch modules. Without any, only torch's reserve is given back.

    Returns
    -------
    str
        One line: what each model gave back, and what is free now.

    Notes
    -----
    The weights wait in the memory of the CPU, and return to the GPU when the model is next used
    (``accelerate.cpu_offload_with_hook``). Memory that a notebook still refers to, such as the outputs of
    networks, is not freed.
    """
    reports = [f"{getattr(model, 'name', type(model).__name__)}: {_offload(model)}" for model in models]
    gc.collect()
    return "; ".join([*reports, _free_memory()])


def _offload(model: object) -> str:
    """Move the networks of a model to the CPU, and report it."""
    networks = list(_networks(model)) if "torch" in sys.modules else []  # without torch it holds none
    if not networks:
        return "no weights, nothing to free"
    tensors = {id(tensor): tensor for _, network in networks for tensor in _tensors(network)}.values()
    size = sum(tensor.nbytes for tensor in tensors if tensor.device.type != "cpu")
    if not size:
        return f"{_bytes(sum(tensor.nbytes for tensor in tensors))} on the cpu, nothing to free"
    from accelerate import cpu_offload_with_hook  # noqa: PLC0415 - slow
    from accelerate.hooks import remove_hook_from_module  # noqa: PLC0415 - slow

    for holder, network in networks:
        home = next((tensor.device for tensor in _tensors(network) if tensor.device.type != "cpu"), None)
        if home is None:
            continue
        if hasattr(type(holder), "network"):  # a property that moves it to the holder's device
            network.to("cpu")
        else:
            remove_hook_from_module(network)  # of the last time
            cpu_offload_with_hook(network, execution_device=home)
    return f"{_bytes(size)} given back"


def _networks(model: object) -> Iterator[tuple[object, nn.Module]]:
    """Yield the torch modules in an object, its lists and objects of the workbench, and their holders."""
    from torch import nn  # noqa: PLC0415 - slow

    seen: set[int] = set()
    waiting: list[tuple[object, Any, int]] = [(None, model, 0)]
    while waiting:
        holder, value, depth = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, nn.Module):
            yield holder, value
        elif isinstance(value, list | tuple):
            waiting += [(value, part, depth) for part in value[:_PARTS]]
        elif depth == 0 or (depth < _DEPTH and type(value).__module__.startswith("workbench.")):
            waiting += [(value, part, depth + 1) for part in getattr(value, "__dict__", {}).values()]


def _tensors(network: nn.Module) -> Iterator[Any]:
    yield from network.parameters()
    yield from network.buffers()


def _free_memory() -> str:
    """Return torch's reserve to the GPUs, and what is free on each that was used."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return "no GPU here"
    if not torch.cuda.is_initialized():
        return "no GPU was used"
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    parts = []
    for k in [k for k in range(torch.cuda.device_count()) if torch.cuda.memory_stats(k)] or [0]:
        available, total = torch.cuda.mem_get_info(k)
        parts.append(f"{available / 1e9:.1f} of {total / 1e9:.1f} GB free on cuda:{k}")
    return ", ".join(parts)


def _bytes(size: float) -> str:
    unit, letters = next(((unit, letters) for unit, letters in _UNITS if size >= unit), (1.0, "bytes"))
    return f"{size / unit:.3g} {letters}"
