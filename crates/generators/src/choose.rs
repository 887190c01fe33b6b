//! Chooses among generators and keys by a seed. The n-th choice depends on the seed and n alone.

use seed::Seed;

use crate::generator::{Call, Context, Event, Generator, MakeGenerator, Step, UsageError, Waits};
use crate::workers::Slot;
use crate::Failure;

/// A mixture, whose calls are drawn by weight.
#[derive(Clone)]
pub struct Mix {
    seed: Seed,
    /// With their weights.
    parts: Vec<(f64, Box<dyn Generator>)>,
    /// Cumulative weights.
    bounds: Vec<f64>,
    listens: bool,
    /// Number of calls drawn.
    number: u64,
}

impl Mix {
    pub fn new(seed: Seed, parts: Vec<(f64, Box<dyn Generator>)>) -> Mix {
        Mix {
            seed,
            bounds: bounds(&parts),
            listens: parts.iter().any(|(_, part)| part.listens()),
            parts,
            number: 0,
        }
    }
}

fn bounds(parts: &[(f64, Box<dyn Generator>)]) -> Vec<f64> {
    let weights = parts.iter().map(|(weight, _)| *weight);
    let bound = |sum: &mut f64, weight| {
        *sum += weight;
        Some(*sum)
    };
    weights.scan(0.0, bound).collect()
}

impl Generator for Mix {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        while let Some(last) = self.bounds.last() {
            let drawn = self.seed.unit(self.number) * last;
            let drawn = self.bounds.partition_point(|bound| *bound <= drawn);
            // Adding floats may round the last bound down onto the draw.
            let start = drawn.min(self.parts.len() - 1);
            let mut waits = Waits::default();
            for at in (start..self.parts.len()).chain(0..start) {
                match self.parts[at].1.op(context)? {
                    Step::Pending(wake_ns, condition) => waits.add(wake_ns, condition),
                    Step::Exhausted if at == start => break,
                    // It stays until it is drawn, so that it leaves in only one way.
                    Step::Exhausted => {}
                    step => {
                        self.number += 1;
                        return Ok(step);
                    }
                }
            }
            if !waits.is_empty() {
                return Ok(waits.step());
            }
            self.parts.remove(start);
            self.bounds = bounds(&self.parts);
        }
        Ok(Step::Exhausted)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let mut changed = false;
        for (_, part) in &mut self.parts {
            changed |= part.update(context, event)?;
        }
        Ok(changed)
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// A key in use.
#[derive(Clone)]
struct LiveKey {
    key: i64,
    /// Number of calls made on it.
    calls: u64,
    generator: Box<dyn Generator>,
}

/// Several keys at a time, each with a generator of its own.
#[derive(Clone)]
pub struct PerKey {
    seed: Seed,
    make: MakeGenerator,
    ops_per_key: u64,
    live: Vec<LiveKey>,
    next_key: i64,
    listens: bool,
    /// Number of calls made.
    number: u64,
}

impl PerKey {
    /// Creates the generators of the first keys. Those of later keys listen to events only if one
    /// of these does.
    pub fn new(
        seed: Seed,
        make: MakeGenerator,
        keys: i64,
        ops_per_key: u64,
    ) -> Result<PerKey, Failure> {
        let live = (0..keys).map(|key| live(&make, key));
        let live = live.collect::<Result<Vec<_>, _>>()?;
        Ok(PerKey {
            seed,
            make,
            ops_per_key,
            listens: live.iter().any(|entry| entry.generator.listens()),
            live,
            next_key: keys,
            number: 0,
        })
    }

    /// Puts a fresh key in the place of one that is done.
    fn renew(&mut self, at: usize) -> Result<(), Failure> {
        let key = self.next_key;
        self.live[at] = live(&self.make, key)?;
        self.next_key += 1;
        if self.live[at].generator.listens() && !self.listens {
            return Err(UsageError::failure(format!(
                "per_key: the generator of key {key} looks at events and that of key 0 does not; \
                 expected the same kind of generator for every key"
            )));
        }
        Ok(())
    }

    fn called(&mut self, at: usize, slot: Slot, call: Call) -> Result<Step, Failure> {
        self.number += 1;
        let entry = &mut self.live[at];
        entry.calls += 1;
        let key = Some(entry.key);
        if entry.calls >= self.ops_per_key {
            self.renew(at)?;
        }
        Ok(Step::Ready(slot, Call { key, ..call }))
    }
}

fn live(make: &MakeGenerator, key: i64) -> Result<LiveKey, Failure> {
    Ok(LiveKey {
        key,
        calls: 0,
        generator: make(key as u64)?,
    })
}

impl Generator for PerKey {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        loop {
            let start = self.seed.below(self.number, self.live.len() as u64) as usize;
            let mut waits = Waits::default();
            for at in (start..self.live.len()).chain(0..start) {
                match self.live[at].generator.op(context)? {
                    Step::Pending(wake_ns, condition) => waits.add(wake_ns, condition),
                    Step::Exhausted if at == start => break,
                    // It stays until it is drawn.
                    Step::Exhausted => {}
                    Step::Ready(slot, call) => return self.called(at, slot, call),
                }
            }
            if !waits.is_empty() {
                return Ok(waits.step());
            }
            let LiveKey { key, calls, .. } = self.live[start];
            if calls == 0 {
                let text = format!("per_key: the generator of key {key} has no call");
                return Err(UsageError::failure(text));
            }
            self.renew(start)?;
        }
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        let mut live = self.live.iter_mut();
        match live.find(|entry| Some(entry.key) == event.key) {
            Some(entry) => entry.generator.update(context, event),
            None => Ok(false),
        }
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

/// A generator whose calls get keys, several at a time, all of which make way for fresh ones at the
/// same time.
#[derive(Clone)]
pub struct KeyRounds {
    pub generator: Box<dyn Generator>,
    pub seed: Seed,
    pub keys: u64,
    pub ops_per_key: u64,
    /// Number of calls made.
    pub number: u64,
}

impl Generator for KeyRounds {
    fn op(&mut self, context: &Context<'_>) -> Result<Step, Failure> {
        let mut step = self.generator.op(context)?;
        if let Step::Ready(_, call) = &mut step {
            let round = self.number / (self.keys * self.ops_per_key);
            let drawn = self.seed.below(self.number, self.keys);
            call.key = Some((round * self.keys + drawn) as i64);
            self.number += 1;
        }
        Ok(step)
    }

    fn update(&mut self, context: &Context<'_>, event: &Event<'_>) -> Result<bool, Failure> {
        self.generator.update(context, event)
    }

    fn listens(&self) -> bool {
        self.generator.listens()
    }

    fn copied(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}
