//! Delays, reorders, duplicates, slows down and loses the packets that reach a pod from other
//! nodes.
//!
//! Rules of iptables put the packets of the chosen links into a queue of the kernel, and this
//! program says of each when it passes, or that it does not. It takes commands on a Unix socket, one
//! JSON object per line in and out: `set`, `state`, `probe`, `heard`. When it dies, the kernel drops
//! what it holds and the rules, which have `--queue-bypass`, let everything pass.
//!
//! A queue cannot emit a packet twice. A copy is sent from a raw socket to this pod's own address: it
//! arrives over the loopback interface, whose packets are not queued, and takes the same way through
//! the packet filter from there.

mod link;
mod netlink;
mod probes;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io::{BufRead, BufReader, Error, Result, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use serde_json::{json, Value};

use crate::link::{Link, Ns, Quality};
use crate::netlink::{Packet, Queue, Verdict};
use crate::probes::{Probes, Volley};

const CONTROL_TIMEOUT: Duration = Duration::from_secs(2);

/// A packet, or a copy of one, that waits for its time.
struct Held {
    source: [u8; 4],
    packet: Packet,
    copy: bool,
}

struct Program {
    queue: Queue,
    /// Socket for copies, or the reason why there is none.
    raw: std::result::Result<OwnedFd, String>,
    probes: Probes,
    links: BTreeMap<[u8; 4], Link>,
    held: BTreeMap<u64, Held>,
    /// Due times of what is held, earliest first, in the order of arrival.
    due: BinaryHeap<Reverse<(Ns, u64)>>,
    arrivals: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments[1..] == ["check"] {
        check();
    }
    let [_, number, path] = &arguments[..] else {
        eprintln!("usage: packet-queue check | NUMBER SOCKET");
        std::process::exit(2);
    };
    let number = number.parse().unwrap_or_else(|_| {
        eprintln!("packet-queue: {number}: the number of a queue expected");
        std::process::exit(2);
    });
    if let Err(error) = run(number, path) {
        // The caller waits for one line, which is "ready" or the reason.
        println!("{error}");
        std::process::exit(1);
    }
}

/// Tries what the program needs of the kernel and exits.
fn check() -> ! {
    let queue = Queue::bind(0).map_err(|error| format!("no packet queue: {error}"));
    let raw = raw_socket().map_err(|error| format!("no raw socket: {error}"));
    if let Err(error) = queue.and(raw) {
        println!("{error}");
        std::process::exit(1);
    }
    std::process::exit(0)
}

fn run(number: u16, path: &str) -> Result<()> {
    let mut program = Program {
        queue: Queue::bind(number)?,
        raw: raw_socket().map_err(|error| error.to_string()),
        probes: Probes::open()?,
        links: BTreeMap::new(),
        held: BTreeMap::new(),
        due: BinaryHeap::new(),
        arrivals: 0,
    };
    let _ = fs::remove_file(path); // of a program that was killed
    let control = UnixListener::bind(path)?;
    control.set_nonblocking(true)?;
    println!("ready");
    loop {
        let fds = [
            program.queue.as_raw_fd(),
            program.probes.socket.as_raw_fd(),
            control.as_raw_fd(),
        ];
        wait(&fds, program.due_ns())?;
        program.work()?;
        if let Ok((stream, _)) = control.accept() {
            // A caller that does not write, or does not read, ends alone.
            let _ = answer(&mut program, stream);
        }
    }
}

fn answer(program: &mut Program, mut stream: UnixStream) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CONTROL_TIMEOUT))?;
    stream.set_write_timeout(Some(CONTROL_TIMEOUT))?;
    let mut line = String::new();
    if BufReader::new(&stream).read_line(&mut line)? == 0 {
        return Ok(()); // whoever connected asked only whether this program runs
    }
    let answer = match serde_json::from_str(&line) {
        Ok(command) => program.execute(&command)?,
        Err(error) => Err(error.to_string()),
    };
    let text = match answer {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error }),
    };
    stream.write_all(format!("{text}\n").as_bytes())
}

