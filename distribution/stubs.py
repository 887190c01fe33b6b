"""Write the stubs of the extension modules from the Rust sources of their crates.

    python distribution/stubs.py            write every stub
    python distribution/stubs.py --check    exit with 1 if a stub is not what its crates say

A stub has what the function of a crate adds to its module: classes with their fields and methods,
functions, exceptions, and constants, each below a comment that begins with `NAME: TYPE`. Doc
comments become docstrings. A Rust type becomes the Python type that PyO3 converts it from or to;
what Rust cannot express has a type whose doc comment says "In Python: `TYPE`". Whatever is not
understood is an error, so a stub never has less than its crate.

The introspection of PyO3 0.30 has no types for fields, no imports for what annotations name, and
SupportsIndex for every number; and whoever reads the stub would have to compile the crates first.
"""

import argparse
import ast
import builtins
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rust_items import (
    Item,
    RustError,
    Token,
    Tokens,
    fields_of,
    is_comment,
    items_of,
    split,
    text_of,
    tokens_of,
)

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stub:
    """A stub, the crates that fill its module, and the files of the Python modules with types of
    Python alone."""

    path: str
    crates: tuple[str, ...]
    types: Mapping[str, str]


STUBS: Final = (
    Stub(
        "harness/native/_native.pyi",
        ("histories", "generators", "simulator", "interpreter"),
        {
            "harness.native.interpreter": "harness/native/interpreter.py",
            "harness.native.simulator": "harness/native/simulator.py",
        },
    ),
    Stub(
        "harness/native/_explorer.pyi",
        ("explorer",),
        {"harness.native.explorer": "harness/native/explorer.py"},
    ),
    Stub(
        "crates/porcupine/python/pyporcupine/_pyporcupine.pyi",
        ("porcupine",),
        {"pyporcupine.protocols": "crates/porcupine/python/pyporcupine/protocols.py"},
    ),
)
_SAME: Final = {
    **dict.fromkeys(("i64", "u8", "u16", "u32", "u64", "usize"), "int"),
    **dict.fromkeys(("str", "String", "PyString"), "str"),
    **dict.fromkeys(("PyBytes", "PyBackedBytes"), "bytes"),
    "bool": "bool",
    "f64": "float",
    "PathBuf": "str | PathLike[str]",
    "PyAny": "Any",
    "PyCapsule": "object",
    "PyTuple": "tuple[Any, ...]",
    "Self": "Self",
}
_TRANSPARENT: Final = ("PyResult", "Bound", "Py", "PyRef")
_BASES: Final = {
    "PyException": "Exception",
    "PyRuntimeError": "RuntimeError",
    "PyValueError": "ValueError",
}
_LITERALS: Final = {"true": "True", "false": "False", "None": "None", "vec![]": "()"}
_OF_PYTHON: Final = ("__getnewargs_ex__", "__richcmp__")
"""Methods of Python's own protocols that no caller names, beside those of `object`."""
_SAID: Final = re.compile(r"In\s+Python:\s+`([^`]*)`")
_WORD: Final = re.compile(r"""(?<![\w."'])[A-Za-z_]\w*(?![\w"'])""")
_HOMES: Final = ("collections.abc", "os", "types", "typing")


class Crate:
    """What the Rust files of a crate say, by name."""

    def __init__(self, name: str) -> None:
        self.named: dict[str, list[Item]] = {}
        """Structs, enums and aliases, each with all of its name."""
        self.classes: dict[str, Item] = {}
        self.methods: dict[str, list[Item]] = {}
        self.functions: dict[str, Item] = {}
        self.exceptions: dict[str, tuple[str, str]] = {}
        """Base class and documentation."""
        self.root = ROOT / "crates" / name / "src"
        for path in sorted(self.root.rglob("*.rs")):
            for item in items_of(tokens_of(path.read_text("utf-8")), path):
                self._add(item)

    def _add(self, item: Item) -> None:
        if item.kind in ("struct", "enum", "type"):
            self.named.setdefault(item.name, []).append(item)
        if item.has("pyclass"):
            self.classes[item.name] = item
        elif item.kind == "impl" and item.has("pymethods"):
            self.methods.setdefault(item.name, []).extend(items_of(item.body, item.path))
        elif item.has("pyfunction"):
            self.functions[item.name] = item
        elif item.has("pymodule") or (item.kind, item.name) == ("fn", "add_to"):
            self.module = item
        elif item.kind == "create_exception":
            _, (name,), base, (doc,) = split(item.body, ",")
            lines = [line.strip() for line in ast.literal_eval(f'""{doc.text}""').split("\n")]
            self.exceptions[name.text] = (_BASES[base[-1].text], "\n".join(lines))

    def type_named(self, name: str, path: Path) -> Item | None:
        """Return the type that a file means by a name: its own, or the only one of the crate."""
        every = self.named.get(name, [])
        here = [item for item in every if item.path == path]
        return (here or every)[0] if here or len(every) == 1 else None


