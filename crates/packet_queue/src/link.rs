//! What becomes of the packets of one link: the numbers that describe it, and the choices of a seed.

use serde_json::{json, Value};

pub type Ns = u64;

const MS: f64 = 1e6;
/// A packet that a slow link would hold longer than this finds its queue full and is lost.
const QUEUE_NS_MAX: Ns = 1_000_000_000;

/// Quality of one directed link; with `default()` its packets pass unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    delay_ns: Ns,
    /// Each packet waits up to this much longer, and none overtakes another.
    jitter_ns: Ns,
    /// Probability that a packet is held back for `hold_ns`, so that later ones overtake it.
    reorder: f64,
    hold_ns: Ns,
    duplicate: f64,
    loss: f64,
    /// Bits a second; 0: as fast as it can.
    rate: f64,
}

impl Quality {
    /// Reads a quality from JSON. Fails with the first name that is unknown or no number.
    pub fn read(value: &Value) -> Result<Quality, String> {
        let mut out = Quality::default();
        let entries = value.as_object().ok_or("a quality is an object")?;
        for (name, amount) in entries {
            let amount = amount.as_f64().filter(|amount| *amount >= 0.0);
            let amount = amount.ok_or_else(|| format!("{name}: a number from 0 expected"))?;
            match name.as_str() {
                "delay_ms" => out.delay_ns = (amount * MS) as Ns,
                "jitter_ms" => out.jitter_ns = (amount * MS) as Ns,
                "reorder" => out.reorder = amount,
                "hold_ms" => out.hold_ns = (amount * MS) as Ns,
                "duplicate" => out.duplicate = amount,
                "loss" => out.loss = amount,
                "rate_kbit" => out.rate = amount * 1e3,
                _ => return Err(format!("{name}: unknown")),
            }
        }
        Ok(out)
    }

    pub fn to_json(self) -> Value {
        json!({
            "delay_ms": self.delay_ns as f64 / MS,
            "jitter_ms": self.jitter_ns as f64 / MS,
            "reorder": self.reorder,
            "hold_ms": self.hold_ns as f64 / MS,
            "duplicate": self.duplicate,
            "loss": self.loss,
            "rate_kbit": self.rate / 1e3,
        })
    }
}

/// Numbers of packets since the link was first given a quality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub delayed: u64,
    pub reordered: u64,
    pub duplicated: u64,
    pub lost: u64,
    /// Lost because the queue of a slow link was full.
    pub overflowed: u64,
}

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Time at which it arrives; `None`: never.
    pub due_ns: Option<Ns>,
    pub twice: bool,
}

const LOST: Fate = Fate {
    due_ns: None,
    twice: false,
};

/// One directed link that ends here.
#[derive(Debug)]
pub struct Link {
    pub quality: Quality,
    pub counts: Counts,
    random: Random,
    /// Time at which the last packet in order arrives.
    last_ns: Ns,
    /// Time at which a slow link has sent what it was given.
    free_ns: Ns,
}

impl Link {
    pub fn new(seed: u64) -> Link {
        Link {
            quality: Quality::default(),
            counts: Counts::default(),
            random: Random(seed),
            last_ns: 0,
            free_ns: 0,
        }
    }

    /// Changes the quality. What is under way no longer holds up what comes.
    pub fn change(&mut self, quality: Quality) {
        if self.quality != quality {
            self.quality = quality;
            (self.last_ns, self.free_ns) = (0, 0);
        }
    }

    /// Decides what becomes of the next packet. Four draws for each packet, whatever the quality
    /// is, so that one fault does not change the choices of another.
    pub fn fate(&mut self, now_ns: Ns, bytes: usize) -> Fate {
        let quality = self.quality;
        let lost = self.random.fraction() < quality.loss;
        let twice = self.random.fraction() < quality.duplicate;
        let jitter_ns = (self.random.fraction() * quality.jitter_ns as f64) as Ns;
        let held_back = self.random.fraction() < quality.reorder;
        self.counts.packets += 1;
        self.counts.bytes += bytes as u64;
        if lost {
            self.counts.lost += 1;
            return LOST;
        }
        let Some(sent_ns) = self.sent(now_ns, bytes) else {
            self.counts.overflowed += 1;
            return LOST;
        };
        let mut due_ns = sent_ns + quality.delay_ns + jitter_ns;
        if held_back {
            self.counts.reordered += 1;
            due_ns += quality.hold_ns;
        } else {
            due_ns = due_ns.max(self.last_ns);
            self.last_ns = due_ns;
        }
        self.counts.duplicated += u64::from(twice);
        self.counts.delayed += u64::from(due_ns > now_ns);
        assert!(due_ns >= now_ns, "no packet arrives before it was sent");
        Fate {
            due_ns: Some(due_ns),
            twice,
        }
    }

