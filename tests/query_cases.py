"""SQL that a query of a store must not execute."""

NO_QUERIES = [
    "CREATE TABLE mine (a int) USING parquet",
    "CREATE TABLE mine AS SELECT * FROM runs",
    "WITH t AS (SELECT 1 AS a) INSERT INTO runs SELECT * FROM t",
    "FROM runs INSERT INTO mine SELECT *",
    "INSERT OVERWRITE DIRECTORY 'mine' USING parquet SELECT 1 AS a",
    "DROP VIEW runs",
    "EXECUTE IMMEDIATE 'CREATE TABLE mine (a int) USING parquet'",
    "BEGIN CREATE TABLE mine (a int) USING parquet; END",
    "SET spark.sql.ansi.enabled = false",
]

CODE = "'java.lang.System', 'setProperty', 'owned', 'yes'"
INNER = {
    "reflect": f"SELECT reflect({CODE}) AS a",
    "java_method": f"SELECT java_method({CODE}) AS a",
    "try_reflect": f"SELECT try_reflect({CODE}) AS a",
    "a qualified name": f"SELECT builtin.reflect({CODE}) AS a",
    "a name that is computed": f"SELECT IDENTIFIER('refl' || 'ect')({CODE}) AS a",
    "a document with an external entity": """
        SELECT xpath_string('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', 'a') AS a""",
    "a schema that is a file": """
        SELECT from_xml('<a/>', 'b INT', map('rowValidationXSDPath', '/etc/passwd')) AS a""",
    "a script": "SELECT TRANSFORM (x) USING 'cat /etc/passwd' AS (a) FROM VALUES (1) AS t(x)",
    **{
        f"a path of {source}": f"SELECT 1 AS a FROM {source}.`/etc/passwd`"
        for source in ("text", "csv", "json", "parquet", "orc", "binaryFile", "xml", "avro")
    },
    "a path whose name is computed": "SELECT 1 AS a FROM IDENTIFIER('text.`/etc/passwd`')",
    "a path as a stream": "SELECT 1 AS a FROM STREAM text.`/etc`",
}
PLACES = {
    "by itself": "{}",
    "in a common table": "WITH c AS ({}) SELECT * FROM c",
    "in a scalar subquery": "SELECT (SELECT max(a) FROM ({}))",
    "in a window": "SELECT count(*) OVER w FROM VALUES (1) AS t(x) "
    "WINDOW w AS (PARTITION BY (SELECT max(a) FROM ({})))",
    "in a union": "SELECT 1 UNION ALL ({})",
}
