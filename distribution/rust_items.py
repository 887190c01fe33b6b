"""Splits a Rust file into its items, by as much of the grammar as our crates use."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TOKEN: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?c?"(?:\\.|[^"\\])*"|r\#+".*?"\#+|'(?:\\.[^']*|[^'\\])'|'\w+"""
    r"""|\w+(?:\.\d\w*)?!?|->|=>|::|\s+|.""",
    re.DOTALL,
)
_CLOSE: Final = {"(": ")", "[": "]", "{": "}"}
_BRACED: Final = ("fn", "impl", "mod", "trait", "enum", "struct", "extern", "unsafe", "union")
_QUALIFIERS: Final = ("pub", "async", "unsafe", "default")


class RustError(Exception):
    """A Rust source has what cannot be told in Python."""


@dataclass(frozen=True)
class Token:
    """A token, or a bracket with what is inside of it."""

    text: str
    start: int
    """Offset in the file."""
    group: tuple["Token", ...] = ()


Tokens = Sequence[Token]


def tokens_of(text: str) -> Tokens:
    """Return the tokens of a file, brackets nested. Comments are tokens, spaces are not."""
    stack: list[list[Token]] = [[]]
    opened: list[tuple[str, int]] = []
    for match in TOKEN.finditer(text):
        word, start = match[0], match.start()
        if word.isspace():
            continue
        if word in _CLOSE:
            stack.append([])
            opened.append((word, start))
        elif opened and word == _CLOSE[opened[-1][0]]:
            bracket, start = opened.pop()
            group = tuple(stack.pop())
            stack[-1].append(Token(bracket, start, group))
        else:
            stack[-1].append(Token(word, start))
    if opened:
        raise RustError(f"offset {opened[-1][1]}: {opened[-1][0]} is not closed")
    return stack[0]


def is_comment(token: Token) -> bool:
    """Return whether a token is a comment, documentation included."""
    return token.text.startswith(("//", "/*"))


def text_of(tokens: Tokens) -> str:
    """Return tokens as text, with brackets and without spaces."""
    return "".join(
        f"{t.text}{text_of(t.group)}{_CLOSE[t.text]}" if t.text in _CLOSE else t.text
        for t in tokens
        if not is_comment(t)
    )


