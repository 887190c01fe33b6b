"""The table of findings: how a shell recognizes each, and what was promised.

A rule is a program of awk that reads the calls of a reproduction, a line each with tabs between the
fields (`templates/reproduce.sh.j2`), and prints a sentence for each violation:

    begin  NUMBER  CLIENT  NODE  F  KEY  VALUES
    end    NUMBER  CLIENT  NODE  F  KEY  VALUES  ok|error  ANSWER
    row    NODE  PARTITION  TABLE  ID  COPIES        rows PARTITION of NODE's tables at the end:
                                                     their number, or what they contain
    looked NODE  PARTITION                           they were all read
    old    KEY                                       an object that was there before the script
    object KEY  BYTES                                an object at rest; there are two listings
    refers NODE  PART  FILE  KEY                     a file's object, between the two; a file
                                                     that is in no part has "-" for a part

It says of a script's few calls what the checkers of the harness say of long histories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.clients.sent_statement import SentStatement
from harness.export.errors import NotExportableError
from workloads.scenarios.scenario import Finding, Held

MANUAL: Final = "https://clickhouse.com/docs/"
_SEQUENTIAL: Final = "operations/settings/settings#select_sequential_consistency"
_REPLICATION: Final = "engines/table-engines/mergetree-family/replication"
_ZERO_COPY: Final = "operations/storing-data#zero-copy"
_SHARED: Final = (
    "With zero-copy replication a replica gets the metadata of a part, and its files refer to the "
    "same objects. The manual calls this not ready for production, and says nothing of what faults "
    "leave behind"
)
_CONSISTENT: Final = (
    "With select_sequential_consistency a SELECT runs only on a replica that has the data of all "
    "earlier INSERTs with insert_quorum; otherwise it gets an exception. Without these settings "
    "replication is asynchronous."
)

_ASYNCHRONOUS: Final = (
    "Nothing: without insert_quorum and select_sequential_consistency replication is asynchronous, "
    "and a client may read at one replica an older state than at another."
)
_SYNCED: Final = (
    "A SELECT after SYSTEM SYNC REPLICA returns what was acknowledged before, for that statement "
    "waits until the replica has executed what the replication log had."
)

_READS: Final = r"""
function has(list, value) { return index(" " list " ", " " value " ") > 0 }
$1 == "begin" { began[$2] = NR; if ($5 == "insert-many") many[$2] = $7; next }
$1 == "end" && $8 == "error" { session[$3]++ }
$1 == "end" && $8 == "ok" && $5 ~ /^(final-)?insert/ {
  count = split($7, values, " ")
  for (i = 1; i <= count; i++) {
    n++; value[n] = values[i]; key[n] = $6; acked[n] = NR; by[n] = $3 "." session[$3]
    at[n] = $4; from[n] = began[$2]; of[n] = $2
  }
}
function is_read() { return $1 == "end" && $8 == "ok" && $5 ~ /read$/ }
function is_final() { return $1 == "end" && $5 ~ /^final-/ }
"""
"""Functions and tables of every rule about inserts and reads."""
_AWK: Final[Mapping[str, str]] = {
    "stale": r"""
is_read() {
  for (i = 1; i <= n; i++)
    if (key[i] == $6 && acked[i] < began[$2] && !has($9, value[i]))
      print "call " $2 " on " $4 " did not return " value[i] ", which " at[i] \
        " had acknowledged before (call " of[i] ")"
}""",
    "read-your-writes": r"""
is_read() {
  for (i = 1; i <= n; i++)
    if (key[i] == $6 && by[i] == $3 "." session[$3] && acked[i] < began[$2] && !has($9, value[i]))
      print "client " $3 " did not read " value[i] " on " $4 " (call " $2 \
        "), which was acknowledged to it by " at[i] " (call " of[i] ")"
}""",
    "monotonic-writes": r"""
is_read() {
  for (i = 1; i <= n; i++)
    for (j = 1; j <= n; j++)
      if (key[i] == $6 && key[j] == $6 && by[i] == by[j] && acked[i] < from[j] \
          && has($9, value[j]) && !has($9, value[i]))
        print "call " $2 " on " $4 " returned " value[j] " without " value[i] \
          ", which the same client had written before (calls " of[j] ", " of[i] ")"
}""",
    "monotonic-reads": r"""
is_read() {
  who = $3 "." session[$3] "/" $6
  count = split(seen[who], values, " ")
  for (i = 1; i <= count; i++)
    if (!has($9, values[i]))
      print "client " $3 " had read " values[i] " before, and call " $2 " on " $4 " lacks it"
  seen[who] = $9
}""",
    "incomparable": r"""
