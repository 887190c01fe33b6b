"""What a process of ours does first that works beside its parent."""

import os
import signal
import threading
import time


def settle(parent: int) -> None:
    """Leaves what a terminal signals to its parent, of this process id, and ends when that has
    ended, also of SIGKILL: within two seconds."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()
