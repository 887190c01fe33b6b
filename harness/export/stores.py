"""The object store of a reproduction, what is asked of it at rest, and the proxy before it where
requests of the replicas fail: a file of Python, in a container of its own."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import msgspec

from compose.plan import PORTS
from harness.core.bucket import OWN_BUCKET
from harness.core.op import Json
from harness.core.topology import Role
from harness.export.errors import NotExportableError
from nemesis.store import VARIANTS

FILE: Final = "store_proxy.py"
PROXY: Final = "store-proxy"
"""Name of the proxy among the servers."""
_PLANNED: Final = ("share", "methods", "delay_s", "seed")
"""Words of a plan that belong to its rule."""
_DONE: Final[Mapping[str, str]] = {
    "refuse": "answers 503 to {}, and does nothing",
    "close": "ends the connection without an answer to {}, and does nothing",
    "hang": "neither does nor answers {}",
    "lose": "forwards {}, and ends the connection without an answer",
    "delay": "forwards {}, and answers {delay_s:g} s late",
}
_ENDPOINT: Final = re.compile(r"(<endpoint>http://)\w+:")


def is_of_store(f: str) -> bool:
    """Return whether a family of faults is made by the proxy before the store."""
    return f in VARIANTS


def store_rule(f: str, plan: Mapping[str, Json]) -> str:
    """Return the rule of a fault as JSON."""
    planned = {word: plan[word] for word in _PLANNED if word in plan}
    return msgspec.json.encode({"name": f, **VARIANTS[f][1], **planned}).decode()


def store_rule_text(rule: str) -> str:
    """Return a rule for a reader."""
    words = msgspec.json.decode(rule)
    methods, share = words.get("methods"), words.get("share", 1)
    which = f"{' and '.join(methods)} requests" if methods else "requests"
    which = f"each of the {which}" if share == 1 else f"{share:.0%} of the {which}"
    return f"{FILE} {_DONE[words['do']].format(which, delay_s=words.get('delay_s', 0))}"


def store_proxy_text(main: str) -> str:
    """Return the file of the proxy: the store's faults, and what makes them serve on their own."""
    faults = files("compose") / "images" / "object-store" / "store_faults.py"
    return f"{faults.read_text('utf-8')}\n\n{main}"


def behind_the_proxy(config: str) -> str:
    """Return a replica's configuration with the proxy in place of the store."""
    return _ENDPOINT.sub(rf"\g<1>{PROXY}:", config)


def listed_objects(store: str) -> str:
    """Return the query for the key and the size of each object of the store."""
    url = f"http://{store}:{PORTS[Role.STORE]}/{OWN_BUCKET}"
    return (
        f"SELECT substring(_path, {len(OWN_BUCKET) + 2}), _size FROM "
        f"s3('{url}/**', '{OWN_BUCKET}', '{OWN_BUCKET}', 'One') ORDER BY 1"
    )


def referred_objects(database: str) -> str:
    """Return the query for the objects to which the files of a database's table refer on one
    replica: part, file and key. Files that are in no part have "-" for a part. Raises
    NotExportableError for a name that is none of a database."""
    if not database.isidentifier():
        raise NotExportableError(f"database {database}: expected letters, digits, underscores")
    return (
        "WITH ifNull((SELECT concat('/', toString(any(uuid)), '/') FROM system.tables "
        f"WHERE database = '{database}' AND name = 't'), '') AS directory, "
        "splitByChar('/', splitByString(directory, local_path)[2]) AS below "
        "SELECT if(length(below) = 2, below[1], '-'), below[-1], remote_path "
        "FROM system.remote_data_paths WHERE position(local_path, directory) > 0 ORDER BY 1, 2, 3"
    )
