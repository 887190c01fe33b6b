//! Searches breadth first, so that the first counterexample is a shortest one.

use std::time::{Duration, Instant};

use crate::fields::State;
use crate::model::{Action, Claim, Model, Who};
use crate::states::{Full, States, Word};

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Some states are not expanded yet.
    Going,
    /// Every reachable state was found.
    Whole,
    /// The limit on states is reached.
    TooMany,
    /// The limit on memory is reached.
    OutOfMemory,
}

/// What is known about a claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finding {
    /// Number of states to which the claim applies.
    pub applied: u64,
    /// The first state that violates it, and its distance from the initial state in actions.
    pub broken: Option<(u32, u32)>,
}

/// The last claim of every model that has a number for the work left.
pub const COMES_TO_REST: Claim = Claim {
    name: "comes-to-rest",
    text: "once clients and faults have stopped, the replicas' own work ends",
};

/// A step of a counterexample and the state after it.
pub struct Step {
    pub action: Option<Action>,
    pub state: State,
}

/// A search that can be interrupted and resumed.
pub struct Search<M, W> {
    pub model: M,
    states: States<W>,
    findings: Vec<Finding>,
    /// The next state to expand.
    next: u32,
    depth: u32,
    level_end: u32,
    transitions: u64,
    states_max: u32,
    symmetry: bool,
    progress: Progress,
    /// A step of a replica that did not decrease the work left: from, to.
    stalled: Option<(u32, State)>,
}

/// Number of states between two looks at the clock.
const STRIDE: u32 = 1024;

impl<M: Model, W: Word> Search<M, W> {
    pub fn new(model: M, symmetry: bool, states_max: u32, bytes_max: usize) -> Self {
        assert!(model.chunks().bits() <= W::BITS, "the word holds a state");
        let claims = model.claims().len();
        let mut search = Self {
            states: States::new(bytes_max),
            findings: vec![Finding::default(); claims + 1],
            next: 0,
            depth: 0,
            level_end: 1,
            transitions: 0,
            states_max,
            symmetry,
            progress: Progress::Going,
            stalled: None,
            model,
        };
        let initial = search.stored(search.model.initial());
        match search.found(initial, 0) {
            Ok(new) => assert!(new, "the first state is new"),
            Err(Full) => search.progress = Progress::OutOfMemory,
        }
        search
    }

    /// Searches for some time, or to the end.
    pub fn advance(&mut self, time: Duration) -> Progress {
        let begin = Instant::now();
        while self.progress == Progress::Going {
            for _ in 0..STRIDE {
                if self.progress == Progress::Going {
                    self.expand();
                }
            }
            if begin.elapsed() >= time {
                break;
            }
        }
        self.progress
    }

    fn expand(&mut self) {
        if self.next == self.states.count() {
            self.progress = Progress::Whole;
            return;
        }
        if self.next == self.level_end {
            self.level_end = self.states.count();
            self.depth += 1;
        }
        let number = self.next;
        let state = self.states.get(number);
        let left = self.model.work_left(state);
        let mut end = None;
        // The closure borrows the search, so the model is accessed through its own pointer.
        let (symmetry, states_max) = (self.symmetry, self.states_max);
        let Self {
            model,
            states,
            findings,
            transitions,
            stalled,
            ..
        } = self;
        let depth = self.depth + 1;
        model.steps(state, &mut |action, after| {
            *transitions += 1;
            if action.who == Who::Replica && after != state {
                if let Some(left) = left {
                    let rest = findings.last_mut().expect("comes-to-rest is last");
                    rest.applied += 1;
                    if model.work_left(after).is_none_or(|after| after >= left)
                        && rest.broken.is_none()
                    {
                        *stalled = Some((number, after));
                        rest.broken = Some((number, depth));
                    }
                }
            }
            if end.is_some() {
                return;
            }
            let after = if symmetry {
                model.canonical(after)
            } else {
                after
            };
            match states.insert(after, number) {
                Ok(true) => {
                    judge(model, findings, after, states.count() - 1, depth);
                    if states.count() >= states_max {
                        end = Some(Progress::TooMany);
                    }
                }
                Ok(false) => (),
                Err(Full) => end = Some(Progress::OutOfMemory),
            }
        });
        match end {
            Some(end) => self.progress = end,
            None => self.next += 1,
        }
    }

    fn found(&mut self, state: State, parent: u32) -> Result<bool, Full> {
        let new = self.states.insert(state, parent)?;
        if new {
            let number = self.states.count() - 1;
            judge(&self.model, &mut self.findings, state, number, self.depth);
        }
        Ok(new)
    }

    fn stored(&self, state: State) -> State {
        if self.symmetry {
            self.model.canonical(state)
        } else {
            state
        }
    }

    pub fn states(&self) -> u32 {
        self.states.count()
    }

    /// Returns the number of examined steps, including those to known states.
    pub fn transitions(&self) -> u64 {
        self.transitions
    }

    /// Returns the greatest distance of a found state, in actions.
    pub fn depth(&self) -> u32 {
        self.depth + u32::from(self.states.count() > self.level_end)
    }

    /// Returns the number of states that are not expanded yet.
    pub fn frontier(&self) -> u32 {
        self.states.count() - self.next
    }

    pub fn bytes(&self) -> usize {
        self.states.bytes()
    }

    /// Returns each claim and what is known about it.
    pub fn findings(&self) -> Vec<(Claim, Finding)> {
        let named = self.model.claims().iter().copied();
        named
            .chain([COMES_TO_REST])
            .zip(self.findings.iter().copied())
            .filter(|(claim, _)| {
                claim.name != COMES_TO_REST.name
                    || self.model.work_left(self.model.initial()).is_some()
            })
            .collect()
    }

    /// Returns a shortest path that violates a claim; `None` if there is none so far.
    ///
    /// With symmetry, stored states do not say which replica is which. The path is therefore walked
    /// again from the initial state, each step to some state whose representative is the stored
    /// one.
    pub fn trace(&self, claim: &str) -> Option<Vec<Step>> {
        let (_, finding) = self.findings().into_iter().find(|(c, _)| c.name == claim)?;
        let mut number = finding.broken?.0;
        let mut path = vec![];
        if claim == COMES_TO_REST.name {
            path.push(self.stored(self.stalled?.1));
        }
        while number != 0 {
            path.push(self.states.get(number));
            number = self.states.parent(number);
        }
        let mut steps = vec![Step {
            action: None,
            state: self.model.initial(),
        }];
        for wanted in path.into_iter().rev() {
            let here = steps
                .last()
                .expect("a path begins with the initial state")
                .state;
            let mut taken = None;
            self.model.steps(here, &mut |action, after| {
                if taken.is_none() && self.stored(after) == wanted {
                    taken = Some((action, after));
                }
            });
            let (action, state) = taken.expect("the search took this step");
            steps.push(Step {
                action: Some(action),
                state,
            });
        }
        Some(steps)
    }
}

#[inline(always)]
fn judge<M: Model>(model: &M, findings: &mut [Finding], state: State, number: u32, depth: u32) {
    let marks = model.judge(state);
    let mut applies = marks.applies;
    while applies != 0 {
        let claim = applies.trailing_zeros() as usize;
        applies &= applies - 1;
        findings[claim].applied += 1;
        if marks.broken >> claim & 1 == 1 && findings[claim].broken.is_none() {
            findings[claim].broken = Some((number, depth));
        }
    }
}
