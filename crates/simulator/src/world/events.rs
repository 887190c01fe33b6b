//! Orders scheduled events by time, and events of one time by when they were scheduled.
//!
//! They are kept on timing wheels (Varghese, Lauck, "Hashed and hierarchical timing wheels", SOSP
//! 1987). The first wheel turns in some 4 ms, each other one in 64 turns of its predecessor. Most
//! events are due within a millisecond or are not needed any more when they are due, so few change
//! wheels.

use std::mem;

use crate::world::Ns;

/// A place of the first wheel covers 2^16 ns.
const WIDTH: u32 = 16;
/// A wheel has 2^6 places, so one word has a bit for each.
const DIGIT: u32 = 6;
const PLACES: usize = 1 << DIGIT;
/// Enough wheels for every time.
const WHEELS: usize = (Ns::BITS - WIDTH).div_ceil(DIGIT) as usize;
/// Stands for a missing slot.
const NONE: u32 = u32::MAX;

/// As large as a cache line.
#[repr(align(64))]
struct Slot<T> {
    ns: Ns,
    /// The next slot at the same place, or the next free one.
    next: u32,
    /// A number that belongs to the event and fits here.
    tag: u32,
    what: T,
}

/// The slots of events at a place: on the first wheel by time, on others in the order in which they
/// were added.
#[derive(Clone, Copy)]
struct Place {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct Wheel {
    /// A bit for each place that is not empty.
    occupied: u64,
    places: [Place; PLACES],
}

/// The slot of an event.
pub struct Number(u32);

pub struct Events<T> {
    len: usize,
    /// The time of the wheels. An event is on the first wheel that does not complete a turn before
    /// it is due.
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
            wheels: Box::new(
                [Wheel {
                    occupied: 0,
                    places,
                }; WHEELS],
            ),
            slots: Vec::new(),
            free: NONE,
        }
    }
}

