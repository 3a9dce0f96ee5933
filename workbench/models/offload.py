"""Giving back the memory of a GPU that models hold; each takes it again when it is next used."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import device as Device  # noqa: N812 - a class
    from torch import nn

_DEEP = 4  # objects within objects
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def free(*models: object) -> str:
    """Move the weights of models off the GPU, and give their memory and torch's reserve back.

    Parameters
    ----------
    *models : object
        Models of the workbench, or torch modules. Without any, only what torch holds in reserve is given
        back.

    Returns
    -------
    str
        One line: what each model gave back, and what is free now.

    Notes
    -----
    The weights wait in the memory of the CPU. A model of the workbench moves them to its GPU again when it is
    next used; a module of torch stays on the CPU. What a notebook still refers to, such as the outputs of
    networks, is not freed.
    """
    told = [f"{_called(model)}: {_freed(model)}" for model in models]
    gc.collect()
    return "; ".join([*told, _left()])


def _freed(model: object) -> str:
    """Move what a model holds to the CPU, and say what was done."""
    if "torch" not in sys.modules:  # then it holds none of it
        return "no weights, nothing to free"
    homes = list(_homes(model))
    networks = {id(network): network for _, _, network in homes}
    if not networks:
        resting = any(isinstance(value, _Resting) for _, _, value in _inside(model))
        return "given back already" if resting else "no weights, nothing to free"
    devices = {str(tensor.device) for network in networks.values() for tensor in _tensors(network)}
    size = sum(tensor.nbytes for tensor in _unique(networks.values()) if tensor.device.type != "cpu")
    if not size:
        where = ", ".join(sorted(devices)) or "cpu"
        return f"{_bytes(_total(networks.values()))} on the {where}, nothing to free"
    _rest(homes)
    return f"{_bytes(size)} given back"


def _rest(homes: list[tuple[Any, str, nn.Module]]) -> None:
    """Move networks to the CPU; those of the workbench come back when they are used."""
    from workbench.models.neural.model import Neural  # noqa: PLC0415 - few need it

    waking: list[_Waking] = []
    for holder, name, network in homes:
        home = next((tensor.device for tensor in _tensors(network) if tensor.device.type != "cpu"), None)
        if isinstance(holder, Neural):
            continue  # its property `network` moves it
        if home is not None and type(holder).__module__.startswith("workbench."):
            waking.append(_Waking(holder, name, network, home))
    for _, _, network in homes:
        network.to("cpu")
    group = _Group(waking)
    for place in waking:
        object.__setattr__(place.holder, place.name, _Resting(group, place.network))


class _Waking:
    """A network that waits on the CPU: who holds it, under which name, and where it belongs."""

    def __init__(self, holder: Any, name: str, network: nn.Module, home: Device) -> None:
        self.holder, self.name, self.network, self.home = holder, name, network, home


class _Group:
    """Networks that come back together, as they may share weights."""

    def __init__(self, places: list[_Waking]) -> None:
        self._places, self._lock = places, RLock()

    def wake(self) -> None:
        """Move all to where they belong; whoever asks meanwhile waits."""
        with self._lock:
            places, self._places = self._places, []
            for place in places:
                place.network.to(place.home)
                object.__setattr__(place.holder, place.name, place.network)


class _Resting:
    """Stands for a network that waits on the CPU; any use of it wakes it."""

    def __init__(self, group: _Group, network: nn.Module) -> None:
        object.__setattr__(self, "_group", group)
        object.__setattr__(self, "_network", network)

    def __getattr__(self, name: str) -> Any:
        self._group.wake()
        return getattr(self._network, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._group.wake()
        setattr(self._network, name, value)

    def __call__(self, *args: Any, **options: Any) -> Any:
        self._group.wake()
        return self._network(*args, **options)


def _homes(model: object) -> Iterator[tuple[Any, str, nn.Module]]:
    """Yield the networks that a model holds, with the object that holds each and its name there."""
    from torch import nn  # noqa: PLC0415 - slow

    for holder, name, value in _inside(model):
        if isinstance(value, nn.Module):
            yield holder, name, value


def _inside(model: object) -> Iterator[tuple[Any, str, Any]]:
    """Yield all attributes of an object and of the workbench's objects in it; the object itself first."""
    from torch import nn  # noqa: PLC0415 - slow

    yield None, "", model
    waits, seen = [(model, 0)], {id(model)}
    while waits:
        holder, depth = waits.pop()
        if isinstance(holder, nn.Module | _Resting):
            continue
        for name, value in list(getattr(holder, "__dict__", {}).items()):
            yield holder, name, value
            some = value if isinstance(value, list | tuple) and len(value) < 100 else [value]  # noqa: PLR2004
            for part in some:
                if part is not value:
                    yield None, "", part
                ours = type(part).__module__.startswith("workbench.")
                if ours and depth < _DEEP and id(part) not in seen:
                    seen.add(id(part))
                    waits.append((part, depth + 1))


def _tensors(network: nn.Module) -> Iterator[Any]:
    yield from network.parameters()
    yield from network.buffers()


def _unique(networks: Iterable[nn.Module]) -> list[Any]:
    """Return the tensors of networks, each once, also where two networks share it."""
    return list({id(tensor): tensor for network in networks for tensor in _tensors(network)}.values())


def _total(networks: Iterable[nn.Module]) -> int:
    return sum(tensor.nbytes for tensor in _unique(networks))


def _left() -> str:
    """Return torch's reserve to the GPUs, and say what is free on each that was used."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return "no GPU here"
    if not torch.cuda.is_initialized():
        return "no GPU was used"
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    used = [k for k in range(torch.cuda.device_count()) if torch.cuda.memory_stats(k)] or [0]
    parts = []
    for k in used:
        available, whole = torch.cuda.mem_get_info(k)
        parts.append(f"{available / 1e9:.1f} of {whole / 1e9:.1f} GB free on cuda:{k}")
    return ", ".join(parts)


def _called(model: object) -> str:
    """Return what a model is called."""
    with suppress(Exception):
        name = vars(model).get("name")
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def _bytes(size: float) -> str:
    unit, letters = next(((unit, letters) for unit, letters in _SIZES if size >= unit), (1.0, "bytes"))
    return f"{size / unit:.3g} {letters}"
