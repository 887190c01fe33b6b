"""The protocols of two server versions, for tests of trace conformance."""

from harness.conform.protocol import protocol_of
from harness.core.dialect import Version, dialect_of

V18 = protocol_of(dialect_of(Version(18, 16, 1)))
V25 = protocol_of(dialect_of(Version(25, 8, 2)))
