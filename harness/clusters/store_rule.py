"""The rule by which an object store fails, see compose/images/object-store/store_faults.py."""

import json
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException
from typing import Final

from harness.clusters.http_answer import exchange
from harness.core.capabilities import CanDegradeStore
from harness.core.errors import ClusterError
from harness.core.op import Json
from harness.core.protocols import Endpoint

_PATH: Final = "/-/rule"
_ANSWER_S: Final = 3.0


class StoreRules(CanDegradeStore):
    """Rule of the object store of one cluster."""

    def __init__(self, endpoint: Callable[[], Endpoint]) -> None:
        self._endpoint = endpoint

    def set_store_rule(self, rule: Mapping[str, Json]) -> None:
        _exchange_rule(self._endpoint(), rule)

    def store_rule(self) -> Mapping[str, Json]:
        return _exchange_rule(self._endpoint())


def _exchange_rule(
    endpoint: Endpoint, rule: Mapping[str, Json] | None = None
) -> Mapping[str, Json]:
    """Set the rule, unless it is None, and return the store's state.

    Raises ClusterError if the store does not answer, such as one that is paused, or has no faults,
    such as another S3 server.
    """
    method, body = ("GET", None) if rule is None else ("PUT", json.dumps(dict(rule)))
    connection = HTTPConnection(endpoint.host, endpoint.port, timeout=_ANSWER_S)
    try:
        status, text = exchange(connection, _ANSWER_S, method, _PATH, body)
    except (OSError, HTTPException) as error:
        raise ClusterError(f"the object store does not answer: {error}") from error
    if status != 200:
        raise ClusterError(f"the object store answers {status} at {_PATH}: {text[:200]}")
    state = json.loads(text)
    assert isinstance(state, Mapping), "the store's state is an object"
    return state
