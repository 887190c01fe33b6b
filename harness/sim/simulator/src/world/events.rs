//! Events to come, by time, and of one time in the order in which they were made.
//!
//! They hang on wheels (Varghese, Lauck, "Hashed and hierarchical timing wheels", SOSP 1987): the
//! first one turns in some 4 ms, each of the others in 64 turns of the one before. Most events come
//! within a millisecond or are not needed any more when they come, so that few change wheels.

use std::mem;

use crate::world::Ns;

/// A place of the first wheel is 2^16 ns wide.
const WIDTH: u32 = 16;
/// A wheel has 2^6 places: a word tells which are taken.
const DIGIT: u32 = 6;
const PLACES: usize = 1 << DIGIT;
/// Enough for every time.
const WHEELS: usize = (Ns::BITS - WIDTH).div_ceil(DIGIT) as usize;
/// The slot that there is not.
const NONE: u32 = u32::MAX;

/// As long as a line of the processor's cache.
#[repr(align(64))]
struct Slot<T> {
    ns: Ns,
    /// The one behind it at its place, or the next free one.
    next: u32,
    /// A number that comes with it, for which there is room.
    tag: u32,
    what: T,
}

/// The slots of events: on the first wheel by time, on others as they came.
#[derive(Clone, Copy)]
struct Place {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct Wheel {
    /// A bit for each place.
    taken: u64,
    places: [Place; PLACES],
}

/// The slot of an event.
pub struct Number(u32);

pub struct Events<T> {
    len: usize,
    /// Where the wheels stand. An event is on the first one that does not end its turn before.
    at_ns: Ns,
    wheels: Box<[Wheel; WHEELS]>,
    slots: Vec<Slot<T>>,
    free: u32,
}

impl<T> Default for Events<T> {
    fn default() -> Events<T> {
        let (first, last) = (NONE, NONE);
        let places = [Place { first, last }; PLACES];
        Events {
            len: 0,
            at_ns: 0,
            wheels: Box::new([Wheel { taken: 0, places }; WHEELS]),
            slots: Vec::new(),
            free: NONE,
        }
    }
}

impl<T: Default> Events<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// One that comes then.
    #[inline(always)]
    pub fn add(&mut self, ns: Ns, tag: u32, fill: impl FnOnce(&mut T)) -> Number {
        if self.free == NONE {
            self.add_slot();
        }
        self.len += 1;
        let number = self.free;
        let slot = &mut self.slots[number as usize];
        self.free = mem::replace(&mut slot.next, NONE);
        (slot.ns, slot.tag) = (ns, tag);
        fill(&mut slot.what);
        self.hang(number, ns);
        Number(number)
    }

    /// One that was added, and has not been popped.
    #[inline(always)]
    pub fn at(&mut self, Number(number): Number) -> &mut T {
        &mut self.slots[number as usize].what
    }

    #[cold]
    fn add_slot(&mut self) {
        let (ns, next, tag, what) = (0, self.free, 0, T::default());
        self.free = self.slots.len() as u32;
        let slot = Slot {
            ns,
            next,
            tag,
            what,
        };
        self.slots.push(slot);
    }

    /// At its place.
    #[inline(always)]
    fn hang(&mut self, slot: u32, ns: Ns) {
        let place_ns = ns.max(self.at_ns);
        let apart = place_ns ^ self.at_ns;
        if apart >> (WIDTH + DIGIT) > 0 {
            return self.hang_far(slot, place_ns, apart);
        }
        let digit = (place_ns >> WIDTH) as usize % PLACES;
        let Wheel { taken, places } = &mut self.wheels[0];
        let place = &mut places[digit];
        if *taken >> digit & 1 == 0 {
            *taken |= 1 << digit;
            (place.first, place.last) = (slot, slot);
        } else {
            self.hang_between(slot, ns, digit);
        }
    }

    /// On the first wheel, behind those that come no later.
    #[inline(never)]
    fn hang_between(&mut self, slot: u32, ns: Ns, digit: usize) {
        let place = &mut self.wheels[0].places[digit];
        let last = &mut self.slots[place.last as usize];
        if last.ns <= ns {
            last.next = slot;
            place.last = slot;
            return;
        }
        let (mut before, mut next) = (NONE, place.first);
        while self.slots[next as usize].ns <= ns {
            (before, next) = (next, self.slots[next as usize].next);
        }
        self.slots[slot as usize].next = next;
        match self.slots.get_mut(before as usize) {
            Some(before) => before.next = slot,
            None => place.first = slot,
        }
    }

