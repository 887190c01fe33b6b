//! Parses a line of `history.jsonl` exactly as the journal writes it: fields in a fixed order, no
//! spaces between them.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::FxHasher;

pub use crate::kind::Kind;
use crate::words::{Word, Words, NONE};

/// The value of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    None,
    Int(i64),
    /// The range of an array's elements in `numbers`.
    Ints(Range<usize>),
    /// The range of a JSON object in `raw`. It is not parsed.
    Object(Range<usize>),
    /// The range in `raw` of an integer that does not fit 64 bits, or of an array with one.
    Big(Range<usize>),
}

/// The process of the nemesis. No client has this number.
pub const NEMESIS: i64 = i64::MIN;

/// The fields of a line.
pub struct Line {
    pub index: i64,
    pub process: i64,
    pub kind: Kind,
    pub f: Word,
    pub time_ns: i64,
    pub value: Value,
    pub key: Option<i64>,
    pub node: Word,
    pub error: Word,
}

/// Why a line could not be read.
#[derive(Debug, PartialEq, Eq)]
pub enum LineError {
    /// The line does not have the form that the journal writes. It may still be a valid operation.
    Form,
    /// The field does not fit 64 bits.
    TooLarge(&'static str),
}

/// Reads lines one after the other. Most lines repeat parts of earlier ones and differ only in
/// index, time and value, so the parsed parts are cached.
pub struct Lines<'a> {
    at: Cursor<'a>,
    /// The elements of all values that are arrays.
    pub numbers: Vec<i64>,
    /// The text of all values that are not parsed.
    pub raw: Vec<u8>,
    pub fs: Words,
    pub nodes: Words,
    pub errors: Words,
    calls: PartCache<'a, (i64, Kind, Word)>,
    /// The last time, as text and as number.
    time: (&'a [u8], i64),
    /// The last array of each process without its closing bracket, and the range of its elements:
    /// what a process reads mostly begins with what it read before.
    arrays: [(&'a [u8], Range<usize>); ARRAYS],
    ends: PartCache<'a, (Option<i64>, Word, Word)>,
}

/// Size of a short element of an array, by which the number of elements is estimated. What is not
/// used of the memory takes none of the machine's.
const NUMBER_BYTES: usize = 4;

/// Number of slots for last arrays; processes share them.
const ARRAYS: usize = 16;

impl<'a> Lines<'a> {
    pub fn new(text: &'a [u8]) -> Lines<'a> {
        Lines {
            at: Cursor { rest: text },
            // Growing would copy it, and the pages of each copy stay with the allocator.
            numbers: Vec::with_capacity(text.len() / NUMBER_BYTES),
            raw: Vec::with_capacity(text.len()),
            fs: Words::default(),
            nodes: Words::default(),
            errors: Words::default(),
            calls: PartCache::new(),
            time: (b"", 0),
            arrays: [const { (b"".as_slice(), 0..0) }; ARRAYS],
            ends: PartCache::new(),
        }
    }

    pub fn is_over(&self) -> bool {
        self.at.rest.is_empty()
    }

    #[inline]
    pub fn line(&mut self) -> Result<Line, LineError> {
        self.at.expect(b"{\"index\":")?;
        let index = self.at.int("index")?;
        let from = self.at.rest;
        let (process, kind, f) = match self.calls.find(from) {
            Some((part, call)) => {
                self.at.skip(part);
                call
            }
            None => {
                let call = self.call()?;
                self.calls.insert(from, self.at.rest, call)
            }
        };
        let from = self.at.rest;
        let time_ns = match self.time {
            (part, time_ns) if !part.is_empty() && from.starts_with(part) => {
                self.at.skip(part.len());
                time_ns
            }
            _ => {
                let time_ns = self.at.int("time_ns")?;
                self.at.expect(b",\"value\":")?;
                self.time = (&from[..from.len() - self.at.rest.len()], time_ns);
                time_ns
            }
        };
        let value = self.value(process)?;
        let from = self.at.rest;
        let (key, node, error) = match self.ends.find(from) {
            Some((part, end)) => {
                self.at.skip(part);
                end
            }
            None => {
                let end = self.end()?;
                self.ends.insert(from, self.at.rest, end)
            }
        };
        Ok(Line {
            index,
            process,
            kind,
            f,
            time_ns,
            value,
            key,
            node,
            error,
        })
    }

    /// Parses the fields process to f.
    fn call(&mut self) -> Result<(i64, Kind, Word), LineError> {
        let at = &mut self.at;
        at.expect(b",\"process\":")?;
        let process = match at.rest {
            [b'"', ..] => at.expect(b"\"nemesis\"").map(|()| NEMESIS)?,
            _ => match at.int("process")? {
                NEMESIS => return Err(LineError::TooLarge("process")),
                number => number,
            },
        };
        at.expect(b",\"kind\":\"")?;
        let kind = at.kind()?;
        at.expect(b",\"f\":")?;
        let f = self.fs.word(at.text()?);
        at.expect(b",\"time_ns\":")?;
        Ok((process, kind, f))
    }

    fn value(&mut self, process: i64) -> Result<Value, LineError> {
        match self.at.rest {
            [b'n', ..] => self.at.expect(b"null").map(|()| Value::None),
            [b'[', ..] => self.ints(process),
            [b'{', ..] => {
                let from = self.at.rest;
                self.at.object()?;
                Ok(Value::Object(self.keep(from)))
            }
            from => match self.at.number()? {
                Some(number) => Ok(Value::Int(number)),
                None => Ok(Value::Big(self.keep(from))),
            },
        }
    }

    /// Keeps the part of `from` that precedes the current position.
    fn keep(&mut self, from: &[u8]) -> Range<usize> {
        let at = self.raw.len();
        self.raw
            .extend_from_slice(&from[..from.len() - self.at.rest.len()]);
        at..self.raw.len()
    }

    fn ints(&mut self, process: i64) -> Result<Value, LineError> {
        let (text, from) = (self.at.rest, self.numbers.len());
        let (part, known) = &mut self.arrays[process as usize % ARRAYS];
        let continues = matches!(text.get(part.len()), Some(b',' | b']')) && text.starts_with(part);
        if continues {
            self.at.skip(part.len());
            self.numbers.extend_from_within(known.clone());
        } else {
            self.at.skip(1);
        }
        let (mut first, mut big) = (!continues, false);
        while !matches!(self.at.rest, [b']', ..]) {
            if !first {
                self.at.expect(b",")?;
            }
            first = false;
            match self.at.number()? {
                Some(number) => self.numbers.push(number),
                None => big = true,
            }
        }
        let array = &text[..text.len() - self.at.rest.len()];
        self.at.skip(1);
        if big {
            self.numbers.truncate(from);
            return Ok(Value::Big(self.keep(text)));
        }
        let numbers = from..self.numbers.len();
        if !numbers.is_empty() {
            (*part, *known) = (array, numbers.clone());
        }
        Ok(Value::Ints(numbers))
    }

    /// Parses the fields key to error.
    fn end(&mut self) -> Result<(Option<i64>, Word, Word), LineError> {
        let at = &mut self.at;
        at.expect(b",\"key\":")?;
        let key = at.unless_null(|at| at.int("key"))?;
        at.expect(b",\"node\":")?;
        let node = at.unless_null(Cursor::text)?;
        at.expect(b",\"error\":")?;
        let error = at.unless_null(Cursor::text)?;
        at.expect(b"}\n")?;
        Ok((
            key,
            node.map_or(NONE, |node| self.nodes.word(node)),
            error.map_or(NONE, |error| self.errors.word(error)),
        ))
    }
}

/// Returns whether a text is one JSON object from its first byte to its last, without a check of what
/// is between its braces.
pub fn is_object(text: &[u8]) -> bool {
    let mut at = Cursor { rest: text };
    text.first() == Some(&b'{') && at.object().is_ok() && at.rest.is_empty()
}

/// Caches parts of lines with their parsed values, one per slot.
struct PartCache<'a, T> {
    slots: Vec<Option<(&'a [u8], T)>>,
}

impl<'a, T: Copy> PartCache<'a, T> {
    fn new() -> PartCache<'a, T> {
        PartCache {
            slots: vec![None; SLOTS],
        }
    }

    /// Returns the length and the parsed value of the cached part with which `text` begins.
    #[inline]
    fn find(&self, text: &[u8]) -> Option<(usize, T)> {
        match self.slots[slot(text)?] {
            Some((part, parsed)) if text.starts_with(part) => Some((part.len(), parsed)),
            _ => None,
        }
    }

    /// Caches the part of `text` that precedes `rest`.
    fn insert(&mut self, text: &'a [u8], rest: &[u8], parsed: T) -> T {
        if let Some(slot) = slot(text) {
            self.slots[slot] = Some((&text[..text.len() - rest.len()], parsed));
        }
        parsed
    }
}

const SLOTS: usize = 256;

/// The slot of a part, from the bytes in which most parts differ.
#[inline]
fn slot(text: &[u8]) -> Option<usize> {
    let mut hasher = FxHasher::default();
    text.get(8..32)?.hash(&mut hasher);
    Some(hasher.finish() as usize % SLOTS)
}

struct Cursor<'a> {
    /// The text from the current position on.
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn expect<const N: usize>(&mut self, part: &[u8; N]) -> Result<(), LineError> {
        match self.rest.split_first_chunk() {
            Some((found, rest)) if found == part => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(LineError::Form),
        }
    }

    fn unless_null<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, LineError>,
    ) -> Result<Option<T>, LineError> {
        match self.rest {
            [b'n', ..] => self.expect(b"null").map(|()| None),
            _ => read(self).map(Some),
        }
    }

    fn kind(&mut self) -> Result<Kind, LineError> {
        match self.rest {
            [b'o', ..] => self.expect(b"ok\"").map(|()| Kind::Ok),
            [b'f', ..] => self.expect(b"fail\"").map(|()| Kind::Fail),
            [b'i', b'n', b'v', ..] => self.expect(b"invoke\"").map(|()| Kind::Invoke),
            _ => self.expect(b"info\"").map(|()| Kind::Info),
        }
    }

    fn int(&mut self, field: &'static str) -> Result<i64, LineError> {
        self.number()?.ok_or(LineError::TooLarge(field))
    }

    /// Parses an integer; `None` if it does not fit 64 bits.
    fn number(&mut self) -> Result<Option<i64>, LineError> {
        let from = self.rest;
        let negative = matches!(from, [b'-', ..]);
        let unsigned = &from[usize::from(negative)..];
        let mut found: u64 = 0;
        let mut digits = 0;
        for digit in unsigned.iter().map(|byte| byte.wrapping_sub(b'0')) {
            if digit > 9 {
                break;
            }
            found = found.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        }
        self.rest = &unsigned[digits..];
        match digits {
            0 => Err(LineError::Form),
            _ if digits > 1 && unsigned[0] == b'0' => Err(LineError::Form),
            1..19 if negative => Ok(Some(-(found as i64))),
            1..19 => Ok(Some(found as i64)),
            _ => {
                let text = &from[..digits + usize::from(negative)];
                Ok(std::str::from_utf8(text).expect("digits").parse().ok())
            }
        }
    }

    /// Parses a JSON string, which stays raw.
    fn text(&mut self) -> Result<&'a [u8], LineError> {
        let text = self.string()?;
        std::str::from_utf8(text).map_err(|_| LineError::Form)?;
        Ok(text)
    }

