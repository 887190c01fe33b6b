//! Puts each of many transactions before each of many others.

use super::graph::{Kinds, FREE, RW};

/// Adds a path from each reader to each writer, but none from a transaction to itself. `writers`
/// ascend. Returns the number after the last further vertex.
///
/// r × w edges become r + 4 w: a chain of vertices leads to all writers up to each, and another to
/// all from each. A reader that is a writer itself enters both beside its own place.
pub fn fan(
    readers: &[u32],
    writers: &[u32],
    vertices: u32,
    edge: &mut dyn FnMut(u32, u32, Kinds),
) -> u32 {
    if readers.is_empty() || writers.is_empty() {
        return vertices;
    }
    if readers.len() == 1 || writers.len() == 1 {
        for &reader in readers {
            for &writer in writers.iter().filter(|&&writer| writer != reader) {
                edge(reader, writer, RW);
            }
        }
        return vertices;
    }
    let count = writers.len() as u32;
    let (up_to, from) = (vertices, vertices + count);
    for (at, &writer) in (0u32..).zip(writers) {
        edge(up_to + at, writer, FREE);
        edge(from + at, writer, FREE);
        if at > 0 {
            edge(up_to + at, up_to + at - 1, FREE);
            edge(from + at - 1, from + at, FREE);
        }
    }
    for &reader in readers {
        let own = writers.binary_search(&reader).map(|at| at as u32);
        let (before, after) = match own {
            Ok(at) => (at.checked_sub(1), Some(at + 1).filter(|&at| at < count)),
            Err(_) => (Some(count - 1), None),
        };
        if let Some(at) = before {
            edge(reader, up_to + at, RW);
        }
        if let Some(at) = after {
            edge(reader, from + at, RW);
        }
    }
    vertices + 2 * count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pairs of transactions that are joined by paths.
    fn joined(readers: &[u32], writers: &[u32]) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        fan(readers, writers, 100, &mut |from, to, _| {
            edges.push((from, to))
        });
        let mut pairs = Vec::new();
        for &reader in readers {
            let mut reached = vec![reader];
            let mut at = 0;
            while at < reached.len() {
                let from = reached[at];
                at += 1;
                for &(_, to) in edges.iter().filter(|edge| edge.0 == from) {
                    match to < 100 {
                        true => pairs.push((reader, to)),
                        false => reached.push(to),
                    }
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    #[test]
    fn everybody_is_before_everybody_else() {
        for (readers, writers) in [
            (vec![1, 2, 3], vec![2, 4, 6]),
            (vec![1], vec![1, 2]),
            (vec![1, 2], vec![2]),
            (vec![5, 6, 7], vec![5, 6, 7]),
            (vec![], vec![1]),
        ] {
            let mut expected: Vec<(u32, u32)> = readers
                .iter()
                .flat_map(|&r| writers.iter().map(move |&w| (r, w)))
                .filter(|(r, w)| r != w)
                .collect();
            expected.sort_unstable();
            assert_eq!(joined(&readers, &writers), expected);
        }
    }
}
