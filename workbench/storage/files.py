"""Reading of files, and atomic writes of files and folders."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.storage.errors import DataError, reading, writing

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_SCRATCH = ".partial-"


def read_bytes(path: Path | str, what: str = "this file") -> bytes:
    """Return the content of a file; `what` says what it is, such as "this vocabulary".

    DataError if it cannot be read, or is a folder.
    """
    with reading(path, what):
        return Path(path).read_bytes()


def read_json(path: Path | str, what: str = "this file") -> Any:
    """Return the content of a JSON file; DataError as of `read_bytes`, and if it is not JSON in UTF-8."""
    data = read_bytes(path, what)
    with reading(path, what):
        return json.loads(data.decode("utf-8-sig"))


def read_parquet(
    file: Path | str,
    *,
    data: bytes | None = None,
    what: str = "this Parquet file",
    hint: str | None = None,
) -> pa.Table:
    """Return the table in a Parquet file, with dictionary columns as plain text.

    `data` is the content of the file, where it is in memory already. `what` and `hint` are for the
    DataError if it cannot be read. The checksums of pages are compared where the file has them.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow

    with reading(file, what, hint=hint):
        source = file if data is None else pa.BufferReader(data)
        with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            table = parquet.read()
        table.validate(full=True)
        types = [field.type for field in table.schema]
        plain = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
        fields = [field.with_type(each) for field, each in zip(table.schema, plain, strict=True)]
        return table.cast(pa.schema(fields, table.schema.metadata))


def json_value(value: Any, description: str) -> Any:
    """Return a value as JSON represents it: tuples as lists, keys as text; errors have the `description`."""
    try:
        return json.loads(json.dumps(value, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        hint = "use text, numbers, None, and lists and dicts of these"
        raise DataError(f"{description} cannot be written as JSON: {error}", hint=hint) from None


def write_arrays(folder: Path, main: str, arrays: Mapping[str, np.ndarray], **content: Any) -> None:
    """Write arrays as ``.npy``, and their names and other content as JSON into the `main` file."""
    import numpy as np  # noqa: PLC0415 - slow

    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            np.save(file, array)
    text = json.dumps({**content, "arrays": sorted(arrays), "bytes": file_sizes(folder)})
    (folder / main).write_text(text, encoding="utf-8")


def read_arrays(
    folder: Path, main: str, *, what: str, hint: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the content of the `main` file and the memory-mapped arrays that `write_arrays` wrote."""
    import numpy as np  # noqa: PLC0415 - slow

    content = read_json(folder / main, what)
    with reading(folder, what, hint=hint):
        check_sizes(folder, content["bytes"])
        names = map(str, content["arrays"])
        return content, {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the files in a folder by name, in bytes."""
    return {path.name: path.stat().st_size for path in list_folder(folder)}


def check_sizes(folder: Path, sizes: Mapping[str, int]) -> None:
    """Raise ValueError if a file in a folder has not the size that it had, and OSError if it is missing."""
    for name, size in sizes.items():
        if (folder / name).stat().st_size != size:
            raise ValueError(f"{name} is incomplete")


def list_folder(folder: Path) -> list[Path]:
    """Return the visible content of a folder, sorted; nothing if it is missing.

    DataError if it may not be listed, or is not a folder.
    """
    with reading(folder, "this folder"), contextlib.suppress(FileNotFoundError):
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return []


@contextmanager
def temporary_folder(home: Path | str) -> Iterator[Path]:
    """Yield a new hidden folder in `home` and remove it afterwards; `home` is made if missing.

    A killed process leaves its folder, whose name begins with ``.partial-``. DataError if no folder can be
    made there.
    """
    home = Path(home)
    with writing(home, "this folder"):
        check_target(home, stat.S_ISDIR, "a folder")
        home.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=home))
    try:
        with _full_disk(home):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    """Convert OSErrors of writing into DataError; errors of networks and of missing files are unchanged."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError:  # a missing file, a lost connection and others have their own class
            raise
        with writing(path):
            raise


def check_target(path: Path, is_kind: Callable[[int], bool], expected: str) -> None:
    """Raise an OSError if what is at a path is not of the expected type."""
    with contextlib.suppress(FileNotFoundError):
        if not is_kind(path.stat().st_mode):
            raise OSError(0, f"what is there is not {expected}", str(path))


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path of the same name; the file replaces `path` only if the block succeeds.

    The file is flushed to the disk before it is renamed, so a reader sees the old content or the new one,
    never a part. It has the mode of the file that it replaces. The folder is made where it is missing.
    DataError if the file cannot be written.
    """
    target = Path(path)
    with writing(target):
        check_target(target, stat.S_ISREG, "a file")
    with temporary_folder(target.parent) as space, _full_disk(target):
        temporary = space / target.name
        yield temporary
        with writing(target):
            _flush(temporary)
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write a file by `atomic_path`; text in UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_folder(path: Path | str, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it replaces `path` only if the block succeeds.

    An existing folder is replaced if `replace`. Else the first one stays and the new one is dropped: right
    where the name is a key of the content, so that both hold the same. Every file is flushed to the disk
    before the folder is renamed. DataError if it cannot be written.
    """
    target = Path(path)
    with writing(target, "this folder"):
        check_target(target, stat.S_ISDIR, "a folder")
    with temporary_folder(target.parent) as space, _full_disk(target):
        new, old = space / "new", space / "old"
        new.mkdir()
        yield new
        with writing(target, "this folder"):
            for file in new.rglob("*"):
                if file.is_file():
                    _flush(file)
            if replace and target.exists():
                target.rename(old)
            try:
                new.rename(target)
            except OSError:
                if not target.is_dir():
                    if old.exists():
                        old.rename(target)
                    raise


def _flush(file: Path) -> None:
    with file.open("rb") as written:
        os.fsync(written.fileno())


def remove(path: Path) -> None:
    """Remove a file, a link or a folder; what a link leads to stays. May raise OSError.

    A folder is renamed first, so a process that is killed leaves no half of it under its name.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=path.parent, ignore_cleanup_errors=True) as aside:
        path.rename(Path(aside, "old"))
