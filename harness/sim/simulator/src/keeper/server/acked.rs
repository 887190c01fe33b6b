//! How much of the log is on whose disk, as a leader knows it.

use crate::network::Node;

/// Servers in the order in which they came, and how many entries each has on its disk.
#[derive(Default)]
pub(super) struct Acked(Vec<(Node, usize)>);

impl Acked {
    /// One that has so many now.
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
        self.0.retain(|(other, _)| *other != peer);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Node> + '_ {
        self.0.iter().map(|(peer, _)| *peer)
    }

    /// Who has as many as that.
    pub(super) fn from(&self, least: usize) -> impl Iterator<Item = Node> + '_ {
        let from = self.0.iter().filter(move |(_, count)| *count >= least);
        from.map(|(peer, _)| *peer)
    }

    /// As many as so many servers have; 0 where that is less than `least`.
    pub(super) fn on(&self, servers: usize, least: usize) -> usize {
        let counts = self.0.iter().map(|(_, count)| *count);
        let counts = counts.filter(|count| *count >= least);
        let on_most = counts.filter(|count| self.from(*count).nth(servers - 1).is_some());
        on_most.max().unwrap_or(0)
    }
}