is_read() {
  reads++; shown[reads] = $9; of_key[reads] = $6; by_call[reads] = "call " $2 " on " $4
}
END {
  for (a = 1; a <= reads; a++)
    for (b = a + 1; b <= reads; b++) {
      if (of_key[a] != of_key[b]) continue
      only_a = first_without(shown[a], shown[b]); only_b = first_without(shown[b], shown[a])
      if (only_a != "" && only_b != "")
        print by_call[a] " returned " only_a " without " only_b ", and " by_call[b] " returned " \
          only_b " without " only_a
    }
}
function first_without(list, other,   values, count, i) {
  count = split(list, values, " ")
  for (i = 1; i <= count; i++) if (!has(other, values[i])) return values[i]
  return ""
}""",
    "lost": r"""
is_read() && is_final() { looks[$6]++; last[$6] = last[$6] " " $9 }
END {
  for (i = 1; i <= n; i++)
    if (looks[key[i]] && !has(last[key[i]], value[i]))
      print at[i] " acknowledged " value[i] " (call " of[i] "), and no replica returns it"
}""",
    "duplicate": r"""
is_read() {
  count = split($9, values, " ")
  for (i = 1; i <= count; i++)
    if (twice[$2, values[i]]++ == 1)
      print "call " $2 " on " $4 " returned " values[i] " more than once"
}""",
    "diverged": r"""
is_read() && is_final() { shows[$6, $4] = $9 }
END {
  for (a in shows) {
    split(a, one, SUBSEP)
    count = split(shows[a], values, " ")
    for (b in shows) {
      split(b, other, SUBSEP)
      for (i = 1; one[1] == other[1] && i <= count; i++)
        if (!has(shows[b], values[i]))
          print one[2] " returns " values[i] " of key " one[1] " and " other[2] " does not"
    }
  }
}""",
    "unanswered": r"""
is_final() {
  call = $5 " of key " $6 " on " $4
  asked[call] = $9
  if ($8 == "ok") good[call] = 1
}
END { for (call in asked) if (!good[call]) print call ": " substr(asked[call], 1, 300) }""",
    "torn": r"""
is_read() {
  for (m in many) {
    count = split(many[m], values, " ")
    got = 0
    for (i = 1; i <= count; i++) got += has($9, values[i])
    if (got && got < count) print "call " $2 " on " $4 " returned " got " of the " count \
      " rows of one INSERT (call " m ")"
  }
}""",
    "half": r"""
is_read() && is_final() {
  for (m in many) {
    count = split(many[m], values, " ")
    got = 0
    for (i = 1; i <= count; i++) got += has($9, values[i])
    if (got && got < count) print $4 " has " got " of the " count " rows of one INSERT (call " m \
      ") for good"
  }
}""",
    "rows": r"""
$1 == "allowed" { allowed[$2, $3] = allowed[$2, $3] " or " $4; may[$2, $3, $4] = 1 }
$1 == "looked" { looked[$2, $3] = 1 }
$1 == "row" { shown[$2, $3, $5] = shown[$2, $3, $5] " " $4 "=" $6 }
END {
  for (place in looked) {
    split(place, at, SUBSEP)
    for (row in allowed) {
      split(row, of, SUBSEP)
      if (of[1] != at[2]) continue
      now = substr(shown[at[1], of[1], of[2]], 2)
      if (now == "") now = "nothing"
      if (!((of[1], of[2], now) in may))
        print "row " of[2] " of partition " of[1] ": " at[1] " shows " now \
          "; the statements, each of which was acknowledged, leave" substr(allowed[row], 4)
    }
  }
}""",
    "orphan": r"""
$1 == "old" { old[$2] = 1 }
$1 == "object" { listed[$2]++; bytes[$2] = $3 }
$1 == "refers" { used[$5] = 1 }
END {
  for (key in listed)
    if (listed[key] == 2 && !(key in old) && !(key in used))
      print "no file of any replica refers to " key ", an object of " bytes[key] " bytes"
}""",
    "copied": r"""
$1 == "refers" && $3 != "-" {
  objects[$3 "/" $4, $2] = objects[$3 "/" $4, $2] " " $5
}
END {
  for (place in objects) {
    split(place, of, SUBSEP)
    if (!(of[1] in node)) { node[of[1]] = of[2]; continue }
    one = objects[of[1], node[of[1]]]
    if (one != objects[place])
      print "file " of[1] " is stored twice: as" one " for " node[of[1]] " and as" \
        objects[place] " for " of[2]
  }
}""",
}


@dataclass(frozen=True, slots=True)
class FindingRule:
    """How a shell recognizes a finding."""

    name: str
    """Program of `_AWK`."""
    promise: str = ""
    """What was promised; "": it follows from the statements."""
    page: str = ""
    """Page of ClickHouse's manual."""
    shows_content: bool = False
    """Whether it shows in what rows contain, not in how many there are."""

    @property
    def awk(self) -> str:
        """Return the program."""
        needs_reads = self.name != "rows" and not self.judges_objects
        return (_READS if needs_reads else "") + _AWK[self.name]

    @property
    def judges_objects(self) -> bool:
        """Return whether it judges the objects of a store, and no reads."""
        return self.name in ("orphan", "copied")

    @property
    def judged_at_rest(self) -> bool:
        """Return whether a violation is one only if all calls were made as planned, and every
        replica has come to rest and answered."""
        return self.name in ("lost", "diverged", "half", "rows", "orphan", "copied")

    @property
    def link(self) -> str:
        """Return the address of the page."""
        return MANUAL + self.page


