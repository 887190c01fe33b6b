//! Probes: datagrams that one pod's program sends to another's, which notes when each arrives.
//!
//! All pods run on one kernel and share its monotonic clock, so a probe shows how long one
//! direction of a link takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use serde_json::{json, Value};

use crate::link::Ns;

const HEADER_BYTES: usize = 24;
const BYTES_MAX: usize = 1_400;
const PROBES_MAX: u64 = 10_000;
/// Number of exchanges whose arrivals are remembered.
const EXCHANGES_MAX: usize = 64;

/// Probes that are to be sent to one address.
pub struct Volley {
    exchange: u64,
    to: SocketAddr,
    count: u64,
    bytes: usize,
    gap_ns: Ns,
    next: u64,
    pub due_ns: Ns,
}

impl Volley {
    /// Reads a volley: address, port, count, bytes of each probe, and the gap between two.
    pub fn read(exchange: u64, value: &Value, now_ns: Ns) -> Result<Volley, String> {
        let number = |name: &str| {
            let found = value[name].as_u64();
            found.ok_or_else(|| format!("{name}: a whole number expected"))
        };
        let address = value["address"].as_str().and_then(|text| text.parse().ok());
        let address: Ipv4Addr = address.ok_or("address: an IPv4 address expected")?;
        let port = u16::try_from(number("port")?).map_err(|_| "port: too large")?;
        Ok(Volley {
            exchange,
            to: SocketAddr::new(IpAddr::V4(address), port),
            count: number("count")?.min(PROBES_MAX),
            bytes: (number("bytes")? as usize).clamp(HEADER_BYTES, BYTES_MAX),
            gap_ns: number("gap_us")?.min(1_000_000) * 1_000,
            next: 0,
            due_ns: now_ns,
        })
    }
}

/// What arrived of one exchange over one link.
#[derive(Default)]
struct Heard {
    seen: BTreeSet<u64>,
    /// Probes that arrived once more.
    copies: u64,
    /// Probes that arrived after a later one.
    overtaken: u64,
    delays_ns: Vec<Ns>,
    first_ns: Ns,
    last_ns: Ns,
}

impl Heard {
    fn hear(&mut self, number: u64, sent_ns: Ns, now_ns: Ns) {
        if self.seen.is_empty() {
            self.first_ns = now_ns;
        }
        self.last_ns = now_ns;
        let later = self.seen.last().is_some_and(|last| *last > number);
        if !self.seen.insert(number) {
            self.copies += 1;
            return;
        }
        self.overtaken += u64::from(later);
        self.delays_ns.push(now_ns.saturating_sub(sent_ns));
    }

    fn to_json(&self) -> Value {
        let mut delays = self.delays_ns.clone();
        delays.sort_unstable();
        let ms = |ns: Ns| ns as f64 / 1e6;
        json!({
            "arrived": delays.len(),
            "copies": self.copies,
            "overtaken": self.overtaken,
            "delay_ms_min": ms(delays[0]),
            "delay_ms_median": ms(delays[delays.len() / 2]),
            "delay_ms_max": ms(delays[delays.len() - 1]),
            "span_ms": ms(self.last_ns - self.first_ns),
        })
    }
}

/// The socket of the probes, what is to be sent from it and what arrived.
pub struct Probes {
    pub socket: UdpSocket,
    volleys: Vec<Volley>,
    heard: BTreeMap<u64, BTreeMap<Ipv4Addr, Heard>>,
}

impl Probes {
    pub fn open() -> std::io::Result<Probes> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.set_nonblocking(true)?;
        let (volleys, heard) = (Vec::new(), BTreeMap::new());
        Ok(Probes {
            socket,
            volleys,
            heard,
        })
    }

    pub fn add(&mut self, volley: Volley) {
        self.volleys.push(volley);
    }

    /// Returns the time of the next probe to send.
    pub fn due_ns(&self) -> Option<Ns> {
        self.volleys.iter().map(|volley| volley.due_ns).min()
    }

    /// Sends the probes that are due. One that the kernel refuses counts as lost.
    pub fn send(&mut self, now_ns: Ns, clock: impl Fn() -> Ns) {
        for volley in &mut self.volleys {
            while volley.due_ns <= now_ns && volley.next < volley.count {
                let mut bytes = vec![0; volley.bytes];
                bytes[..8].copy_from_slice(&volley.exchange.to_be_bytes());
                bytes[8..16].copy_from_slice(&volley.next.to_be_bytes());
                bytes[16..24].copy_from_slice(&clock().to_be_bytes());
                let _ = self.socket.send_to(&bytes, volley.to);
                volley.next += 1;
                volley.due_ns += volley.gap_ns;
            }
        }
        self.volleys.retain(|volley| volley.next < volley.count);
    }

    /// Notes every probe that has arrived.
    pub fn receive(&mut self, clock: impl Fn() -> Ns) {
        let mut bytes = [0; BYTES_MAX];
        loop {
            let (length, from) = match self.socket.recv_from(&mut bytes) {
                Ok(found) => found,
                // A port that was closed since: the error of a probe sent earlier.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => return,
            };
            let IpAddr::V4(source) = from.ip() else {
                continue;
            };
            if length < HEADER_BYTES {
                continue;
            }
            let number =
                |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
            let exchange = self.heard.entry(number(0)).or_default();
            exchange
                .entry(source)
                .or_default()
                .hear(number(8), number(16), clock());
            while self.heard.len() > EXCHANGES_MAX {
                self.heard.pop_first();
            }
        }
    }

    /// Returns what arrived of an exchange, by the address that it came from.
    pub fn heard(&self, exchange: u64) -> Value {
        let heard = self.heard.get(&exchange).into_iter().flatten();
        heard
            .map(|(source, heard)| (source.to_string(), heard.to_json()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_overtaken_probes_are_counted_apart() {
        let mut heard = Heard::default();
        for (number, now_ns) in [(0, 30), (2, 40), (1, 50), (2, 60), (3, 70)] {
            heard.hear(number, 10, now_ns * 1_000_000);
        }
        let said = heard.to_json();
        let counts = ["arrived", "copies", "overtaken"].map(|name| said[name].as_u64());
        assert_eq!(counts, [Some(4), Some(1), Some(1)]);
        assert_eq!(said["span_ms"].as_f64(), Some(40.0));
    }
}
