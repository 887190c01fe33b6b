//! Implements the model: its steps, its claims, and how a state is shown.

use super::judgement::{judge, CLAIMS};
use super::rules::{Fixes, Rules, MUTANTS};
use super::world::{Phase, Shape, World, MERGED, PARTS, REPLICAS};
use super::{removal, sharing, writing};
use crate::fields::{Chunks, State};
use crate::model::{in_range, Action, Claim, Marks, Model, Scope};

const NAMES: [&str; PARTS] = ["a", "b", "ab"];

pub struct ZeroCopy {
    shape: Shape,
    rules: Rules,
    /// Number of parts that are inserted: with two, they are merged.
    records: u32,
}

impl ZeroCopy {
    pub fn new(scope: &Scope) -> Result<Self, String> {
        in_range("replicas", scope.replicas, 1, REPLICAS as u32)?;
        in_range("records", scope.records, 1, MERGED as u32)?;
        Ok(Self {
            shape: Shape::new(scope.replicas)?,
            rules: Rules {
                fixes: Fixes::from_names(scope.fixes)?,
                mutant: scope.mutant(MUTANTS)?,
            },
            records: scope.records,
        })
    }

    fn world_steps(&self, world: &World, step: &mut impl FnMut(Action, World)) {
        writing::insert(world, self.records, step);
        removal::drop_partition(world, step);
        for at in 0..world.count {
            removal::faults(world, at, self.rules, step);
            if world.replicas[at].active {
                writing::steps(world, at, self.rules, step);
                sharing::steps(world, at, self.rules, step);
                removal::steps(world, at, self.rules, step);
            }
        }
    }
}

impl Model for ZeroCopy {
    const INACTIVE: &'static str = "dead";

    fn chunks(&self) -> &Chunks {
        &self.shape.chunks
    }

    #[inline(always)]
    fn steps(&self, state: State, step: &mut impl FnMut(Action, State)) {
        let world = self.shape.unpacked(state);
        self.world_steps(&world, &mut |action, after| {
            step(action, self.shape.packed(&after));
        });
    }

    fn claims(&self) -> &[Claim] {
        CLAIMS
    }

    #[inline(always)]
    fn judge(&self, state: State) -> Marks {
        judge(&self.shape.unpacked(state))
    }

    /// Fetches may be repeated forever, so there is no such number.
    fn work_left(&self, _: State) -> Option<u32> {
        None
    }

    fn canonical(&self, state: State) -> State {
        let world = self.shape.unpacked(state);
        let mut order: Vec<usize> = (0..world.count).collect();
        let mut least = state;
        permute(&mut order, 0, &mut |order| {
            least = least.min(self.shape.packed(&world.renumbered(order)));
        });
        least
    }

    fn show_global(&self, state: State) -> Vec<(&'static str, String)> {
        let world = self.shape.unpacked(state);
        let flags = [
            (world.hybrid, "hybrid"),
            (world.dropped, "dropped"),
            (world.downgraded, "downgraded"),
        ];
        let flags: Vec<_> = flags
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| *name)
            .collect();
        let mut copies = Vec::new();
        for (part, name) in NAMES.iter().enumerate() {
            let stored = (1..world.local()).filter(|copy| world.exists(part, *copy));
            copies.extend(stored.map(|copy| format!("{name}:{copy}")));
        }
        vec![("table", flags.join(" ")), ("copies", copies.join(" "))]
    }

    fn show_chunk(&self, chunk: u128) -> String {
        let one = self.shape.replica(chunk);
        let mut words = Vec::new();
        if one.old {
            words.push("old".to_string());
        }
        if one.phase != Phase::Idle {
            let phase = format!("{:?}", one.phase).to_lowercase();
            words.push(format!("{phase} {}:{}", NAMES[one.part], one.copy));
        }
        for (part, name) in NAMES.iter().enumerate() {
            match one.has[part] {
                0 => {}
                local if local > self.shape.chunks.count => words.push(format!("{name} on disk")),
                copy => words.push(format!("{name}:{copy}")),
            }
            if one.lock[part] != 0 {
                words.push(format!("lock {name}:{}", one.lock[part]));
            }
        }
        if one.temporary.1 != 0 {
            let (part, copy) = one.temporary;
            words.push(format!("temporary lock {}:{copy}", NAMES[part]));
        }
        if one.marker {
            words.push("marker".to_string());
        }
        words.join(", ")
    }

    fn visible(&self, state: State, replica: u32) -> Vec<u32> {
        let world = self.shape.unpacked(state);
        let has = world.replicas[replica as usize].has;
        let readable = |part: usize| {
            has[part] == world.local() || (has[part] != 0 && world.exists(part, has[part]))
        };
        let merged = readable(MERGED);
        (0..self.records as usize)
            .filter(|part| merged || readable(*part))
            .map(|part| part as u32 + 1)
            .collect()
    }
}

fn permute(order: &mut Vec<usize>, from: usize, each: &mut impl FnMut(&[usize])) {
    if from == order.len() {
        return each(order);
    }
    for i in from..order.len() {
        order.swap(from, i);
        permute(order, from + 1, each);
        order.swap(from, i);
    }
}
