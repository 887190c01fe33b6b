"""Objects in a bucket: the listing and the removal."""

import xml.etree.ElementTree as ET
from typing import Final
from urllib.parse import quote

from harness.clusters.parallel import on_each
from harness.core.bucket import Bucket
from harness.core.connections import QueryError, StoreChannel
from harness.core.outcomes import NETWORK

OBJECTS_MAX: Final = 1_000_000
"""Number of objects after which a listing is given up. A run makes some thousands."""
_BATCH: Final = 16
"""Number of objects that are deleted at the same time."""


def object_sizes(channel: StoreChannel) -> dict[str, int]:
    """Return the size of every object below the bucket's prefix by its key. Raises QueryError.

    An object that exists during the whole call is listed: pages are in the order of the keys, and
    each begins after the last key of the one before.
    """
    found: dict[str, int] = {}
    last = ""
    while True:
        status, text = channel.request("GET", listing_path(channel.bucket, last))
        if status != 200:
            raise QueryError(NETWORK, f"the object store answers {status}: {text[:200]}")
        page, more = listing(text)
        found |= page
        if not more:
            return found
        if len(found) > OBJECTS_MAX or max(page, default="") <= last:
            raise QueryError(
                NETWORK,
                f"the object store lists objects without end: {len(found):,} up to {last!r}",
            )
        last = max(page)


def object_path(bucket: Bucket, key: str) -> str:
    """Return the path of an object on its store."""
    return f"/{bucket.name}/{quote(key)}"


def remove_objects(channel: StoreChannel) -> int:
    """Delete every object below the bucket's prefix and return their number. Raises QueryError."""
    assert channel.bucket.prefix, "a whole bucket is never emptied"

    def delete(key: str) -> None:
        status, text = channel.request("DELETE", object_path(channel.bucket, key))
        if status not in (200, 204, 404):
            raise QueryError(NETWORK, f"the object store answers {status}: {text[:200]}")

    removed: set[str] = set()
    # Again until nothing is listed: a server that was killed may have sent one more object.
    while keys := [*object_sizes(channel)]:
        kept = removed.intersection(keys)
        if len(removed) > OBJECTS_MAX:
            raise QueryError(
                NETWORK, f"the object store lists others than {len(removed):,} removed"
            )
        if kept:
            raise QueryError(NETWORK, f"the object store still lists {min(kept)}, which it deleted")
        for at in range(0, len(keys), _BATCH):
            on_each(keys[at : at + _BATCH], delete)
        removed.update(keys)
    return len(removed)


def listing_path(bucket: Bucket, after: str = "") -> str:
    """Return the path of a page of the listing: the keys after this one."""
    prefix = f"prefix={quote(bucket.prefix, safe='')}&" if bucket.prefix else ""
    return f"/{bucket.name}?list-type=2&{prefix}start-after={quote(after, safe='')}"


def listing(text: str) -> tuple[dict[str, int], bool]:
    """Return the sizes by key of one page of a listing, and whether there are more pages. Raises
    QueryError."""
    try:
        root = ET.fromstring(text)  # noqa: S314 # from the cluster's own store, or the user's
    except ET.ParseError as error:
        raise QueryError(NETWORK, f"the object store lists no XML: {error}") from error
    if root.tag.rpartition("}")[2] != "ListBucketResult":
        raise QueryError(NETWORK, f"the object store lists no objects, but {text[:200]!r}")
    entries = root.findall("{*}Contents")
    try:
        sizes = {e.findtext("{*}Key", ""): int(e.findtext("{*}Size", "0")) for e in entries}
    except ValueError as error:
        raise QueryError(NETWORK, f"the object store lists a size that is none: {error}") from error
    return sizes, root.findtext("{*}IsTruncated") == "true"