    /// Returns when a slow link has sent the packet; `None` if its queue is full.
    fn sent(&mut self, now_ns: Ns, bytes: usize) -> Option<Ns> {
        if self.quality.rate == 0.0 {
            return Some(now_ns);
        }
        let takes_ns = (bytes as f64 * 8e9 / self.quality.rate) as Ns;
        let sent_ns = self.free_ns.max(now_ns) + takes_ns;
        // An empty queue takes a packet of any size, or a very slow link would carry none.
        if self.free_ns > now_ns && sent_ns - now_ns > QUEUE_NS_MAX {
            return None;
        }
        self.free_ns = sent_ns;
        Some(sent_ns)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): a stream of numbers that its seed decides.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Returns a number in [0, 1).
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(quality: Value) -> Link {
        let mut link = Link::new(7);
        link.change(Quality::read(&quality).expect("it is well formed"));
        link
    }

    fn fates(quality: Value, count: u64) -> (Vec<Fate>, Counts) {
        let mut link = link(quality);
        let fates = (0..count).map(|at| link.fate(at * 1_000, 1_000));
        (fates.collect(), link.counts)
    }

    #[test]
    fn a_link_without_a_quality_passes_every_packet_at_once() {
        let (fates, counts) = fates(json!({}), 100);
        let passed = |(at, fate): (usize, &Fate)| fate.due_ns == Some(at as Ns * 1_000);
        assert!(fates.iter().enumerate().all(passed));
        assert_eq!((counts.packets, counts.delayed, counts.lost), (100, 0, 0));
    }

    #[test]
    fn jitter_delays_and_lets_no_packet_overtake_another() {
        let (fates, _) = fates(json!({"delay_ms": 5, "jitter_ms": 10}), 1_000);
        let due: Vec<_> = fates
            .iter()
            .map(|fate| fate.due_ns.expect("none is lost"))
            .collect();
        assert!(due.is_sorted());
        assert!(due[0] >= 5_000_000 && due[0] < 15_000_000);
        assert!(due
            .iter()
            .enumerate()
            .all(|(at, due)| *due <= at as Ns * 1_000 + 15_000_000));
    }

    #[test]
    fn a_packet_that_is_held_back_is_overtaken() {
        let (fates, counts) = fates(json!({"reorder": 0.25, "hold_ms": 20}), 1_000);
        let due: Vec<_> = fates.iter().filter_map(|fate| fate.due_ns).collect();
        assert!(!due.is_sorted() && due.len() == 1_000);
        assert!((200..300).contains(&counts.reordered));
    }

    #[test]
    fn shares_of_packets_are_lost_and_doubled_by_the_seed() {
        let quality = json!({"loss": 0.3, "duplicate": 0.2});
        let (fates_of_one, counts) = fates(quality.clone(), 1_000);
        assert!((250..350).contains(&counts.lost) && (100..180).contains(&counts.duplicated));
        assert_eq!(fates_of_one, fates(quality, 1_000).0);
        assert_eq!(fates(json!({"loss": 1}), 10).1.lost, 10);
    }

    #[test]
    fn a_slow_link_sends_one_packet_after_the_other_until_its_queue_is_full() {
        let (fates, counts) = fates(json!({"rate_kbit": 80}), 20);
        let due: Vec<_> = fates.iter().filter_map(|fate| fate.due_ns).collect();
        assert_eq!(due[..2], [100_000_000, 200_000_000]);
        assert_eq!((due.len(), counts.overflowed), (10, 10));
        assert!(link(json!({"rate_kbit": 1}))
            .fate(0, 1_000)
            .due_ns
            .is_some());
    }

    #[test]
    fn an_unknown_name_and_a_negative_number_are_refused() {
        let refused = |value| Quality::read(&value).expect_err("it is refused");
        assert_eq!(refused(json!({"delay": 3})), "delay: unknown");
        assert_eq!(
            refused(json!({"loss": -1})),
            "loss: a number from 0 expected"
        );
    }
}