@dataclass
class Writer:
    """Writes what Python sees of a crate."""

    crate: Crate
    others: Sequence[Crate]
    """Crates of the same module, some of whose types it uses."""
    written: set[str] = field(default_factory=set)
    wanted: list[str] = field(default_factory=list)
    """Classes that types name."""

    def module(self) -> Iterator[str]:
        """Yield everything that the crate adds to its module, then the classes that types name."""
        for comment, words in added(self.crate.module):
            name = words[-1]
            if words[0] == "add_class":
                yield from self.class_of(name)
            elif words[0] == "add_function":
                yield from self.function(self.crate.functions[name])
            elif name in self.crate.exceptions:
                base, doc = self.crate.exceptions[name]
                yield f"class {name}({base}):{body(doc, 4)}"
            else:
                head, _, doc = comment.partition("\n")
                constant, _, kind = head.partition(": ")
                if constant != name:
                    raise RustError(f"{self.crate.module.path}: {name}: no comment `{name}: TYPE`")
                self._want(kind)
                yield head + (docstring(doc, 0) if doc else "")
        while self.wanted:
            yield from self.class_of(self.wanted.pop(0))

    def class_of(self, rust: str) -> Iterator[str]:
        """Yield a class, once."""
        if rust in self.written:
            return
        self.written.add(rust)
        item = self.crate.classes[rust]
        fields = [
            one
            for one in fields_of(item)
            if item.has("pyclass", "get_all") or one.has("pyo3", "get")
        ]
        members = [self.property(one, one.annotated) for one in fields]
        for method in self.crate.methods.get(rust, []):
            members += self.method(method, rust)
        doc = docstring(item.doc, 4) if item.doc else ""
        yield "\n".join([f"@final\nclass {self.name_of(rust)}:{doc}", *members])

    def property(self, item: Item, kind: Tokens) -> str:
        """Return a property."""
        told = f"{item.name}(self) -> {self.type_of(kind, item)}:"
        return f"    @property\n    def {told}" + body(item.doc, 8)

    def method(self, item: Item, rust: str) -> Iterator[str]:
        """Yield a method or a constant of a class, unless it is one of Python's own protocols."""
        if item.has("classattr"):
            shown = ast.literal_eval(text_of(item.argument("pyo3", "name")))
            yield f"    {shown}: Final = {text_of(item.value)}"
        elif item.has("getter"):
            yield self.property(item, item.returned)
        elif item.has("new"):
            arguments = self.arguments(item, "cls")
            yield f"    def __new__({arguments}) -> {self.name_of(rust)}:" + body(item.doc, 8)
        elif item.has("staticmethod"):
            yield f"    @staticmethod\n    {self.defined(item, None)}" + body(item.doc, 8)
        elif not hasattr(object, item.name) and item.name not in _OF_PYTHON:
            yield f"    {self.defined(item, 'self')}" + body(item.doc, 8)

    def function(self, item: Item) -> Iterator[str]:
        """Yield a function, unless it is private."""
        if not text_of(item.argument("pyo3", "name")).startswith('"_'):
            yield self.defined(item, None) + body(item.doc, 4)

    def defined(self, item: Item, first: str | None) -> str:
        """Return the head of a function."""
        told = self.type_of(item.returned, item)
        return f"def {item.name}({self.arguments(item, first)}) -> {told}:"

    def arguments(self, item: Item, first: str | None) -> str:
        """Return the arguments of a function with types and defaults."""
        types = {
            name: self.type_of(kind, item, given=True)
            for name, kind in item.parameters()
            if "Python" not in text_of(kind) and name not in ("self", "slf")
        }
        out = [first] if first else []
        for name, default in signature(item) or [(name, "") for name in types]:
            if name == "*":
                out.append("*")
            else:
                out.append(f"{name}: {types.pop(name)}" + (f" = {default}" if default else ""))
        if types:
            raise RustError(f"{item.path}: {item.name}: its signature lacks {sorted(types)}")
        return ", ".join(out)

    def type_of(self, kind: Tokens, item: Item, *, given: bool = False) -> str:
        """Return the Python type of a Rust type: one that Python gives, or one that it gets."""
        kind = [t for t in kind if t.text not in ("&", "mut") and not t.text.startswith("'")]
        many = "Sequence" if given else "list"
        if not kind:
            return "None"
        if kind[0].text == "[":
            return f"{many}[{self.type_of(split(kind[0].group, ';')[0], item, given=given)}]"
        if kind[0].text == "(":
            parts = [self.type_of(one, item, given=given) for one in split(kind[0].group, ",")]
            return f"tuple[{', '.join(parts)}]" if parts else "None"
        at = next((i for i, token in enumerate(kind) if token.text == "<"), len(kind))
        name = kind[at - 1].text
        inner = [one for one in split(kind[at + 1 : -1], ",") if not one[0].text.startswith("'")]
        named = self._named(name, item, given)
        if named is not None:
            return named
        given = given and name != "HashMap"  # a dict's types are exact, even one that Python gives
        parts = [self.type_of(one, item, given=given) for one in inner]
        if name in _TRANSPARENT:
            return parts[-1]
        if name == "Option":
            return f"{parts[0]} | None"
        if name == "Vec":
            return f"{many}[{parts[0]}]"
        if name == "HashMap":
            return f"dict[{', '.join(parts)}]"
        raise RustError(f"{item.path}: {item.name}: {name}: no Python type is known for it")

    def _named(self, name: str, item: Item, given: bool) -> str | None:
        """Return the Python type of a type of the crate, or of one without arguments."""
        named = (crate.type_named(name, item.path) for crate in (self.crate, *self.others))
        mine = next(filter(None, named), None)
        said = _SAID.search(mine.doc) if mine else None
        if mine and said:
            told = _WORD.sub(lambda word: self._told(word[0], mine), said[1].replace("\n", " "))
            self._want(told)
            return told
        if name in self.crate.classes:
            self.wanted.append(name)
            return self.name_of(name)
        if mine and mine.kind == "type":
            return self.type_of(mine.value, mine, given=given)
        return _SAME.get(name)

    def _told(self, word: str, item: Item) -> str:
        """Return what a word in the Python type of an item stands for: another such type."""
        other = self.crate.type_named(word, item.path) if word != item.name else None
        said = _SAID.search(other.doc) if other else None
        return said[1].replace("\n", " ") if said else word

    def _want(self, kind: str) -> None:
        self.wanted += [word for word in _WORD.findall(kind) if word in self.crate.classes]

    def name_of(self, rust: str) -> str:
        """Return the name that Python knows a class by."""
        shown = text_of(self.crate.classes[rust].argument("pyclass", "name"))
        return str(ast.literal_eval(shown)) if shown else rust


