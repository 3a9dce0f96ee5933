"""Every model declares its `version`, which is raised when its results change (tests/golden holds them)."""

import inspect

from workbench.models import registry
from workbench.models.base import Predictor
from workbench.predictions.model_versions import VERSIONS


def test_every_model_declares_its_version():
    def kinds(kind):
        return {kind}.union(*map(kinds, kind.__subclasses__()))

    ours = [kind for kind in kinds(Predictor) if kind.__module__.startswith("workbench.")]
    public = [kind for kind in ours if not inspect.isabstract(kind) and not kind.__name__.startswith("_")]
    assert {kind.__name__ for kind in public if "version" not in vars(kind)} <= {"Neural", "Reader"}


def test_the_list_of_versions_is_that_of_the_classes():
    """A stored run of a lower version is listed as outdated: what is listed has to follow the classes."""
    declared = {}
    for name in registry.BUILT_IN:
        kind = registry.model_class(name)
        declared[f"{kind.__module__}:{kind.__qualname__}"] = kind.version
    assert {name: version for name, version in declared.items() if version != 1} == VERSIONS
