//! Parses the statements on partitions.

use super::{Reader, Statement};

/// Forms of ALTER TABLE … PARTITION.
pub(super) const READERS: &[(&str, Reader)] = &[
    (
        r"ALTER TABLE (?P<table>[\w.]+) (?P<verb>DROP|DETACH) PARTITION (?P<partition>\w+)",
        |groups| {
            Ok(Some(Statement::DropPartition {
                table: groups.word("table"),
                partition: groups.word("partition"),
                detach: groups.get("verb").eq_ignore_ascii_case("DETACH"),
            }))
        },
    ),
    (
        r"ALTER TABLE (?P<table>[\w.]+) ATTACH PARTITION (?P<partition>\w+)",
        |groups| {
            Ok(Some(Statement::AttachPartition {
                table: groups.word("table"),
                partition: groups.word("partition"),
            }))
        },
    ),
    (
        concat!(
            r"ALTER TABLE (?P<table>[\w.]+) MOVE PARTITION (?P<partition>\w+) ",
            r"TO VOLUME '(?P<volume>local|remote)'",
        ),
        |groups| {
            Ok(Some(Statement::MovePartition {
                table: groups.word("table"),
                partition: groups.word("partition"),
                volume: groups.word("volume"),
            }))
        },
    ),
    (
        concat!(
            r"ALTER TABLE (?P<table>[\w.]+) MOVE PARTITION (?P<partition>\w+) ",
            r"TO TABLE (?P<to>[\w.]+)",
        ),
        |groups| {
            Ok(Some(Statement::MoveToTable {
                table: groups.word("table"),
                partition: groups.word("partition"),
                to: groups.word("to"),
            }))
        },
    ),
    (
        concat!(
            r"ALTER TABLE (?P<table>[\w.]+) (?P<verb>REPLACE|ATTACH) PARTITION ",
            r"(?P<partition>\w+) FROM (?P<from>[\w.]+)",
        ),
        |groups| {
            Ok(Some(Statement::CopyPartition {
                table: groups.word("table"),
                partition: groups.word("partition"),
                from: groups.word("from"),
                replaces: groups.get("verb").eq_ignore_ascii_case("REPLACE"),
            }))
        },
    ),
];