def added(module: Item) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each statement that adds something to a module: the comment above it, and the method
    with the name of what it adds."""
    comment: list[str] = []
    words: list[Token] = []
    for token in module.body:
        if is_comment(token):
            comment.append(token.text.removeprefix("//").removeprefix(" "))
        elif token.text not in (";", "?") or not words:
            words.append(token)
            continue
        if token.text == ";":
            texts = [one.text for one in words]
            if texts[:2] == ["module", "."]:
                yield "\n".join(comment), (texts[2], _added_name(words))
            comment, words = [], []
    if words:
        yield "\n".join(comment), (words[2].text, _added_name(words))


def _added_name(words: Sequence[Token]) -> str:
    """Return the name of what a statement adds."""
    if words[2].text == "add":
        return str(ast.literal_eval(words[3].group[0].text))
    if words[2].text == "add_class":
        return next(t.text for t in reversed(words) if re.fullmatch(r"[A-Z]\w*", t.text))
    macro = words[3].group
    return split(macro[1].group, ",")[0][-1].text


def signature(item: Item) -> list[tuple[str, str]]:
    """Return the arguments in the attribute `signature` with their defaults, `*` among them; in
    Python's words if there is a `text_signature`."""
    text = item.argument("pyo3", "text_signature")
    if text:
        words = re.sub(r"\\\n\s*", "", ast.literal_eval(f'""{text[0].text}""'))
        (function,) = ast.parse(f"def f{words}: ...").body
        assert isinstance(function, ast.FunctionDef), "it was written as one"
        arguments = function.args
        without = [None] * (len(arguments.args) - len(arguments.defaults))
        defaults = [*without, *arguments.defaults, *arguments.kw_defaults]
        named = zip([*arguments.args, *arguments.kwonlyargs], defaults, strict=True)
        out = [(one.arg, ast.unparse(default) if default else "") for one, default in named]
        return [*out[: len(arguments.args)], ("*", ""), *out[len(arguments.args) :]]
    words = item.argument("pyo3", "signature")
    out = []
    for part in split(words[0].group, ",") if words else ():
        default = re.sub(r"^Some\((.*)\)$", r"\1", text_of(part[2:]))
        if default and not re.fullmatch(r'[\d.]+|".*"', default):
            if default not in _LITERALS:
                raise RustError(f"{item.path}: {item.name}: {default}: no Python value is known")
            default = _LITERALS[default]
        out.append((part[0].text, default))
    return out


