"""What is told of a compose tool that fails."""

import pytest

from harness.clusters.compose_tool import last_words

TRACEBACK = """Creating network "harness" ...
Traceback (most recent call last):
  File "client.py", line 221, in version
    raise DockerException(
docker.errors.DockerException: Error while fetching server API version: Connection refused
"""


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("", ""),
        ("no such image\n", "no such image"),
        ("\n".join(f"line {n}" for n in range(12)), "\n".join(f"line {n}" for n in range(2, 12))),
        (
            TRACEBACK,
            "docker.errors.DockerException: "
            "Error while fetching server API version: Connection refused",
        ),
    ],
    ids=["nothing", "a line", "the last ten lines", "of a traceback its last line"],
)
def test_the_last_words_of_the_tool_are_told(output: str, told: str) -> None:
    assert last_words(output) == told
