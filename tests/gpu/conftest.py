"""Tests of a GPU: without one each file is imported, so that renames are noticed, and skipped as a whole."""

from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


class SkippedModule(pytest.Module):
    def collect(self):
        assert self.obj  # imports the file
        pytest.skip("needs a CUDA device", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return None if torch.cuda.is_available() else SkippedModule.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
