//! Quality of one direction of a link: how much later its packets arrive.
//!
//! Connections behave like TCP, which hides what packets suffer but for the time that it takes: a lost
//! packet is sent again, one that was overtaken makes the later ones wait for it, and the second
//! copy of a packet is discarded.

use std::cell::Cell;

use crate::world::{Ns, World, MS, SECOND};

/// TCP's minimum time before it retransmits (Linux: TCP_RTO_MIN).
pub const RETRANSMIT_NS: Ns = 200 * MS;
/// Time for which a packet that is overtaken is held back.
const HOLD_NS: Ns = 20 * MS;
/// A slow link loses a packet that would wait longer.
const SLOW_QUEUE_NS_MAX: Ns = SECOND;
/// Size of a packet on a slow link; the model's messages have none.
const PACKET_BITS: f64 = 8_000.0;

/// One way to degrade a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    Delay,
    Jitter,
    Reorder,
    Duplicate,
    Rate,
    Loss,
}

impl LinkFault {
    const NAMES: [(&str, LinkFault); 6] = [
        ("delay", LinkFault::Delay),
        ("jitter", LinkFault::Jitter),
        ("reorder", LinkFault::Reorder),
        ("duplicate", LinkFault::Duplicate),
        ("rate", LinkFault::Rate),
        ("loss", LinkFault::Loss),
    ];

    pub fn of(name: &str) -> Option<LinkFault> {
        let mut known = LinkFault::NAMES.iter();
        known.find(|(own, _)| *own == name).map(|(_, fault)| *fault)
    }
}

/// Amounts of the faults of one direction of a link; 0: it does not have the fault.
#[derive(Default)]
pub struct LinkQuality {
    amounts: [Cell<f64>; 6],
    degraded: Cell<bool>,
    /// Time at which a slow link has sent what it was given.
    free_ns: Cell<Ns>,
}

impl LinkQuality {
    /// Sets the amount of a fault: milliseconds, kilobits a second, or a share of the packets.
    pub fn set(&self, fault: LinkFault, amount: f64) {
        assert!(amount >= 0.0, "an amount is a number from 0");
        self.amounts[fault as usize].set(amount);
        self.degraded
            .set(self.amounts.iter().any(|one| one.get() > 0.0));
    }

    pub fn amount(&self, fault: LinkFault) -> f64 {
        self.amounts[fault as usize].get()
    }

    /// Returns how much later than on a good link a packet arrives that is sent at `at_ns`.
    #[inline(always)]
    pub fn later_ns(&self, world: &World, at_ns: Ns) -> Ns {
        if self.degraded.get() {
            self.degraded_ns(world, at_ns)
        } else {
            0
        }
    }

    #[inline(never)]
    fn degraded_ns(&self, world: &World, at_ns: Ns) -> Ns {
        let happens = |fault| {
            let per_thousand = (self.amount(fault) * 1000.0).round() as u64;
            per_thousand > 0 && world.below(1000) < per_thousand
        };
        let mut later_ns = 0;
        if happens(LinkFault::Loss) {
            later_ns += RETRANSMIT_NS;
        }
        if happens(LinkFault::Reorder) {
            later_ns += HOLD_NS;
        }
        later_ns += (self.amount(LinkFault::Delay) * MS as f64) as Ns;
        let jitter_ns = (self.amount(LinkFault::Jitter) * MS as f64) as u64;
        if jitter_ns > 0 {
            later_ns += world.below(jitter_ns) as Ns;
        }
        let copies = if happens(LinkFault::Duplicate) { 2 } else { 1 };
        later_ns + self.waits_ns(at_ns, copies)
    }

    /// Returns how long a slow link takes to send the copies of a packet, and what is before them.
    fn waits_ns(&self, at_ns: Ns, copies: u32) -> Ns {
        let kbit_per_s = self.amount(LinkFault::Rate);
        if kbit_per_s == 0.0 {
            return 0;
        }
        let takes_ns = (f64::from(copies) * PACKET_BITS / kbit_per_s * MS as f64) as Ns;
        let begins_ns = self.free_ns.get().max(at_ns);
        if begins_ns - at_ns > SLOW_QUEUE_NS_MAX {
            return RETRANSMIT_NS.max(begins_ns - at_ns); // the queue is full: it is sent again
        }
        self.free_ns.set(begins_ns + takes_ns);
        self.free_ns.get() - at_ns
    }
}
