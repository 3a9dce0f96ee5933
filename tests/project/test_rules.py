"""Rules that the whole project keeps, told from its files."""

import ast
import graphlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "workbench"
MODULES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}

# From first to last; a module imports from packages that stand before its own, or from its own.
LAYERS = (
    "storage", "items", "datasets", "render", "predictions", "texts", "analysis", "training", "models",
    "construction", "evaluation", "people", "probing", "charts", "widgets", "reproduce", "lab",
    "environment_report", "cli", "workbench",
)  # fmt: skip
PLACE = {name: place for place, name in enumerate(LAYERS)}
APART = {("models", "analysis"), ("training", "analysis")}  # these do not know each other either
BARE = ("models", "training")
HEAVY = {
    "spacy", "altair", "jupyter", "jupyterlab", "ipywidgets", "anywidget", "IPython", "nbclient", "nbconvert",
}  # fmt: skip
LAZY = {
    "torch", "spacy", "altair", "ipywidgets", "anywidget", "pandas", "numpy", "pyarrow", "requests", "kenlm",
    "scipy", "sklearn", "gensim", "duckdb", "statsmodels", "distributed", "vl_convert",
}  # fmt: skip


def part(path):
    """Return the part of the package that a file belongs to: its folder, or its name."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "workbench" if first == "__init__" else first


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def running(tree):
    """Yield all nodes but those that only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            yield node
            yield from running(node)


def imported(tree, path):
    """Yield every module that a file imports, names of modules under ``from`` included."""
    here = ("workbench", *path.relative_to(PACKAGE).parts[:-1])
    for node in running(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join((*here[: len(here) - node.level + 1], *filter(None, [node.module])))
                if node.level
                else node.module
            )
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from names


def against(tree, path):
    """Return the imports of a file that go against the direction."""
    home = part(path)
    wrong = []
    for name in imported(tree, path):
        package, _, rest = name.partition(".")
        other = rest.split(".")[0] if rest.split(".")[0] in PLACE else "workbench"
        if package != "workbench" or other == home:
            continue
        if PLACE[other] > PLACE[home] or (home, other) in APART:
            wrong.append(f"{home} imports {name}")
    return wrong


def test_every_layer_exists():
    assert {part(path) for path in MODULES} == set(LAYERS), "name it in LAYERS (and ARCHITECTURE.md)"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    assert against(parsed(path), path) == []


def dotted(path):
    """Return the dotted name of a module's file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(trees):
    """Return the modules that each module imports, from syntax trees by path."""
    names = {dotted(path) for path in trees}
    graph = {}
    for path, tree in trees.items():
        targets = set(imported(tree, path))
        targets |= {name.rpartition(".")[0] for name in targets}  # from module import name
        graph[dotted(path)] = (targets & names) - {dotted(path), *PACKAGES}
    return graph


def test_no_module_imports_itself_by_way_of_others():
    graph = imports({path: parsed(path) for path in MODULES})
    tuple(graphlib.TopologicalSorter(graph).static_order())  # CycleError names a circle


@pytest.mark.parametrize("name", BARE)
def test_what_computes_needs_no_notebook_and_no_tagger(name):
    for path in (path for path in MODULES if part(path) == name):
        libraries = {module.split(".")[0] for module in imported(parsed(path), path)}
        assert not libraries & HEAVY, path


def test_modules_are_short():
    assert [path for path in MODULES if len(path.read_bytes().splitlines()) > 600] == []


VAGUE = {"found", "told", "said", "kept", "given", "mine", "own", "some", "whole", "more"}
VAGUE_VARIABLES = VAGUE | {
    "place", "places", "part", "parts", "kind", "kinds", "left", "known", "shown", "one", "most", "at",
    "of", "what", "cut",
}  # fmt: skip


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_names_say_what_they_hold(path):
    nodes = list(ast.walk(parsed(path)))
    fields = {node.target for node in nodes if isinstance(node, ast.AnnAssign)}  # such as `left: str`
    stored = {node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = {node.id for node in stored} | {node.arg for node in nodes if isinstance(node, ast.arg)}
    vague = names & VAGUE | {node.id for node in stored - fields} & VAGUE_VARIABLES
    if path == PACKAGE / "probing/texts.py":
        vague -= {"given"}  # the condition of ln p(text | context)
    assert vague == set(), "name what it is: result, position, row, mask, path, segment, category ..."


def test_a_public_name_has_one_home():
    homes = {}
    for path in MODULES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(dotted(path))
    readers = {"load", "at_hand", "questions"}  # what each data set answers to
    passages = {"passages"}  # those of items, and those that are drawn from novels
    funnel = {"funnel"}  # the table of people's judgments, and the chart
    assert {name for name, where in homes.items() if len(where) > 1} == readers | passages | funnel


def test_importing_the_package_imports_none_of_the_heavy_ones():
    code = "import sys, json; import workbench; dir(workbench); print(json.dumps(sorted(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(json.loads(told.stdout))
    assert "workbench" in loaded
    assert not loaded & LAZY
    assert not [name for name in loaded if name.startswith("workbench.")]


def test_importing_charts_compiles_no_grammar_until_an_iri_is_checked():
    code = """
