"""Everything that the workbench reads.

A target's `read` gets a folder whose files were damaged. An error that is no DataError, a value that `judge`
refuses, a hang or too much memory is a failure.
"""

from campaigns import CAMPAIGNS
from pumped import ENDS, PIECES, Pumped
from released import RELEASED
from saved import SAVED
from target import Target

LENGTH = 2**17  # of a pumped text


def pumped(name):
    """Return a target of a function that meets foreign text: texts that repeat a piece are read in time."""

    def read(folder):
        getattr(Pumped(folder), name)((folder / "text").read_bytes().decode())

    def damage(folder, rng):
        piece = "".join(rng.choices(PIECES, k=rng.choice([1, 1, 2, 3])))
        start, end = rng.choice(["", *PIECES]), rng.choice([*ENDS, *PIECES])
        (folder / "text").write_bytes(f"{start}{piece * (LENGTH // len(piece))}{end}".encode())

    def build(folder):
        (folder / "text").write_text("some text")

    return Target(f"pumped {name}", "pumped", build, read, lambda *_: "same", damage)


TARGETS = [*RELEASED, *SAVED, *CAMPAIGNS, *map(pumped, Pumped.functions())]
