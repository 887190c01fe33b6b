"""The statements of a run that kept none: what its workload would send for the calls of its
history. Runs of simulated servers keep none, and neither do those of earlier versions."""

from collections.abc import Sequence
from typing import Final

from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.op import NEMESIS, Call, Kind
from harness.export.errors import NotExportableError
from harness.export.silent_cluster import StatementsOfCalls
from harness.spec.workload_options import workload_of
from harness.store.run_info import RunInfo
from harness.store.statement_file import OpStatement

_NAME: Final = "run"
"""Stands for the token in the names of the run's databases, which is not known."""


def derived_statements(info: RunInfo, history: History) -> Sequence[OpStatement]:
    """Return the statements, without query ids; calls that are no statements are left out. Raises
    UsageError for a workload that makes none."""
    workload = workload_of(info.spec)
    try:
        statements = StatementsOfCalls(workload, info.topology, info.engines, _NAME)
    except NotExportableError as error:
        raise UsageError(
            f"workload {info.spec.workload}: its statements are not known: {error}"
        ) from None
    found = [OpStatement(None, "", one) for one in statements.setup]
    for op in history:
        if op.kind is not Kind.INVOKE or op.process == NEMESIS or op.node is None:
            continue
        call = Call(f=op.f, value=op.value, key=op.key, node=op.node)
        try:
            found += [OpStatement(op.index, "", one) for one in statements.of(call)]
        except NotExportableError:
            continue  # such as a look at ZooKeeper
    statements.close()
    return found