import sys, workbench.charts, jsonschema
assert "rfc3987_syntax" not in sys.modules
conforms = jsonschema.Draft202012Validator.FORMAT_CHECKER.conforms
assert conforms("http://a.b/c", "iri") and not conforms("a b", "iri") and conforms("c", "iri-reference")
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def tracked():
    """Return the files that git holds, or would."""
    git = shutil.which("git")
    if not git:
        pytest.skip("git is not there to say what it tracks")
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    told = subprocess.run(command, capture_output=True, cwd=ROOT, check=False)
    if told.returncode:
        pytest.skip(f"git does not say what it tracks: {told.stderr.decode().strip()}")
    return [path for name in told.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


# a path that starts with a folder of one machine, and addresses of package registries
FOREIGN = re.compile(r"""(?<![\w.)}~-])/(?:work|root|home)/|pypi\.org|files\.pythonhosted""")


def test_no_file_names_this_machine_or_a_registry():
    found = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" in content[:8192]:
            continue
        for number, line in enumerate(content.decode(errors="replace").split("\n"), start=1):
            if FOREIGN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_kept_without_what_they_showed(path):
    assert re.fullmatch(r"\d\d_\w+\.ipynb", path.name)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None]
    assert "widgets" not in notebook["metadata"]
    tagged = [place for place, cell in enumerate(code) if "parameters" in cell["metadata"].get("tags", [])]
    assert tagged == [0]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


def test_scripts_never_make_markup_of_text():
    scripts = sorted(PACKAGE.rglob("*.js"))
    assert scripts
    for path in scripts:
        markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write"
        assert not re.search(markup, path.read_text("utf-8")), path


def test_widgets_share_no_class_of_their_style_sheets():
    sheets = [path for path in (PACKAGE / "widgets").glob("*/*.css") if path.stem == path.parent.name]
    classes = {path.stem: set(re.findall(r"\.(w[a-z]-[a-z-]+)", path.read_text())) for path in sheets}
    prefixes = {name: {one[:2] for one in names} - {"wb"} for name, names in classes.items()}
    prefixes["browser"] = {"wb"}  # the charts of wb.explore stand above a browser
    assert len(prefixes) >= 6
    assert {len(own) for own in prefixes.values()} == {1}  # else one restyles another in the same notebook
    assert len(set.union(*prefixes.values())) == len(prefixes)


def test_what_is_noted_as_slow_exists():
    for line in (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines():
        *_seconds, test = line.split()
        file, *names = test.split("::")
        content = (ROOT / file).read_text(encoding="utf-8")
        assert all(name == "runTest" or re.search(rf"\b{name}\b", content) for name in names), test