    /// As `text`, but the bytes need not be UTF-8.
    fn string(&mut self) -> Result<&'a [u8], LineError> {
        let from = self.rest;
        if !matches!(from, [b'"', ..]) {
            return Err(LineError::Form);
        }
        self.skip(1);
        loop {
            let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let plain = self.rest.iter().position(ends).ok_or(LineError::Form)?;
            self.skip(plain);
            match self.rest[0] {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => return Err(LineError::Form),
            }
        }
        self.skip(1);
        Ok(&from[..from.len() - self.rest.len()])
    }

    /// Skips one of the escape sequences that the journal writes.
    fn escape(&mut self) -> Result<(), LineError> {
        self.rest = match self.rest {
            [_, b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => rest,
            // Control characters without a short escape.
            [_, b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f', rest @ ..] => rest,
            [_, b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', rest @ ..] => rest,
            _ => return Err(LineError::Form),
        };
        Ok(())
    }

    /// Skips to the brace that ends the object, without checking that the text between is JSON.
    fn object(&mut self) -> Result<(), LineError> {
        let from = self.rest;
        let mut depth = 0_u32;
        loop {
            match self.rest {
                [b'"', ..] => {
                    self.string()?;
                    continue;
                }
                [b'{', ..] => depth += 1,
                [b'}', ..] => depth -= 1,
                [_, ..] => {}
                [] => return Err(LineError::Form),
            }
            self.skip(1);
            if depth == 0 {
                let object = &from[..from.len() - self.rest.len()];
                return std::str::from_utf8(object)
                    .map(drop)
                    .map_err(|_| LineError::Form);
            }
        }
    }
}
