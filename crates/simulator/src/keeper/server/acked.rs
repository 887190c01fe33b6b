//! Counts, for a leader, how many log entries each server has on disk.

use crate::network::Node;

/// Acknowledges that a number of entries of an epoch's log are on disk. It is as small as
/// ZooKeeper's zxid, so that it fits into an event.
#[derive(Clone, Copy)]
pub(super) struct Ack {
    pub epoch: u32,
    pub count: u32,
}

impl Ack {
    pub(super) fn new(epoch: u64, count: usize) -> Ack {
        let (epoch, count) = (epoch as u32, count as u32);
        Ack { epoch, count }
    }
}

/// The number of entries that each server has on disk, in the order in which servers joined.
#[derive(Default)]
pub(super) struct Acked(Vec<(Node, usize)>);

impl Acked {
    /// Sets the number of a server.
    pub(super) fn set(&mut self, peer: Node, count: usize) {
        match self.of(peer) {
            Some(acked) => *acked = count,
            None => self.0.push((peer, count)),
        }
    }

    pub(super) fn of(&mut self, peer: Node) -> Option<&mut usize> {
        let mut all = self.0.iter_mut();
        all.find(|(other, _)| *other == peer)
            .map(|(_, count)| count)
    }

    pub(super) fn remove(&mut self, peer: Node) {
        let before = self.0.len();
        self.0.retain(|(other, _)| *other != peer);
        assert!(before - self.0.len() <= 1, "every server is counted once");
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns each server with its number of entries.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Node, usize)> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Node> + '_ {
        self.0.iter().map(|(peer, _)| *peer)
    }

    /// Returns the servers that have at least `least` entries.
    pub(super) fn from(&self, least: usize) -> impl Iterator<Item = Node> + '_ {
        let from = self.0.iter().filter(move |(_, count)| *count >= least);
        from.map(|(peer, _)| *peer)
    }

    /// Returns the largest number of entries that `servers` servers have; 0 if it is less than
    /// `least`.
    pub(super) fn on(&self, servers: usize, least: usize) -> usize {
        let (mut many, mut lowest) = (0, usize::MAX);
        for (_, count) in &self.0 {
            if *count >= least {
                many += 1;
                lowest = lowest.min(*count);
            }
        }
        if many < servers {
            0
        } else {
            lowest.max(self.on(servers, lowest + 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_has_the_lowest_count_among_it() {
        let mut acked = Acked::default();
        for (peer, count) in [7, 3, 5, 9, 5].into_iter().enumerate() {
            acked.set(peer, count);
        }
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(|most| acked.on(most, 0)),
            [9, 7, 5, 5, 3, 0]
        );
        assert_eq!([5, 6].map(|least| acked.on(3, least)), [5, 0]);
    }
}
