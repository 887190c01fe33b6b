//! The kernel's packet queue (NFQUEUE), spoken to in netlink messages.
//!
//! Layout of the messages: Linux, include/uapi/linux/netfilter/nfnetlink_queue.h.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = 0;
const VERDICT: u16 = 1;
const CONFIG: u16 = 2;
const NLMSG_ERROR: u16 = 2;

const CFG_CMD: u16 = 1;
const CFG_PARAMS: u16 = 2;
const CFG_QUEUE_MAXLEN: u16 = 3;
const CFG_MASK: u16 = 4;
const CFG_FLAGS: u16 = 5;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FAIL_OPEN: u32 = 1;

const ATTRIBUTE_HEADER: u16 = 1;
const ATTRIBUTE_VERDICT: u16 = 2;
const ATTRIBUTE_PAYLOAD: u16 = 10;

const HEADER_BYTES: usize = 16 + 4;
/// Packets that the kernel holds for us at most. With more it lets new ones pass at once.
const QUEUED_MAX: u32 = 65_536;
const BUFFER_BYTES: usize = 1 << 17;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Drop = 0,
    Accept = 1,
}

/// One packet that waits for a verdict.
#[derive(Debug)]
pub struct Packet {
    pub id: u32,
    /// The packet from its IP header on.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// Returns the address that the packet comes from; `None` unless it is IPv4.
    pub fn source(&self) -> Option<[u8; 4]> {
        let version = self.bytes.first()? >> 4;
        (version == 4).then(|| self.bytes.get(12..16)?.try_into().ok())?
    }
}

/// One queue of the kernel, bound to this process. When it is dropped, the kernel drops what it
/// holds, and rules with `--queue-bypass` let later packets pass.
pub struct Queue {
    socket: OwnedFd,
    number: u16,
    buffer: Vec<u8>,
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Queue {
    /// Binds a queue; whole packets are copied from it. Fails with EPERM without CAP_NET_ADMIN and
    /// with EBUSY if another process has it.
    pub fn bind(number: u16) -> Result<Queue> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_NETFILTER) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let buffer = vec![0; BUFFER_BYTES];
        let mut queue = Queue {
            socket,
            number,
            buffer,
        };
        // A burst must not be lost between kernel and program: that would be a fault of ours.
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20)?;
        set_option(fd, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1)?;
        queue.configure(&[(CFG_CMD, &[COMMAND_BIND, 0, 0, 0])])?;
        let mut copy = 0xffff_u32.to_be_bytes().to_vec();
        copy.push(COPY_PACKET);
        let open = FAIL_OPEN.to_be_bytes();
        queue.configure(&[
            (CFG_PARAMS, &copy),
            (CFG_QUEUE_MAXLEN, &QUEUED_MAX.to_be_bytes()),
            (CFG_FLAGS, &open),
            (CFG_MASK, &open),
        ])?;
        Ok(queue)
    }

    /// Returns the next packet; `None` if none waits now.
    pub fn next(&mut self) -> Result<Option<Packet>> {
        loop {
            let Some(length) = self.receive(libc::MSG_DONTWAIT)? else {
                return Ok(None);
            };
            if let Some(packet) = parse(&self.buffer[..length]) {
                return Ok(Some(packet));
            }
        }
    }

    /// Gives the verdict on a packet.
    pub fn verdict(&self, id: u32, verdict: Verdict) -> Result<()> {
        let mut body = (verdict as u32).to_be_bytes().to_vec();
        body.extend(id.to_be_bytes());
        self.send(VERDICT, 0, &[(ATTRIBUTE_VERDICT, &body)])
    }

    fn configure(&mut self, attributes: &[(u16, &[u8])]) -> Result<()> {
        self.send(CONFIG, libc::NLM_F_ACK as u16, attributes)?;
        loop {
            let length = self.receive(0)?.expect("the call waits for an answer");
            let message = &self.buffer[..length];
            if u16_at(message, 4) == NLMSG_ERROR {
                let code = i32::from_ne_bytes(message[16..20].try_into().expect("4 bytes"));
                return match code {
                    0 => Ok(()),
                    code => Err(Error::from_raw_os_error(-code)),
                };
            }
        }
    }

    fn send(&self, kind: u16, flags: u16, attributes: &[(u16, &[u8])]) -> Result<()> {
        let mut message = vec![0; HEADER_BYTES];
        message[4..6].copy_from_slice(&(SUBSYSTEM | kind).to_ne_bytes());
        message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16 | flags).to_ne_bytes());
        message[18..20].copy_from_slice(&self.number.to_be_bytes());
        for (attribute, value) in attributes {
            message.extend((4 + value.len() as u16).to_ne_bytes());
            message.extend(attribute.to_ne_bytes());
            message.extend(*value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        let (at, fd) = (message.as_ptr().cast(), self.socket.as_raw_fd());
        // SAFETY: the pointer and the length are those of `message`.
        match unsafe { libc::send(fd, at, message.len(), 0) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Receives one datagram into the buffer and returns its length.
    fn receive(&mut self, flags: i32) -> Result<Option<usize>> {
        let (at, room) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
        // SAFETY: the pointer and the length are those of the buffer.
        let length = unsafe { libc::recv(self.socket.as_raw_fd(), at, room, flags) };
        if length >= 0 {
            return Ok(Some(length as usize));
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) if flags & libc::MSG_DONTWAIT != 0 => Ok(None),
            _ => Err(error),
        }
    }
}

fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> Result<()> {
    let (at, size) = ((&raw const value).cast(), size_of::<i32>() as u32);
    // SAFETY: the pointer and the size are those of `value`.
    match unsafe { libc::setsockopt(fd, level, name, at, size) } {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns the packet of a message; `None` if the message is something else.
fn parse(message: &[u8]) -> Option<Packet> {
    if message.len() < HEADER_BYTES || u16_at(message, 4) != SUBSYSTEM | PACKET {
        return None;
    }
    let (mut id, mut bytes) = (None, Vec::new());
    let mut rest = &message[HEADER_BYTES..];
    while rest.len() >= 4 {
        let length = usize::from(u16_at(rest, 0)).clamp(4, rest.len());
        let value = &rest[4..length];
        match u16_at(rest, 2) & 0x3fff {
            ATTRIBUTE_HEADER => id = value.get(..4).and_then(|id| id.try_into().ok()),
            ATTRIBUTE_PAYLOAD => bytes = value.to_vec(),
            _ => {}
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    let id = u32::from_be_bytes(id?);
    Some(Packet { id, bytes })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = (4 + value.len() as u16).to_ne_bytes().to_vec();
        out.extend(kind.to_ne_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn a_packet_has_an_id_and_the_address_it_comes_from() {
        let mut message = vec![0; HEADER_BYTES];
        message[4..6].copy_from_slice(&(SUBSYSTEM | PACKET).to_ne_bytes());
        message.extend(attribute(ATTRIBUTE_HEADER, &[0, 0, 1, 2, 8, 0, 1]));
        let mut ip = vec![0x45; 21];
        ip[12..16].copy_from_slice(&[10, 0, 0, 3]);
        message.extend(attribute(ATTRIBUTE_PAYLOAD, &ip));
        let packet = parse(&message).expect("it is a packet");
        assert_eq!((packet.id, packet.source()), (258, Some([10, 0, 0, 3])));
        assert_eq!(packet.bytes, ip);
        message[4] = 9;
        assert!(parse(&message).is_none());
    }
}