impl Program {
    /// Returns the time at which something is to be sent.
    fn due_ns(&self) -> Option<Ns> {
        let packet = self.due.peek().map(|Reverse((due_ns, _))| *due_ns);
        packet.into_iter().chain(self.probes.due_ns()).min()
    }

    /// Does everything that is due now.
    fn work(&mut self) -> Result<()> {
        while let Some(packet) = self.queue.next()? {
            self.take(packet)?;
        }
        self.probes.receive(now_ns);
        self.probes.send(now_ns(), now_ns);
        self.release(now_ns())
    }

    fn take(&mut self, packet: Packet) -> Result<()> {
        let found = packet.source().and_then(|source| {
            let link = self.links.get_mut(&source)?;
            Some((source, link))
        });
        let Some((source, link)) = found else {
            return self.queue.verdict(packet.id, Verdict::Accept);
        };
        let now_ns = now_ns();
        let fate = link.fate(now_ns, packet.bytes.len());
        let Some(due_ns) = fate.due_ns else {
            return self.queue.verdict(packet.id, Verdict::Drop);
        };
        let copy = fate.twice.then(|| Packet {
            id: packet.id,
            bytes: packet.bytes.clone(),
        });
        self.hold(due_ns, source, packet, false);
        if let Some(copy) = copy {
            self.hold(due_ns, source, copy, true);
        }
        Ok(())
    }

    fn hold(&mut self, due_ns: Ns, source: [u8; 4], packet: Packet, copy: bool) {
        self.arrivals += 1;
        self.due.push(Reverse((due_ns, self.arrivals)));
        let held = Held {
            source,
            packet,
            copy,
        };
        let before = self.held.insert(self.arrivals, held);
        assert!(before.is_none(), "each packet has a number of its own");
    }

    /// Lets the packets pass that are due.
    fn release(&mut self, now_ns: Ns) -> Result<()> {
        while let Some(Reverse((due_ns, number))) = self.due.peek().copied() {
            if due_ns > now_ns {
                break;
            }
            self.due.pop();
            if let Some(held) = self.held.remove(&number) {
                self.pass(&held)?;
            }
        }
        assert!(
            self.due.len() >= self.held.len(),
            "each packet is due at a time"
        );
        Ok(())
    }

    fn pass(&self, held: &Held) -> Result<()> {
        if !held.copy {
            return self.queue.verdict(held.packet.id, Verdict::Accept);
        }
        if let Ok(raw) = &self.raw {
            send_raw(raw, &held.packet.bytes);
        }
        Ok(())
    }

    /// Executes a command. The outer error ends the program, the inner one is the caller's.
    fn execute(&mut self, command: &Value) -> Result<std::result::Result<Value, String>> {
        Ok(match command["do"].as_str() {
            Some("set") => match read_links(&command["links"]) {
                Ok(links) => {
                    self.set(links, command["seed"].as_u64().unwrap_or(0))?;
                    Ok(Value::Null)
                }
                Err(error) => Err(error),
            },
            Some("state") => Ok(self.state()),
            Some("probe") => self.probe(command),
            Some("heard") => {
                self.probes.receive(now_ns);
                Ok(self.probes.heard(command["exchange"].as_u64().unwrap_or(0)))
            }
            _ => Err("do: set, state, probe or heard expected".to_owned()),
        })
    }

    /// Replaces the qualities of all links. What is held of a link that has none any more passes.
    fn set(&mut self, links: BTreeMap<[u8; 4], Quality>, seed: u64) -> Result<()> {
        self.links.retain(|source, _| links.contains_key(source));
        for (source, quality) in links {
            let own = seed ^ u64::from(u32::from_be_bytes(source));
            self.links
                .entry(source)
                .or_insert_with(|| Link::new(own))
                .change(quality);
        }
        let free = self
            .held
            .iter()
            .filter(|(_, held)| !self.links.contains_key(&held.source));
        let free: Vec<u64> = free.map(|(number, _)| *number).collect();
        for number in free {
            let held = self.held.remove(&number).expect("it was just found");
            self.pass(&held)?;
        }
        Ok(())
    }

