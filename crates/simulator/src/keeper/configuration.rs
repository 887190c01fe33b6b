//! Defines the members of an ensemble.

use std::rc::Rc;

use crate::network::Node;

/// The node that shows the members.
pub const CONFIG: &str = "/zookeeper/config";

/// What a member of an ensemble does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    /// Votes for leaders and for entries of the log.
    Participant,
    /// Learns what is committed.
    Observer,
}

impl MemberRole {
    /// Returns the role as configurations have it.
    pub fn name(self) -> &'static str {
        match self {
            MemberRole::Participant => "participant",
            MemberRole::Observer => "observer",
        }
    }
}

/// The members of an ensemble, in the topology's order of their nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration(Vec<(Node, MemberRole)>);

impl Configuration {
    /// Returns a configuration in which all these servers vote.
    pub fn of(voters: &[Node]) -> Configuration {
        let voters = voters.iter().copied();
        Configuration(voters.map(|node| (node, MemberRole::Participant)).collect())
    }

    /// Returns the configuration in which a server has this role, or is no member.
    pub fn with(&self, node: Node, role: Option<MemberRole>) -> Configuration {
        let others = self.0.iter().copied().filter(|(other, _)| *other != node);
        let mut members: Vec<_> = others.chain(role.map(|role| (node, role))).collect();
        members.sort_by_key(|(node, _)| *node);
        Configuration(members)
    }

    /// Returns the members with their roles.
    pub fn members(&self) -> &[(Node, MemberRole)] {
        &self.0
    }

    /// Returns the role of a server, if it is a member.
    pub fn role(&self, node: Node) -> Option<MemberRole> {
        let found = self.0.iter().find(|(other, _)| *other == node);
        found.map(|(_, role)| *role)
    }

    /// Whether a server is a member that votes.
    pub fn votes(&self, node: Node) -> bool {
        self.role(node) == Some(MemberRole::Participant)
    }

    /// Returns the number of voters.
    pub fn voters(&self) -> usize {
        let votes = |(_, role): &&(Node, MemberRole)| *role == MemberRole::Participant;
        self.0.iter().filter(votes).count()
    }

    /// Returns the smallest number of voters that is a majority.
    pub fn majority(&self) -> usize {
        self.voters() / 2 + 1
    }

    /// Whether a majority of the voters is among these servers, each of which is named once.
    pub fn is_quorum(&self, servers: &[Node]) -> bool {
        let voters = servers.iter().filter(|node| self.votes(**node));
        voters.count() >= self.majority()
    }

    /// Returns the content of the node that shows the members.
    pub fn text(&self, names: &[Rc<str>]) -> String {
        let line = |(node, role): &(Node, MemberRole)| {
            let name = &names[*node];
            format!("server.{name}={name}:2888:3888:{};2181\n", role.name())
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_voters_count() {
        let all = Configuration::of(&[0, 1, 2]);
        assert!(all.is_quorum(&[2, 0]) && !all.is_quorum(&[1]));
        let two = all.with(1, None);
        assert_eq!((two.voters(), two.majority(), two.role(1)), (2, 2, None));
        assert!(!two.is_quorum(&[0, 1]) && two.is_quorum(&[0, 2]));
        let watched = all.with(2, Some(MemberRole::Observer));
        assert!(!watched.is_quorum(&[0, 2]) && watched.is_quorum(&[1, 0]));
        assert_eq!(watched.with(2, Some(MemberRole::Participant)), all);
        assert_eq!(two.with(1, Some(MemberRole::Participant)), all);
    }
}