def split(tokens: Tokens, at: str) -> list[Tokens]:
    """Return the parts between separators outside of angle brackets, without an empty last one.
    Comments are left out."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if is_comment(token):
            continue
        depth += {"<": 1, ">": -1}.get(token.text, 0)
        if token.text == at and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


@dataclass(frozen=True)
class Item:
    """An item with its documentation and attributes."""

    path: Path
    doc: str
    attributes: tuple[Tokens, ...]
    """What each attribute has between its brackets."""
    words: Tokens
    """The item itself; a body in braces is its last token."""
    docs: tuple[Token, ...] = field(default=(), compare=False)
    start: int = 0
    """Offset of the first attribute, or of the item."""

    @property
    def _head(self) -> Tokens:
        words = list(self.words)
        while words[0].text in _QUALIFIERS:
            del words[: 2 if len(words) > 1 and words[1].text == "(" else 1]
        return words

    @property
    def kind(self) -> str:
        """`struct`, `fn`, `impl`, …; for a macro its name."""
        head = self._head
        if any(token.text == "create_exception!" for token in head):
            return "create_exception"
        return head[0].text

    @property
    def name(self) -> str:
        """Name of the item; of an impl that of its type."""
        head = [token.text for token in self._head]
        if head[0] == "impl":
            return next((word for word in head if re.fullmatch(r"[A-Z]\w*", word)), "")
        return head[0] if head[1:2] == [":"] else "".join(head[1:2])

    @property
    def body(self) -> Tokens:
        """What is in the last bracket."""
        return next((token.group for token in reversed(self.words) if token.text in _CLOSE), ())

    @property
    def value(self) -> Tokens:
        """What follows `=`."""
        return _after(self.words, "=")

    @property
    def annotated(self) -> Tokens:
        """The type of a field."""
        return _after(self.words, ":")

    @property
    def returned(self) -> Tokens:
        """The type that a function returns; empty if it returns nothing."""
        kind = _after(self.words, "->")
        ends = [i for i, token in enumerate(kind) if token.text in ("{", "where")]
        return kind[: ends[0]] if ends else kind

    def parameters(self) -> Iterator[tuple[str, Tokens]]:
        """Yield the name and the type of each parameter of a function but `self`."""
        group = next(token.group for token in self.words if token.text == "(")
        for part in split(group, ","):
            names = [token.text for token in part]
            if ":" in names:
                at = names.index(":")
                yield names[at - 1], part[at + 1 :]

    def has(self, attribute: str, word: str | None = None) -> bool:
        """Return whether there is an attribute, and in its brackets the word."""
        inner = self._arguments(attribute)
        return inner is not None and (word is None or any(t.text == word for t in inner))

    def argument(self, attribute: str, name: str) -> Tokens:
        """Return the value of `NAME = VALUE` in the brackets of the attributes of this name."""
        for part in split(self._arguments(attribute) or (), ","):
            if part[0].text == name and len(part) > 1:
                return part[2:]
        return ()

    def _arguments(self, attribute: str) -> Tokens | None:
        """Return what is in the brackets of the attributes of this name; None without one."""
        out: list[Token] | None = None
        for words in self.attributes:
            if words[0].text == "cfg_attr":
                words = split(words[1].group, ",")[-1]
            names = [token.text for token in words]
            if attribute in names[:3] and names[0] in (attribute, "pyo3"):
                out = [*(out or []), *(words[-1].group), Token(",", 0)]
        return out


def items_of(tokens: Tokens, path: Path) -> Iterator[Item]:
    """Yield the items of a file, of a module or of an impl."""
    rest = list(tokens)
    while rest:
        docs, attributes, start = [], [], rest[0].start
        while rest and (is_comment(rest[0]) or rest[0].text == "#"):
            if rest[0].text == "#":
                start = start if attributes else rest[0].start
                at = 2 if rest[1].text == "!" else 1
                attributes.append(rest[at].group)
                del rest[: at + 1]
            else:
                if rest[0].text.startswith("///"):
                    docs.append(rest[0])
                del rest[0]
        if not rest:
            return
        end = _end(rest)
        doc = "\n".join(token.text[3:].removeprefix(" ") for token in docs) or _included(
            attributes, path
        )
        start = start if attributes else rest[0].start
        words = tuple(token for token in rest[:end] if not is_comment(token))
        yield Item(path, doc, tuple(attributes), words, tuple(docs), start)
        del rest[:end]


def fields_of(struct: Item) -> Iterator[Item]:
    """Yield the fields of a struct: `name : TYPE`."""
    group: list[Token] = []
    for token in struct.body:
        group.append(Token(";", token.start) if token.text == "," and _level(group) == 0 else token)
    yield from items_of(group, struct.path)


def _level(tokens: Tokens) -> int:
    """Return how many angle brackets are open since the last field ended."""
    level = 0
    for token in tokens:
        level = 0 if token.text == ";" else level + {"<": 1, ">": -1}.get(token.text, 0)
    return level


def _end(tokens: Tokens) -> int:
    """Return the number of tokens of the first item."""
    head = next(token.text for token in tokens if token.text not in (*_QUALIFIERS, "("))
    for at, token in enumerate(tokens):
        if token.text == ";" or (token.text == "{" and (head in _BRACED or head.endswith("!"))):
            return at + 1
        if token.text == "{" and any(one.text == "fn" for one in tokens[:at]):
            return at + 1
    return len(tokens)


def _after(tokens: Tokens, word: str) -> Tokens:
    """Return what follows a word up to a semicolon."""
    texts = [token.text for token in tokens]
    out = tokens[texts.index(word) + 1 :] if word in texts else ()
    return [token for token in out if token.text != ";"]


def _included(attributes: Sequence[Tokens], path: Path) -> str:
    """Return the text of `#[doc = include_str!("FILE")]`, empty without one."""
    for words in attributes:
        if words[0].text == "doc" and words[2].text == "include_str!":
            file = ast.literal_eval(words[3].group[0].text)
            return (path.parent / file).read_text("utf-8").rstrip("\n")
    return ""
