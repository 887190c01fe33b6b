class QueryRuntimeException(Exception): ...  # noqa: N818 # its name upstream
class QueryTimeoutExceedException(Exception): ...  # noqa: N818 # its name upstream
