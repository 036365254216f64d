"""Count how far the concepts of the library are spread: the table of docs/architecture.md; ``--check`` compares it.

How it counts:

* *Files to read for a concept.* From the functions that a concept begins with it follows names. A function or class
  that the code of a reached function names is reached; of a reached class, those methods whose names reached code
  calls. Inside the concept's own folders every reached function is followed. A function of another folder is a door:
  it is read, but not what it calls. Modules of other index kinds, which Python chooses by name at run time, are left
  out, and so is the foundation: what all five stages reach, and the folders in ``FOUNDATION``.
* *Modules in its folders*: all that lie in the folders in which the concept's own code is, what one meets who opens
  them.
* *A function climbs* if it gives a function to one of a layer below its own, which calls it back; what is given to
  ``RUNNERS`` is the design and not counted. The layers are those of ``.importlinter``; counted is what an upsert
  reaches.
* *Modules with one importer* are imported by exactly one module, which is in the same folder.

Sizes, which each change of the library changes, are printed and on no page. Of the files to read, they count the
foundation, too; of modules with one importer, those that it imports at its top: what is chosen by name or loaded late
is imported where it is used.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/architecture.md"
MARKED: Final = re.compile(r"<!-- made by scripts/house\.py -->\n(.*?)<!-- end -->", re.DOTALL)
LINE: Final = 120
FOUNDATION: Final = ("errors", "model", "storage", "format", "hashing", "parquet", "options")


@dataclass(frozen=True)
class Concept:
    """What is counted as one.

    Attributes:
        entries: functions it begins with.
        beside: modules of other kinds.
    """

    entries: tuple[str, ...]
    home: tuple[str, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Where the concepts are in one state of the library."""

    stages: tuple[str, ...]
    upsert: str
    concepts: dict[str, Concept]


LOOK_UP, COMMIT, UPKEEP = "a BLOOM look-up", "a commit", "the upkeep of a RECORD index"
NOW: Final = Plan(
    stages=(
        "stages.stage_input.stage:stage_input",
        "stages.index_lookup:index_lookup",
        "stages.bloom_check:bloom_check",
        "stages.verify_keys:verify_keys",
        "stages.merge_write.stage:MergeAttempt.run",
    ),
    upsert="conductor.upsert:run_batch",
    concepts={
        LOOK_UP: Concept(
            entries=(
                "stages.index_lookup:index_lookup",
                "stages.bloom_check:bloom_check",
                "index.bloom:make_index",
                "index.bloom:BloomIndex.ask",
            ),
            home=("stages.index_lookup", "stages.bloom_check", "index", "run.index"),
            beside=(
                *("index.locations", "run.index.stored_session"),
                "run.index.in_metadata",
            ),
        ),
        COMMIT: Concept(
            entries=(
                "commit.write_session:begin_write",
                "commit.write_session:WriteSession.plan",
                "commit.write_session:WriteSession.publish",
            ),
            home=("commit",),
            beside=("commit.recovery", "commit.undo", "commit.sweep"),
        ),
        UPKEEP: Concept(
            entries=(
                "run.index.stored_session:StoredSession.ready",
                "run.index.stored_session:StoredSession.committed",
                "run.index.stored_session:StoredSession.compact",
                "index.locations.record:make_index",
                "index.locations.record:RecordIndex.arrange",
            ),
            home=("run.index", "index"),
        ),
    },
)


@dataclass
class Module:
    """A module as its text shows it.

    Attributes:
        imported: local name -> (module, name in it), or (module, "") for a module.
    """

    name: str
    tree: ast.Module
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)

    methods: dict[str, list[str]] = field(default_factory=dict)


