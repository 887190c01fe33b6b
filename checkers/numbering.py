"""Numbers that calls are given, which increase with real time."""

from collections.abc import Iterator, Sequence


def overtaken(
    begins_ns: Sequence[int],
    acks_ns: Sequence[int],
    groups: Sequence[object],
    numbers: Sequence[int],
) -> Iterator[tuple[int, int]]:
    """Yield the positions of two calls, the first of which was acknowledged before the second
    began and has the greater number: of each such second call, in order of their begins, the first
    call with the greatest number.

    The calls are in order of their begins. Each has the time of its acknowledgement, far in the
    future if there is none, and a number; only numbers of one group are compared.
    """
    acks = sorted(range(len(acks_ns)), key=acks_ns.__getitem__)
    done = 0
    highest: dict[object, int] = {}
    for at, group in enumerate(groups):
        while done < len(acks) and acks_ns[acks[done]] < begins_ns[at]:
            ack = acks[done]
            known = highest.get(groups[ack])
            if known is None or numbers[ack] > numbers[known]:
                highest[groups[ack]] = ack
            done += 1
        before = highest.get(group)
        if before is not None and numbers[before] > numbers[at]:
            yield before, at
