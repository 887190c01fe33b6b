"""Connections to the server, none of which may stay open idle."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S: Final = 10.0
"""Seconds within which a request must be complete, counted from the connection or the last
answer."""
STALLED_S: Final = 60.0
"""Seconds for which a client may accept no bytes of an answer."""
CONNECTIONS_MAX: Final = 128


class BoundedProtocol(H11Protocol):
    """HTTP with deadlines for an incomplete request and for an answer that the client does not
    read.

    uvicorn itself waits for the rest of a request for ever, and its limit of concurrency counts
    an open connection but closes none.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting_since = 0.0

    @property
    def waiting(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set the request's deadline; above the limit, close the connection that has waited longest
        for a request."""
        super().connection_made(transport)
        self._expect()
        if len(self.connections) > CONNECTIONS_MAX:
            own = [one for one in self.connections if isinstance(one, BoundedProtocol)]
            idle = [one for one in own if one.waiting and not one.transport.is_closing()]
            min(idle, key=lambda one: one._waiting_since, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Remove the deadline once the request is complete."""
        super().data_received(data)
        if not self.waiting:
            self._allow(None)

    def on_response_complete(self) -> None:
        """Set the deadline of the next request."""
        super().on_response_complete()
        if self.waiting:
            self._expect()

    def pause_writing(self) -> None:
        """Set the deadline of a client that does not accept data."""
        super().pause_writing()
        self._allow(STALLED_S)

    def resume_writing(self) -> None:
        """Remove the deadline: the client accepts data again."""
        super().resume_writing()
        self._allow(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the deadline of a closed connection."""
        self._allow(None)
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._waiting_since = self.loop.time()
        self._allow(REQUEST_S)

    def _allow(self, seconds: float | None) -> None:
        """Replace the deadline: close the connection after this time; None removes the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)
