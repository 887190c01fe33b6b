"""Locks are in a directory of the user's own, and no link is followed on the way to one."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest
from real_servers import wait_until

from harness.clusters.own_directory import locked, own_directory
from harness.core.errors import HarnessError

HOLDER = """
import sys
from harness.clusters.own_directory import locked
with locked("images"):
    print("held", flush=True)
    sys.stdin.read()
print("over", flush=True)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path / "cache"


def test_it_is_made_for_this_user_alone(cache: Path) -> None:
    assert own_directory() == cache / "harness"
    assert own_directory().stat().st_mode & 0o777 == 0o700
    with locked("images"):
        assert (cache / "harness" / "images.lock").stat().st_mode & 0o777 == 0o600


def test_it_is_in_the_home_unless_another_cache_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert own_directory() == tmp_path / ".cache" / "harness"


def test_without_a_home_it_is_where_the_session_has_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "session"))
    assert own_directory() == tmp_path / "session" / "harness"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(HarnessError, match=r"no directory for locks: .*file/cache.*XDG_CACHE_HOME"):
        own_directory()


def test_a_link_in_its_place_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cache.mkdir()
    (cache / "harness").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match="cache/harness: is a link; expected a directory of y"):
        own_directory()


def test_one_that_others_may_write_to_is_refused(cache: Path) -> None:
    own_directory().chmod(0o777)
    with pytest.raises(HarnessError, match=r"may be written to by others \(mode 0777\)"):
        own_directory()


def test_one_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = own_directory().stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(HarnessError, match=f"belongs to user {mine}"):
        own_directory()


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(
    cache: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (own_directory() / "images.lock").symlink_to(victim)
    with pytest.raises(HarnessError, match=r"images\.lock: cannot be opened"), locked("images"):
        pass
    assert victim.read_text() == "precious"


def test_a_second_process_waits_for_the_first(cache: Path) -> None:
    begun = partial(
        subprocess.Popen, [sys.executable, "-c", HOLDER], stdin=PIPE, stdout=PIPE, text=True
    )
    with begun() as holder:
        assert holder.stdout.readline() == "held\n"
        with begun() as waiter:
            waits = re.compile(rf"-> FLOCK +ADVISORY +WRITE +{waiter.pid} ")
            wait_until(
                lambda: bool(waits.search(Path("/proc/locks").read_text())), "the second waits"
            )
            assert holder.communicate()[0] == "over\n"
            assert waiter.communicate()[0] == "held\nover\n"