def docstring(doc: str, indent: int) -> str:
    """Return a docstring on lines of its own."""
    margin = "\n" + " " * indent
    lines = doc.replace("\\", "\\\\").split("\n")
    room = len(lines[-1]) + indent + 3 + (3 if len(lines) == 1 else 0) <= 100
    return (
        margin
        + '"""'
        + "".join(
            (margin + line if line else "\n") if at else line for at, line in enumerate(lines)
        )
        + ('"""' if room else margin + '"""')
    )


def body(doc: str, indent: int) -> str:
    """Return the body of a function or of an exception."""
    return docstring(doc, indent) if doc else " ..."


def stub_text(stub: Stub) -> str:
    """Return what a stub must be."""
    crates = [Crate(name) for name in stub.crates]
    code = "\n".join(part for crate in crates for part in Writer(crate, crates).module())
    tree = ast.parse(code)
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    names = {node.id for node in used if isinstance(node.ctx, ast.Load)}
    names -= {node.id for node in used if isinstance(node.ctx, ast.Store)}
    names -= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    homes: dict[str, list[str]] = {}
    for name in sorted(names - vars(builtins).keys()):
        homes.setdefault(home_of(name, stub), []).append(name)
    ours = {home: homes.pop(home) for home in stub.types if home in homes}
    imports = [f"from {home} import {', '.join(words)}" for home, words in sorted(homes.items())]
    imports += [""] if ours else []
    imports += [f"from {home} import {', '.join(words)}" for home, words in ours.items()]
    header = f'"""Written by distribution/stubs.py from crates {", ".join(stub.crates)}."""\n\n'
    text = header + "\n".join(imports) + "\n\n" + code
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", stub.path, "-"]
    done = subprocess.run(ruff, cwd=ROOT, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RustError(f"{stub.path}: {done.stderr}")
    return done.stdout


def home_of(name: str, stub: Stub) -> str:
    """Return the module from which a stub imports a name."""
    for home in _HOMES:
        if hasattr(importlib.import_module(home), name):
            return home
    for home, file in stub.types.items():
        for node in ast.parse((ROOT / file).read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return home
    raise RustError(f"{stub.path}: {name}: no module has this type")


def main() -> int:
    """Write or check the stubs, and return the exit status."""
    parser = argparse.ArgumentParser(description="Write the stubs from the Rust sources.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    status = 0
    for stub in STUBS:
        path, text = ROOT / stub.path, stub_text(stub)
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        if check:
            print(f"{stub.path}: run python distribution/stubs.py", file=sys.stderr)
            status = 1
        else:
            path.write_text(text, "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