_OBJECTS: Final[Mapping[str, FindingRule]] = {
    "orphan": FindingRule(
        "orphan",
        f"{_SHARED}; an object to which no file refers is of no use, and nothing removes it.",
        _ZERO_COPY,
    ),
    "copied": FindingRule(
        "copied", f"{_SHARED}; here the replicas store the same part twice.", _ZERO_COPY
    ),
    "lost": FindingRule(
        "lost",
        "An INSERT that was acknowledged is stored, and a SELECT returns its rows in the end. The "
        "manual calls zero-copy replication not ready for production.",
        _ZERO_COPY,
    ),
}
"""Rules of the findings about an object store."""
STATEMENT_ROWS: Final = "statement-rows"
_HOLDING_BACK: Final = (
    "sql-reference/statements/system#start",
    "sql-reference/statements/system#stop",
)
"""Pages of statements that only hold a replica back, which no finding is about."""
_OF_CONTENT: Final = frozenset({"strayed", "undone", "changed"})
"""Kinds of statement-rows that show in what rows contain, whatever the statements are."""
_UPDATES: Final = "arrayPushBack"
"""Function in each statement that changes rows, so that also a stale copy may show in what they
contain."""
_RULES: Final[Mapping[tuple[str, str], FindingRule]] = {
    ("set-full", "stale"): FindingRule("stale"),
    ("set-full", "lost"): FindingRule(
        "lost",
        "An INSERT that was acknowledged is stored, and a SELECT returns its rows in the end.",
        _REPLICATION,
    ),
    ("set-full", "duplicate"): FindingRule(
        "duplicate",
        "A block that is inserted again, because the outcome was unknown, is stored once.",
        _REPLICATION,
    ),
    ("read-your-writes", "read-your-writes"): FindingRule("read-your-writes"),
    ("monotonic-reads", "monotonic-reads"): FindingRule("monotonic-reads"),
    ("monotonic-writes", "monotonic-writes"): FindingRule("monotonic-writes"),
    ("sequential", "cycle"): FindingRule("incomparable"),
    ("convergence", "diverged"): FindingRule(
        "diverged", "Replicas at rest have the same rows.", _REPLICATION
    ),
    ("answers", "unanswered"): FindingRule(
        "unanswered",
        "When every fault has ended, a SELECT on each replica is answered, and so is an INSERT.",
        _REPLICATION,
    ),
    ("atomic", "torn"): FindingRule(
        "torn",
        "An INSERT is atomic within one block of one partition alone. Nobody promises more.",
        "guides/developer/transactional",
    ),
    ("atomic", "half"): FindingRule(
        "half",
        "An INSERT is atomic within one block of one partition alone. Nobody promises more.",
        "guides/developer/transactional",
    ),
}


def rule_of(
    finding: Finding | Held, pages: Sequence[tuple[str, str]], sent: Sequence[SentStatement]
) -> FindingRule:
    """Return the rule of a finding, and what was promised of the statements that a script sends;
    `pages` are pages of the manual, each with what a statement does by it, in the order of the
    script. Raises NotExportableError."""
    if isinstance(finding, Finding):
        if finding.checker == STATEMENT_ROWS:
            promise = (
                "By the manual the statements of the script do this, each kind in the order in "
                f"which it comes first: {'; '.join(text for _, text in pages)}. Each was "
                "acknowledged, so that the rows are where that leaves them."
            )
            named = [page for page, _ in pages if not page.startswith(_HOLDING_BACK)]
            shows_content = finding.kind in _OF_CONTENT or any(_UPDATES in one.sql for one in sent)
            return FindingRule("rows", promise, named[-1], shows_content)
        if finding.checker == "objects" and finding.kind in _OBJECTS:
            return _OBJECTS[finding.kind]
        found = _RULES.get((finding.checker, finding.kind))
        if found is not None:
            if found.promise:
                return found
            promise, page = _freshness(sent)
            return replace(found, promise=promise, page=page)
    raise NotExportableError(
        f"finding {finding}: what shows it is more than the answers to its statements"
    )


def _freshness(sent: Sequence[SentStatement]) -> tuple[str, str]:
    """Return what the manual promises of reads after inserts, and the page."""
    if any("select_sequential_consistency" in one.settings for one in sent):
        return _CONSISTENT, _SEQUENTIAL
    if any("SYNC REPLICA" in one.sql for one in sent):
        return _SYNCED, "sql-reference/statements/system#sync-replica"
    return _ASYNCHRONOUS, _REPLICATION