    fn probe(&mut self, command: &Value) -> std::result::Result<Value, String> {
        let exchange = command["exchange"]
            .as_u64()
            .ok_or("exchange: a whole number expected")?;
        let volleys = command["to"].as_array().ok_or("to: a list expected")?;
        let now_ns = now_ns();
        for volley in volleys {
            self.probes.add(Volley::read(exchange, volley, now_ns)?);
        }
        Ok(Value::Null)
    }

    fn state(&self) -> Value {
        let links = self.links.iter().map(|(source, link)| {
            let counts = link.counts;
            let said = json!({
                "quality": link.quality.to_json(),
                "packets": counts.packets,
                "bytes": counts.bytes,
                "delayed": counts.delayed,
                "reordered": counts.reordered,
                "duplicated": counts.duplicated,
                "lost": counts.lost,
                "overflowed": counts.overflowed,
            });
            (Ipv4Addr::from(*source).to_string(), said)
        });
        json!({
            "port": self.probes.socket.local_addr().map_or(0, |address| address.port()),
            "links": links.collect::<Value>(),
            "held": self.held.len(),
            "raw": self.raw.as_ref().err(),
        })
    }
}

fn read_links(value: &Value) -> std::result::Result<BTreeMap<[u8; 4], Quality>, String> {
    let entries = value.as_object().ok_or("links: an object expected")?;
    let read = entries.iter().map(|(source, quality)| {
        let address: Ipv4Addr = source
            .parse()
            .map_err(|_| format!("{source}: no IPv4 address"))?;
        Ok((address.octets(), Quality::read(quality)?))
    });
    read.collect()
}

/// Returns the time of the kernel's monotonic clock, which all pods share.
fn now_ns() -> Ns {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is that of `time`.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(failed, 0, "every kernel has a monotonic clock");
    time.tv_sec as Ns * 1_000_000_000 + time.tv_nsec as Ns
}

/// Waits until one of the descriptors can be read or the time has come.
fn wait(fds: &[RawFd], due_ns: Option<Ns>) -> Result<()> {
    let poll = |fd: &RawFd| libc::pollfd {
        fd: *fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polled: Vec<_> = fds.iter().map(poll).collect();
    let left_ns = due_ns.map(|due_ns| due_ns.saturating_sub(now_ns()));
    let timeout = left_ns.map(|left_ns| libc::timespec {
        tv_sec: (left_ns / 1_000_000_000) as i64,
        tv_nsec: (left_ns % 1_000_000_000) as i64,
    });
    let until = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    let count = polled.len() as libc::nfds_t;
    // SAFETY: the pointers are those of `polled`, which has `count` entries, and of `timeout`.
    let found = unsafe { libc::ppoll(polled.as_mut_ptr(), count, until, std::ptr::null()) };
    let error = Error::last_os_error();
    if found < 0 && error.raw_os_error() != Some(libc::EINTR) {
        return Err(error);
    }
    Ok(())
}

fn raw_socket() -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_RAW) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a packet to the address in its own header. A copy that the kernel refuses is lost, as any
/// copy may be.
fn send_raw(raw: &OwnedFd, packet: &[u8]) {
    let Some(target) = packet.get(16..20) else {
        return;
    };
    let address = u32::from_ne_bytes(target.try_into().expect("4 bytes"));
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: address },
        sin_zero: [0; 8],
    };
    let size = size_of::<libc::sockaddr_in>() as u32;
    let (at, to) = (packet.as_ptr().cast(), (&raw const to).cast());
    // SAFETY: the pointers and sizes are those of `packet` and `to`.
    unsafe { libc::sendto(raw.as_raw_fd(), at, packet.len(), 0, to, size) };
}
