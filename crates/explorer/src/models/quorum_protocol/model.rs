//! Implements the model: its steps, its claims, and how a state is shown.

use super::judgement::{judge, work_left, CLAIMS};
use super::rules::Rules;
use super::world::{Shape, Status, World, RECORDS, REPLICAS};
use super::{inserts, quorums, reads};
use crate::fields::{Chunks, State};
use crate::model::{in_range, members, set_text, Action, Claim, Marks, Model, Protocol, Scope};

pub struct QuorumProtocol {
    shape: Shape,
    rules: Rules,
}

impl QuorumProtocol {
    pub fn new(scope: &Scope, protocol: &Protocol) -> Result<Self, String> {
        in_range("replicas", scope.replicas, 1, REPLICAS as u32)?;
        in_range("records", scope.records, 1, RECORDS as u32)?;
        in_range("quorum", scope.quorum, 2, scope.replicas)?;
        Ok(Self {
            shape: Shape::new(scope.replicas, scope.records)?,
            rules: Rules::new(scope, protocol)?,
        })
    }
}

impl Model for QuorumProtocol {
    fn chunks(&self) -> &Chunks {
        &self.shape.chunks
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        let world = World {
            broken: 0,
            ..self.shape.unpacked(state)
        };
        let step = &mut |action, after: World| step(action, self.shape.packed(&after));
        for at in 0..world.count {
            inserts::sessions(&world, at, &self.rules, step);
            if world.replicas[at].active {
                inserts::steps(&world, at, &self.rules, step);
                inserts::merges(&world, at, &self.rules, step);
                quorums::steps(&world, at, &self.rules, step);
                reads::steps(&world, at, &self.rules, step);
            }
        }
    }

    fn claims(&self) -> &[Claim] {
        CLAIMS
    }

    #[inline(always)]
    fn judge(&self, state: State) -> Marks {
        judge(&self.shape.unpacked(state), &self.rules, || {
            self.at_rest(state)
        })
    }

    fn work_left(&self, state: State) -> Option<u32> {
        Some(work_left(&self.shape.unpacked(state)))
    }

    fn show_global(&self, state: State) -> Vec<(&'static str, String)> {
        let world = self.shape.unpacked(state);
        let named = [
            (Status::Numbered, "numbered"),
            (Status::Pending, "pending"),
            (Status::Ended, "ended"),
            (Status::Failed, "failed"),
            (Status::Gone, "gone"),
        ];
        let mut words = Vec::new();
        for (status, name) in named {
            let bits = world.are(status);
            if bits != 0 {
                words.push(format!("{name} {}", set_text(bits)));
            }
        }
        if world.merge != 0 {
            words.push(format!("merged up to {}", world.merge));
        }
        let last = match world.last {
            0 => "-".into(),
            last => last.to_string(),
        };
        vec![("records", words.join(" ")), ("last_part", last)]
    }

    fn show_chunk(&self, chunk: u128) -> String {
        let one = self.shape.replica(chunk);
        let mut words = vec![set_text(one.parts)];
        let mut add = |number: u32, what: &str| {
            if number != 0 {
                words.push(format!("{what} {number}"));
            }
        };
        add(one.fetching, "fetching");
        add(one.joining, "joining");
        add(one.doubt, if one.kept { "kept" } else { "no answer for" });
        if one.ghosts != 0 {
            words.push(format!("listed {}", set_text(one.ghosts)));
        }
        if one.joined != 0 {
            words.push(format!("counted {}", set_text(one.joined)));
        }
        for (on, what) in [
            (one.checked, "checked"),
            (one.merged, "merged"),
            (one.reading, "reading"),
        ] {
            if on {
                words.push(what.into());
            }
        }
        words.join(", ")
    }

    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        let world = self.shape.unpacked(state);
        members(reads::visible(&world, replica as usize, &self.rules))
    }
}
