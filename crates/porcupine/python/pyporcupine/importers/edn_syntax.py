"""The syntax of EDN: its tokens, and values built from them without recursion in linear time.

Values are plain. A keyword is a text with its colon (":a"), a symbol or a character is a text, a
vector, a list and a set are lists (a set of numbers or texts is sorted), a ratio is a text. A tag
says nothing here: #jepsen.history.Op{…} is the map.
"""

import math
import re
from typing import Any, Final

from pyporcupine.bounded_json import MAX_DEPTH, MAX_DIGITS, OutOfBoundsError, check_size

FORM_BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum length of one form in characters; a line of JSON has the same limit in bytes."""

# A text does not go on over a line on which a map of a history begins: its quote was forgotten.
TOKEN: Final = re.compile(
    r"""(?P<space>[\s,]++)
    | (?P<atom>[^\s,;"(){}\[\]\\#][^\s,;"(){}\[\]\\]*+|\#\#[^\s,;"(){}\[\]\\]++)
    | (?P<text>"(?:[^"\\\n]++|\\.|\n(?![ \t,]*+(?:\#[\w./-]++)?\{:))*+")
    | (?P<open>\#?\{|[(\[]) | (?P<close>[)}\]]) | (?P<comment>;[^\n]*+) | (?P<discard>\#_)
    | (?P<tag>\#(?:[A-Za-z:][^\s,;"(){}\[\]\\]*+|(?=")))
    | (?P<char>\\(?:u[\da-fA-F]{4}|o[0-7]{1,3}|[a-z]++|.)) | (?P<odd>.)""",
    re.X | re.S,
)
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_NAMED: Final[dict[str, Any]] = {
    "nil": None, "true": True, "false": False,
    "##Inf": math.inf, "##-Inf": -math.inf, "##NaN": math.nan,
}  # fmt: skip
_INT: Final = re.compile(r"[+-]?[0-9]+N?")
_FLOAT: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")
_OTHER_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+/[0-9]+|0[xX][0-9a-fA-F]+)")
_NUMBER_BEGINS: Final = re.compile(r"[+-]?[0-9]")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_ESCAPED: Final = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CHARS: Final = {
    "newline": "\n", "space": " ", "tab": "\t", "return": "\r", "backspace": "\b", "formfeed": "\f",
}  # fmt: skip
_CODE: Final = re.compile(r"u([\da-fA-F]{4})|o([0-7]{1,3})")
_DISCARD: Final = object()


class Builder:
    """Builds values from tokens. It reports the first error only when `values` is called, so that a
    caller that looks for the end of a form can read past the error."""

    __slots__ = ("_closers", "_error", "_items", "_outer", "_tagged")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._outer: list[list[Any]] = []
        self._closers: list[str] = []
        self._tagged = False
        self._error: ValueError | None = None

    def feed(self, kind: str | None, text: str) -> None:
        """Take one token. The caller may leave out spaces and comments."""
        if self._error is None:
            try:
                self._take(kind, text)
            except ValueError as error:
                self._error = error

    def refuse(self, error: ValueError) -> None:
        """Record an error and take no more tokens."""
        self._error = self._error or error

    @property
    def out_of_bounds(self) -> bool:
        """Return whether the form exceeds a bound, so that the rest of it need not be read."""
        return isinstance(self._error, OutOfBoundsError)

    def values(self) -> list[Any]:
        """Return the values. Raises ValueError."""
        if self._error is None and self._closers:
            self._error = ValueError(f"{self._closers[-1]!r} is missing at the end")
        if self._error is None and self._unfinished():
            self._error = ValueError("nothing follows the last # or tag")
        if self._error is not None:
            raise self._error
        return self._items

    def _take(self, kind: str | None, text: str) -> None:
        value: Any
        match kind:
            case "atom":
                value = _NAMED[text] if text in _NAMED else _atom(text)
            case "open":
                if len(self._outer) == MAX_DEPTH:
                    raise OutOfBoundsError(f"it is nested more than {MAX_DEPTH} deep")
                self._outer.append(self._items)
                self._closers.append(_CLOSES[text] if text != "#{" else "#}")
                self._items, self._tagged = [], False
                return
            case "close":
                value = self._closed(text)
            case "text":
                value = _text(text)
            case "char":
                value = _char(text[1:])
            case "tag":
                self._tagged = True
                return
            case "discard":
                self._items.append(_DISCARD)
                return
            case "odd":
                quote = "a quote is not closed" if text == '"' else f"{text!r} is not expected"
                raise ValueError(quote)
            case _:
                return
        self._tagged = False
        if self._items and self._items[-1] is _DISCARD:
            self._items.pop()
        else:
            self._items.append(value)

    @property
    def complete(self) -> bool:
        """Return whether every bracket is closed and every tag has its value, or an error was
        found."""
        return self._error is not None or not (self._closers or self._unfinished())

    def _unfinished(self) -> bool:
        return self._tagged or bool(self._items and self._items[-1] is _DISCARD)

    def _closed(self, text: str) -> Any:
        if not self._closers:
            raise ValueError(f"{text!r} closes nothing")
        closer = self._closers.pop()
        if text != closer[-1]:
            raise ValueError(f"{text!r} is there, expected {closer[-1]!r}")
        if self._unfinished():
            raise ValueError(f"{text!r} follows a # or tag, expected a value")
        items, self._items = self._items, self._outer.pop()
        if closer == "}":
            return _map(items)
        return _sorted(items) if closer == "#}" else items


def values_of(text: str) -> list[Any]:
    """Return the values in a text, in order. Raises ValueError."""
    check_size(len(text), FORM_BYTES_MAX)
    builder = Builder()
    for token in TOKEN.finditer(text):
        builder.feed(token.lastgroup, token[0])
    return builder.values()


def integer(digits: str) -> int:
    """Return a whole number. Raises ValueError."""
    if len(digits) > MAX_DIGITS:
        raise OutOfBoundsError(
            f"a number has {len(digits):,} digits, expected at most {MAX_DIGITS:,}"
        )
    return int(digits)


def _atom(text: str) -> int | float | str:
    if not _NUMBER_BEGINS.match(text):
        return text
    if _INT.fullmatch(text):
        return integer(text.removesuffix("N"))
    if _FLOAT.fullmatch(text):
        value = float(text.removesuffix("M"))
        if math.isinf(value):
            raise OutOfBoundsError(f"{text[:40]} is more than a floating-point number can be")
        return value
    if _OTHER_NUMBER.fullmatch(text):
        return text
    raise ValueError(f"{text[:40]!r} is not a number")


def _text(literal: str) -> str:
    if "\\" not in literal:
        return literal[1:-1]
    text = _ESCAPE.sub(_unescaped, literal[1:-1])
    if "\\u" in literal:  # two escapes may be one character; half of one is none
        try:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise ValueError(f"{literal[:40]} has half of a pair of surrogates") from None
    return text


def _unescaped(escape: re.Match[str]) -> str:
    text = escape[1]
    if len(text) == 5:
        return chr(int(text[1:], 16))
    if text not in _ESCAPED:
        raise ValueError(f"{escape[0]!r} is not an escape of a text")
    return _ESCAPED[text]


def _char(name: str) -> str:
    if len(name) == 1:
        return name
    if name in _CHARS:
        return _CHARS[name]
    if code := _CODE.fullmatch(name):
        text = chr(int(code[1], 16) if code[1] else int(code[2], 8))
        if "\ud800" <= text <= "\udfff":
            raise ValueError(f"{name} is half of a pair of surrogates, which is not a character")
        return text
    raise ValueError(f"'\\\\{name[:40]}' is not a character")


def _map(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError(f"a map has {len(items)} forms, expected keys and values in pairs")
    keys = [key if isinstance(key, str) else _hashable(key) for key in items[::2]]
    made = dict(zip(keys, items[1::2], strict=True))
    if 2 * len(made) < len(items):
        raise ValueError("a map has one key twice")
    return made


def _hashable(key: Any) -> Any:
    return repr(key) if isinstance(key, list | dict) else key


def _sorted(items: list[Any]) -> list[Any]:
    if all(isinstance(item, int) for item in items) or all(isinstance(i, str) for i in items):
        return sorted(items)
    return items
