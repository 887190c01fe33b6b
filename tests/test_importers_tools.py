"""The table of tools in the manual: each file is read, and has the answer that the table gives."""

import re
from pathlib import Path

import pytest

from harness.cli.main import main

ROOT = Path(__file__).parents[1]
FILES = ROOT / "tests/importers"
MANUAL = (ROOT / "docs/imported-histories.md").read_text()
ROWS = re.findall(
    r"^\| (.+?) \| .+? \| `(\S+) (--model .+?)` \| (VALID|INVALID|refused|not read)(?:: .+)? \|$",
    MANUAL.split("\n## Tools\n")[1].split("\n## ")[0],
    re.M,
)
STATUS = {"VALID": 0, "INVALID": 1, "refused": 254, "not read": 254}


def test_the_table_names_every_file_that_was_made_for_it() -> None:
    made = {
        path.relative_to(FILES).parts[1] for path in (FILES / "tools").rglob("*") if path.is_file()
    }
    assert made == {Path(name).parts[1] for _, name, *_ in ROWS if name.startswith("tools/")}
    assert len(ROWS) == 24


@pytest.mark.parametrize(("tool", "name", "arguments", "answer"), ROWS)
def test_a_tools_file_has_this_answer(
    tool: str,
    name: str,
    arguments: str,
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setattr("sys.argv", ["harness", "check", name, *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == STATUS[answer]
    if answer == "refused":
        assert "a binary store, which only Jepsen reads" in printed.err
    elif answer == "not read":
        assert "give the directory" in " ".join(printed.out.split())
    else:
        assert f"{answer}: 1 file" in printed.out