    /// On another one, behind those that came before.
    #[inline(never)]
    fn hang_far(&mut self, slot: u32, place_ns: Ns, apart: Ns) {
        let number = (apart >> WIDTH).ilog2() / DIGIT;
        let digit = (place_ns >> (WIDTH + number * DIGIT)) as usize % PLACES;
        let Wheel { taken, places } = &mut self.wheels[number as usize];
        let place = &mut places[digit];
        if *taken >> digit & 1 == 0 {
            *taken |= 1 << digit;
            place.first = slot;
        } else {
            self.slots[place.last as usize].next = slot;
        }
        place.last = slot;
    }

    /// The next, its time and its tag, if that is not later.
    #[inline(always)]
    pub fn pop(&mut self, until_ns: Ns) -> Option<(Ns, u32, &mut T)> {
        while self.wheels[0].taken == 0 {
            self.turn(until_ns)?;
        }
        let wheel = &mut self.wheels[0];
        let place = &mut wheel.places[wheel.taken.trailing_zeros() as usize % PLACES];
        let slot = place.first;
        let next = &mut self.slots[slot as usize];
        if next.ns > until_ns {
            return None;
        }
        if slot == place.last {
            wheel.taken &= wheel.taken - 1;
        } else {
            place.first = next.next;
        }
        next.next = mem::replace(&mut self.free, slot);
        self.len -= 1;
        Some((next.ns, next.tag, &mut next.what))
    }

    /// Whether one of the time to which they have come is left.
    pub fn any_at(&self, now_ns: Ns) -> bool {
        let wheel = &self.wheels[0];
        let place = &wheel.places[wheel.taken.trailing_zeros() as usize % PLACES];
        wheel.taken > 0 && self.slots[place.first as usize].ns <= now_ns
    }

    /// To the next place that is taken, if that does not begin later: its events change wheels.
    #[inline(never)]
    fn turn(&mut self, until_ns: Ns) -> Option<()> {
        let number = self.wheels.iter().position(|wheel| wheel.taken > 0)?;
        let wheel = &mut self.wheels[number];
        let (digit, shift) = (wheel.taken.trailing_zeros(), WIDTH + number as u32 * DIGIT);
        let turn = self.at_ns >> shift >> DIGIT << DIGIT;
        let at_ns = (turn | Ns::from(digit)) << shift;
        if at_ns > until_ns {
            return None;
        }
        wheel.taken &= wheel.taken - 1;
        self.at_ns = at_ns;
        let first = wheel.places[digit as usize].first;
        self.hang_anew(first, |_| true);
        Some(())
    }

    /// What was at a place, of that what is to be kept.
    fn hang_anew(&mut self, first: u32, keeps: impl Fn(&T) -> bool) {
        let mut next = first;
        while next != NONE {
            let (number, slot) = (next, &mut self.slots[next as usize]);
            next = slot.next;
            if keeps(&slot.what) {
                let ns = slot.ns;
                slot.next = NONE;
                self.hang(number, ns);
            } else {
                slot.what = T::default();
                slot.next = mem::replace(&mut self.free, number);
                self.len -= 1;
            }
        }
    }

    /// Without those that are not to be kept.
    pub fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        for number in 0..WHEELS {
            let mut taken = mem::take(&mut self.wheels[number].taken);
            while taken > 0 {
                let digit = taken.trailing_zeros() as usize;
                taken &= taken - 1;
                self.hang_anew(self.wheels[number].places[digit].first, &keeps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn they_come_in_order() {
        for seed in 0..100 {
            let (seed, mut events, mut naive) = (Seed(seed), Events::default(), Vec::new());
            let mut now_ns = 0;
            for sequence in 0..500 {
                let draw = seed.below(sequence, 100) as Ns;
                if draw < 60 {
                    let time_ns = now_ns + ((draw % 20) << (draw % 7 * 5));
                    events.add(time_ns, sequence as u32, |event| *event = sequence);
                    naive.push((time_ns, sequence));
                } else if draw < 98 {
                    naive.sort_unstable();
                    let until_ns = now_ns + ((draw % 20) << (draw % 7 * 5));
                    let next = naive.first().copied();
                    let due = next.filter(|(time_ns, _)| *time_ns <= until_ns);
                    let popped = events.pop(until_ns).map(|(ns, tag, event)| {
                        assert_eq!(u64::from(tag), *event);
                        (ns, *event)
                    });
                    assert_eq!(popped, due);
                    if let Some((time_ns, _)) = due {
                        now_ns = time_ns;
                        naive.remove(0);
                        let left = naive.first().is_some_and(|(ns, _)| *ns == now_ns);
                        assert_eq!(events.any_at(now_ns), left);
                    }
                } else {
                    events.retain(|event| event % 3 > 0);
                    naive.retain(|(_, event)| event % 3 > 0);
                }
                assert_eq!(events.len(), naive.len());
            }
        }
    }
}