impl<T: Default> Events<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an event that is due at `ns`.
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
        self.link(number, ns);
        Number(number)
    }

    /// Returns an event that was added and has not been popped.
    #[inline(always)]
    pub fn at(&mut self, Number(number): Number) -> &mut T {
        &mut self.slots[number as usize].what
    }

    #[cold]
    fn add_slot(&mut self) {
        let (ns, next, tag, what) = (0, self.free, 0, T::default());
        assert_eq!(self.len, self.slots.len(), "free slots are used first");
        self.free = self.slots.len() as u32;
        let slot = Slot {
            ns,
            next,
            tag,
            what,
        };
        self.slots.push(slot);
    }

    /// Links a slot at its place.
    #[inline(always)]
    fn link(&mut self, slot: u32, ns: Ns) {
        let place_ns = ns.max(self.at_ns);
        let apart = place_ns ^ self.at_ns;
        if apart >> (WIDTH + DIGIT) > 0 {
            return self.link_far(slot, place_ns, apart);
        }
        let digit = (place_ns >> WIDTH) as usize % PLACES;
        let Wheel { occupied, places } = &mut self.wheels[0];
        let place = &mut places[digit];
        if *occupied >> digit & 1 == 0 {
            *occupied |= 1 << digit;
            (place.first, place.last) = (slot, slot);
        } else {
            self.link_sorted(slot, ns, digit);
        }
    }

    /// Links a slot on the first wheel, after those that are due no later.
    #[inline(never)]
    fn link_sorted(&mut self, slot: u32, ns: Ns, digit: usize) {
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

    /// Links a slot on another wheel, after those that were added before.
    #[inline(never)]
    fn link_far(&mut self, slot: u32, place_ns: Ns, apart: Ns) {
        let number = (apart >> WIDTH).ilog2() / DIGIT;
        let digit = (place_ns >> (WIDTH + number * DIGIT)) as usize % PLACES;
        let Wheel { occupied, places } = &mut self.wheels[number as usize];
        let place = &mut places[digit];
        if *occupied >> digit & 1 == 0 {
            *occupied |= 1 << digit;
            place.first = slot;
        } else {
            self.slots[place.last as usize].next = slot;
        }
        place.last = slot;
    }

    /// Removes the next event if it is due until `until_ns`; returns its time, tag and content.
    #[inline(always)]
    pub fn pop(&mut self, until_ns: Ns) -> Option<(Ns, u32, &mut T)> {
        while self.wheels[0].occupied == 0 {
            self.turn(until_ns)?;
        }
        let wheel = &mut self.wheels[0];
        let place = &mut wheel.places[wheel.occupied.trailing_zeros() as usize % PLACES];
        let slot = place.first;
        let next = &mut self.slots[slot as usize];
        if next.ns > until_ns {
            return None;
        }
        if slot == place.last {
            wheel.occupied &= wheel.occupied - 1;
        } else {
            place.first = next.next;
        }
        next.next = mem::replace(&mut self.free, slot);
        self.len -= 1;
        Some((next.ns, next.tag, &mut next.what))
    }

    /// Whether an event of the current time is left.
    pub fn any_at(&self, now_ns: Ns) -> bool {
        let wheel = &self.wheels[0];
        let place = &wheel.places[wheel.occupied.trailing_zeros() as usize % PLACES];
        wheel.occupied > 0 && self.slots[place.first as usize].ns <= now_ns
    }

    /// Advances to the next place with events, if it begins until `until_ns`. Its events change
    /// wheels.
    #[inline(never)]
    fn turn(&mut self, until_ns: Ns) -> Option<()> {
        let number = self.wheels.iter().position(|wheel| wheel.occupied > 0)?;
        let wheel = &mut self.wheels[number];
        let (digit, shift) = (
            wheel.occupied.trailing_zeros(),
            WIDTH + number as u32 * DIGIT,
        );
        let turn = self.at_ns >> shift >> DIGIT << DIGIT;
        let at_ns = (turn | Ns::from(digit)) << shift;
        if at_ns > until_ns {
            return None;
        }
        assert!(at_ns >= self.at_ns, "wheels do not turn back");
        wheel.occupied &= wheel.occupied - 1;
        self.at_ns = at_ns;
        let first = wheel.places[digit as usize].first;
        self.relink(first, |_| true);
        Some(())
    }

    /// Links the events of a place again, except those that are not to be kept.
    fn relink(&mut self, first: u32, keeps: impl Fn(&T) -> bool) {
        let mut next = first;
        while next != NONE {
            let (number, slot) = (next, &mut self.slots[next as usize]);
            next = slot.next;
            if keeps(&slot.what) {
                let ns = slot.ns;
                slot.next = NONE;
                self.link(number, ns);
            } else {
                slot.what = T::default();
                slot.next = mem::replace(&mut self.free, number);
                self.len -= 1;
            }
        }
    }

    /// Return the number of events on the wheels.
    fn count(&self) -> usize {
        let places = self.wheels.iter().flat_map(|wheel| {
            let occupied = (0..PLACES).filter(|digit| wheel.occupied >> digit & 1 == 1);
            occupied.map(|digit| wheel.places[digit])
        });
        let from = |place: Place| {
            let next = |slot: &u32| Some(self.slots[*slot as usize].next);
            let slots = std::iter::successors(Some(place.first), next);
            1 + slots.take_while(|slot| *slot != place.last).count()
        };
        places.map(from).sum()
    }

    /// Removes events that are not to be kept.
    pub fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        for number in 0..WHEELS {
            let mut occupied = mem::take(&mut self.wheels[number].occupied);
            while occupied > 0 {
                let digit = occupied.trailing_zeros() as usize;
                occupied &= occupied - 1;
                self.relink(self.wheels[number].places[digit].first, &keeps);
            }
        }
        assert_eq!(
            self.count(),
            self.len,
            "every event that is left is on a wheel"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seed::Seed;

    #[test]
    fn events_come_in_order() {
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
