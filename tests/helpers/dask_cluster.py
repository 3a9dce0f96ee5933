"""A Dask cluster of two processes on this machine, whose workers are killed while they work.

Its client is used within ``client.as_current()`` alone, so that a module's other tests do without.

Its workers are forked from one process that has imported what they need, which takes seconds each time
otherwise: it has done no work, so that they share nothing with the tests.
"""

import os
import signal
from contextlib import contextmanager

from workbench.storage import parallel

_IMPORTED = ["pytest", "distributed", "workbench.construction.pipeline", "lingua", "spacy"]


@contextmanager
def cluster(**options):
    import dask  # noqa: PLC0415 - the workers import this file, too
    from distributed import Client, LocalCluster  # noqa: PLC0415 - as above
    from distributed.utils import get_mp_context  # noqa: PLC0415 - as above

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "env": dict(os.environ)} | options
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(_IMPORTED)
        with (
            LocalCluster(host="127.0.0.1", dashboard_address="127.0.0.1:0", **options) as made,
            Client(made, set_as_default=False) as client,
        ):
            yield client


def kill_workers(monkeypatch):
    """Kill a worker when a run has the first of its chunks; return all runs, and the chunks left then."""
    on_cluster, left = parallel._on_cluster, []

    def killing(task, missing, client):
        for place, result in enumerate(on_cluster(task, missing, client), start=1):
            if place == 1:
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
                left.append((task.args[0].__name__, len(missing) - 1))
            yield result

    monkeypatch.setattr(parallel, "_on_cluster", killing)
    return left