class House:
    """All modules of a library."""

    def __init__(self, library: Path) -> None:
        self.modules = dict(_modules(library))
        self._names: dict[ast.AST, list[tuple[str, str]]] = {}
        self._attributes: dict[ast.AST, frozenset[str]] = {}
        self._foundations: dict[tuple[str, ...], set[str]] = {}
        for module in self.modules.values():
            self._read(module)

    def _read(self, module: Module) -> None:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lakeindex":
                inside = node.module.removeprefix("lakeindex").removeprefix(".")
                for one in node.names:
                    whole = f"{inside}.{one.name}".strip(".")
                    target = (whole, "") if whole in self.modules else (inside, one.name)
                    module.imported[one.asname or one.name] = target
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef):
                module.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                module.classes[node.name] = node
                module.methods[node.name] = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef):
                        module.functions[f"{node.name}.{inner.name}"] = inner

    def find(self, module: str, name: str) -> tuple[str, str] | None:
        """Where a name is defined, following re-exports; None for a constant or what is not the library's."""
        for _ in range(5):
            here = self.modules.get(module)
            if here is None:
                return None
            if name in here.functions or name in here.classes:
                return module, name
            if name not in here.imported:
                return None
            module, name = here.imported[name]
        return None

    def reach(self, concept: Concept) -> set[tuple[str, str]]:
        """(module, function or Class.method) of all that is reached."""
        reached: set[tuple[str, str]] = set()
        classes: set[tuple[str, str]] = set()
        called: set[str] = set()
        todo = [(module, name) for module, _, name in (entry.partition(":") for entry in concept.entries)]
        while todo:
            module, name = todo.pop()
            if (module, name) in reached or _within(module, concept.beside):
                continue
            here, owner = self.modules[module], name.partition(".")[0]
            if owner in here.classes and (module, owner) not in classes:
                classes.add((module, owner))
                if _within(module, concept.home):
                    todo += self._named(here, here.classes[owner].bases)
                todo += [(module, f"{owner}.{m}") for m in here.methods[owner] if m in called or m.startswith("__")]
            if name in here.functions:
                reached.add((module, name))
                if not _within(module, concept.home):
                    continue
                body = here.functions[name]
                todo += self._named(here, [body])
                new = self._attributes_in(body) - called
                called |= new
                for where, cls in classes:
                    todo += [(where, f"{cls}.{m}") for m in self.modules[where].methods[cls] if m in new]
        return reached

    def _attributes_in(self, body: ast.AST) -> frozenset[str]:
        if body not in self._attributes:
            self._attributes[body] = frozenset(n.attr for n in ast.walk(body) if isinstance(n, ast.Attribute))
        return self._attributes[body]

    def _named(self, module: Module, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
        """Functions and classes that code names."""
        for top in nodes:
            if top not in self._names:
                self._names[top] = list(self._find_named(module, top))
            yield from self._names[top]

    def _find_named(self, module: Module, top: ast.AST) -> Iterator[tuple[str, str]]:
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                found = self.find(module.name, node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                inside, name = module.imported.get(node.value.id, ("", "-"))
                found = self.find(inside, node.attr) if not name else None
            else:
                continue
            if found is not None:
                yield found

    def spread(self, plan: Plan, concept: Concept) -> tuple[int, int]:
        """Files and top-level folders to be read for a concept."""
        modules = {module for module, _ in self.reach(concept)} - self.foundation(plan)
        counted = {module for module in modules if not _within(module, FOUNDATION)}
        return len(counted), len({module.partition(".")[0] for module in counted})

    def beside(self, concept: Concept) -> int:
        """Modules that lie in the folders of a concept's own code, its own among them."""
        own = {module for module, _ in self.reach(concept) if _within(module, concept.home)}
        folders = {module.rpartition(".")[0] for module in own}
        names = (name for name in self.modules if name.rpartition(".")[0] in folders)
        return sum(not any(other.startswith(f"{name}.") for other in self.modules) for name in names)

    def foundation(self, plan: Plan) -> set[str]:
        """Modules that all stages reach."""
        if plan.stages not in self._foundations:
            everything = tuple({module.partition(".")[0] for module in self.modules})
            reached = [self.reach(Concept((stage,), everything)) for stage in plan.stages]
            self._foundations[plan.stages] = set.intersection(*({module for module, _ in one} for one in reached))
        return self._foundations[plan.stages]

    def climbs(self, plan: Plan, layers: Sequence[frozenset[str]]) -> set[str]:
        """Functions of an upsert that are given down, to be called back, as ``module:function``."""
        everything = tuple({module.partition(".")[0] for module in self.modules})
        found = set()
        for module, name in self.reach(Concept((plan.upsert,), everything)):
            here = self.modules[module]
            local = {n.name for n in ast.walk(here.functions[name]) if isinstance(n, ast.FunctionDef)}
            for call in (n for n in ast.walk(here.functions[name]) if isinstance(n, ast.Call)):
                callee = next(iter(self._named(here, [call.func])), None)
                if callee is None or callee[1] in RUNNERS or _floor(callee[0], layers) <= _floor(module, layers):
                    continue
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                if any(self._is_function(here, one, local) for one in given):
                    found.add(f"{module}:{name}")
        return found

    def _is_function(self, here: Module, node: ast.AST, local: Collection[str]) -> bool:
        if isinstance(node, ast.Lambda):
            return True
        if not isinstance(node, ast.Name):
            return False
        target = self.find(here.name, node.id)
        return node.id in local or (target is not None and target[1] in self.modules[target[0]].functions)

    def with_one_importer(self) -> list[str]:
        """Modules that exactly one module imports, which is in the same folder."""
        importers: dict[str, set[str]] = {name: set() for name in self.modules}
        for module in self.modules.values():
            for target, name in module.imported.values():
                whole = f"{target}.{name}".strip(".")
                importers.setdefault(whole if whole in self.modules else target, set()).add(module.name)
        return sorted(
            name
            for name, mine in importers.items()
            if name in self.modules
            and {one.rpartition(".")[0] for one in mine} == {name.rpartition(".")[0]}
            and len(mine) == 1
        )

    def is_imported_at_a_top(self, name: str) -> bool:
        """Whether some module imports it when it is loaded itself."""
        package, _, leaf = f"lakeindex.{name}".rpartition(".")
        for module in self.modules.values():
            for node in module.tree.body:
                if isinstance(node, ast.ImportFrom) and (
                    node.module == f"lakeindex.{name}"
                    or (node.module == package and any(one.name == leaf for one in node.names))
                ):
                    return True
        return False

    def longest_parameter_list(self) -> int:
        """Parameters of the function that has most, without ``self``."""
        inner = (module for module in self.modules.values() if not _within(module.name, DOORS))
        return max(_parameters(node) for module in inner for node in module.functions.values())


DOORS: Final = ("api", "cli", "airflow.upsert_operator")
"""Their functions have a parameter for each option that a user may give."""

RUNNERS: Final = frozenset({"run_tasks", "do_task", "in_parallel"})
"""What functions are given to that are done for each of many items: tasks, and requests."""


def _within(module: str, folders: Collection[str]) -> bool:
    return any(module == folder or module.startswith(f"{folder}.") for folder in folders)


def _floor(module: str, layers: Sequence[frozenset[str]]) -> int:
    return next((n for n, layer in enumerate(layers) if module.partition(".")[0] in layer), len(layers))


def _parameters(node: ast.FunctionDef) -> int:
    mine = node.args
    names = [one.arg for one in (*mine.posonlyargs, *mine.args, *mine.kwonlyargs)]
    return sum(name not in ("self", "cls") for name in names)


def layers_of(contract: Path) -> list[frozenset[str]]:
    """Top-level names by layer, the highest first."""
    parser = configparser.ConfigParser()
    parser.read(contract)
    text = parser["importlinter:contract:layers"]["layers"]
    return [frozenset(re.findall(r"\w+", line)) for line in text.splitlines() if line.strip()]


def largest_folder(library: Path) -> int:
    """Modules of the folder without folders that has most."""
    leaves = [one for one in (library, *library.rglob("*")) if one.is_dir() and _is_leaf(one)]
    return max(len([path for path in one.glob("*.py") if path.name != "__init__.py"]) for one in leaves)


def _is_leaf(folder: Path) -> bool:
    return folder.name != "__pycache__" and not any(one.is_dir() and any(one.glob("*.py")) for one in folder.iterdir())


def measured(library: Path, plan: Plan, contract: Path) -> dict[str, str]:
    """Each figure by its name."""
    house = House(library)
    figures: dict[str, str] = {}
    for name, concept in plan.concepts.items():
        files, folders = house.spread(plan, concept)
        figures[f"files to read for {name}, and the top-level folders they are in"] = f"{files} in {folders}"
        figures[f"modules in the folders that hold {name}"] = str(house.beside(concept))
    return {
        **figures,
        "functions of an upsert that climb": str(len(house.climbs(plan, layers_of(contract)))),
        "modules with one importer, beside them": str(len(house.with_one_importer())),
        "longest parameter list, behind the doors": str(house.longest_parameter_list()),
        "modules of the largest folder without folders": str(largest_folder(library)),
    }


def sizes(library: Path, plan: Plan) -> dict[str, str]:
    """How large the library is, by name."""
    house = House(library)
    texts = {path: path.read_text() for path in sorted(library.rglob("*.py"))}
    docs, code = zip(*(_lines_of(text) for text in texts.values()), strict=True)
    names = Counter(path.stem for path in texts if path.name != "__init__.py")
    late = {name for name in house.with_one_importer() if not house.is_imported_at_a_top(name)}
    figures = {
        "lines; of code": f"{sum(len(text.splitlines()) for text in texts.values()):,}; {sum(code):,}",
        "lines of docstrings": f"{sum(docs):,}",
        "files; folders; modules at the root": f"{len(texts)}; {len({path.parent for path in texts})}; "
        f"{len(list(library.glob('*.py'))) - 1}",
        "modules with one importer, which names them at its top": str(len(house.with_one_importer()) - len(late)),
        "lines of more than 120 characters": str(
            sum(len(line) > LINE for text in texts.values() for line in text.splitlines())
        ),
        "names that two folders share": str(sum(count > 1 for count in names.values())),
    }
    for name, concept in plan.concepts.items():
        reached = {module for module, _ in house.reach(concept)}
        folders = {module.partition(".")[0] for module in reached}
        figures[f"files to read for {name}, the foundation too"] = f"{len(reached)} in {len(folders)}"
    for folder in ("benchmarks", "scripts"):
        scripts = (library.parents[1] / folder).rglob("*.py")
        figures[f"lines of {folder}"] = f"{sum(len(path.read_text().splitlines()) for path in scripts):,}"
    return figures


def _lines_of(text: str) -> tuple[int, int]:
    """Lines of docstrings, and of code: neither empty nor only a comment."""
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        for one in getattr(node, "body", ()) if isinstance(getattr(node, "body", ()), list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                docs.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return len(docs), sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and n not in docs for n, line in lines
    )


def _modules(library: Path) -> Iterator[tuple[str, Module]]:
    for path in sorted(library.rglob("*.py")):
        inside = path.relative_to(library).with_suffix("")
        name = ".".join(part for part in inside.parts if part != "__init__")
        yield name, Module(name, ast.parse(path.read_text()))


def main() -> int:
    """The table, or whether the page has it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, default=ROOT / "lib/lakeindex")
    parser.add_argument("--check", action="store_true", help="say whether docs/architecture.md has today's figures")
    asked = parser.parse_args()
    contract = asked.library.parents[1] / ".importlinter"
    figures = measured(asked.library, NOW, contract)
    if not asked.check:
        figures |= sizes(asked.library, NOW)
        print("\n".join(f"{value:>15}  {name}" for name, value in figures.items()))
        return 0
    found = MARKED.search(PAGE.read_text())
    rows = [line.split("|") for line in (found[1] if found else "").splitlines()]
    shown = {cells[1].strip(): cells[3].strip() for cells in rows if len(cells) > 4}
    wrong = {name: (shown.get(name), value) for name, value in figures.items() if shown.get(name) != value}
    for name, (old, new) in wrong.items():
        print(f"{name}: the page says {old}, it is {new}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
