//! A line of `history.jsonl`, as the journal writes it: its fields in order, no space between them.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::FxHasher;

use crate::words::{Word, Words, NONE};

/// What is known of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Invoke,
    Ok,
    Fail,
    Info,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invoke => "invoke",
            Kind::Ok => "ok",
            Kind::Fail => "fail",
            Kind::Info => "info",
        }
    }
}

/// What an op says beside its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    None,
    Int(i64),
    /// Where its numbers are.
    Ints(Range<usize>),
    /// Where a JSON object is, which is not looked into.
    Object(Range<usize>),
    /// A number, or an array with one, that takes more than 64 bits.
    Big,
}

/// The process of every fault, a number that no client's has.
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
pub enum Unread {
    /// Not as the journal writes it; it may be an op all the same.
    Form,
    /// A field that takes more than 64 bits.
    Beyond(&'static str),
}

/// Reads lines, one after the other. Most say what others said, but for index, time and value.
pub struct Lines<'a> {
    at: Cursor<'a>,
    /// Those of every value that is an array.
    pub numbers: Vec<i64>,
    pub fs: Words,
    pub nodes: Words,
    pub errors: Words,
    calls: Said<'a, (i64, Kind, Word)>,
    /// The last one.
    time: (&'a [u8], i64),
    /// The last array of each process, less its bracket, and its numbers: what a process reads
    /// mostly begins with what it read before.
    arrays: [(&'a [u8], Range<usize>); ARRAYS],
    ends: Said<'a, (Option<i64>, Word, Word)>,
}

/// Processes share them.
const ARRAYS: usize = 16;

impl<'a> Lines<'a> {
    pub fn new(text: &'a [u8]) -> Lines<'a> {
        Lines {
            at: Cursor { text, rest: text },
            numbers: Vec::new(),
            fs: Words::default(),
            nodes: Words::default(),
            errors: Words::default(),
            calls: Said::new(),
            time: (b"", 0),
            arrays: [const { (b"".as_slice(), 0..0) }; ARRAYS],
            ends: Said::new(),
        }
    }

    /// Where the next line begins.
    pub fn place(&self) -> usize {
        self.at.place()
    }

    pub fn is_over(&self) -> bool {
        self.at.rest.is_empty()
    }

    #[inline]
    pub fn line(&mut self) -> Result<Line, Unread> {
        self.at.expect(b"{\"index\":")?;
        let index = self.at.int("index")?;
        let from = self.at.rest;
        let (process, kind, f) = match self.calls.find(from) {
            Some((said, call)) => {
                self.at.skip(said);
                call
            }
            None => {
                let call = self.call()?;
                self.calls.keep(from, self.at.rest, call)
            }
        };
        let from = self.at.rest;
        let time_ns = match self.time {
            (said, time_ns) if !said.is_empty() && from.starts_with(said) => {
                self.at.skip(said.len());
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
            Some((said, end)) => {
                self.at.skip(said);
                end
            }
            None => {
                let end = self.end()?;
                self.ends.keep(from, self.at.rest, end)
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

    /// From process to f.
    fn call(&mut self) -> Result<(i64, Kind, Word), Unread> {
        let at = &mut self.at;
        at.expect(b",\"process\":")?;
        let process = match at.rest {
            [b'"', ..] => at.expect(b"\"nemesis\"").map(|()| NEMESIS)?,
            _ => match at.int("process")? {
                NEMESIS => return Err(Unread::Beyond("process")),
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

    fn value(&mut self, process: i64) -> Result<Value, Unread> {
        match self.at.rest {
            [b'n', ..] => self.at.expect(b"null").map(|()| Value::None),
            [b'[', ..] => self.ints(process),
            [b'{', ..] => self.at.object().map(Value::Object),
            _ => Ok(self.at.number()?.map_or(Value::Big, Value::Int)),
        }
    }

    fn ints(&mut self, process: i64) -> Result<Value, Unread> {
        let (text, from) = (self.at.rest, self.numbers.len());
        let (said, known) = &mut self.arrays[process as usize % ARRAYS];
        let goes_on = matches!(text.get(said.len()), Some(b',' | b']')) && text.starts_with(said);
        if goes_on {
            self.at.skip(said.len());
            self.numbers.extend_from_within(known.clone());
        } else {
            self.at.skip(1);
        }
        let (mut first, mut big) = (!goes_on, false);
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
            return Ok(Value::Big);
        }
        let numbers = from..self.numbers.len();
        if !numbers.is_empty() {
            (*said, *known) = (array, numbers.clone());
        }
        Ok(Value::Ints(numbers))
    }

    /// From key to error.
    fn end(&mut self) -> Result<(Option<i64>, Word, Word), Unread> {
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

/// Parts of lines and what they mean, as many as have a place.
struct Said<'a, T> {
    known: Vec<Option<(&'a [u8], T)>>,
}

impl<'a, T: Copy> Said<'a, T> {
    fn new() -> Said<'a, T> {
        Said {
            known: vec![None; PLACES],
        }
    }

    /// How long the part is that the text begins with, and what it means.
    #[inline]
    fn find(&self, text: &[u8]) -> Option<(usize, T)> {
        match self.known[place(text)?] {
            Some((said, meant)) if text.starts_with(said) => Some((said.len(), meant)),
            _ => None,
        }
    }

    /// `rest`: what follows the part.
    fn keep(&mut self, text: &'a [u8], rest: &[u8], meant: T) -> T {
        if let Some(place) = place(text) {
            self.known[place] = Some((&text[..text.len() - rest.len()], meant));
        }
        meant
    }
}

const PLACES: usize = 256;

/// By the bytes that tell most parts from one another.
#[inline]
fn place(text: &[u8]) -> Option<usize> {
    let mut hasher = FxHasher::default();
    text.get(8..32)?.hash(&mut hasher);
    Some(hasher.finish() as usize % PLACES)
}

struct Cursor<'a> {
    text: &'a [u8],
    /// From where it is.
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn place(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn expect<const N: usize>(&mut self, said: &[u8; N]) -> Result<(), Unread> {
        match self.rest.split_first_chunk() {
            Some((found, rest)) if found == said => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(Unread::Form),
        }
    }

    fn unless_null<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Unread>,
    ) -> Result<Option<T>, Unread> {
        match self.rest {
            [b'n', ..] => self.expect(b"null").map(|()| None),
            _ => read(self).map(Some),
        }
    }

    fn kind(&mut self) -> Result<Kind, Unread> {
        match self.rest {
            [b'o', ..] => self.expect(b"ok\"").map(|()| Kind::Ok),
            [b'f', ..] => self.expect(b"fail\"").map(|()| Kind::Fail),
            [b'i', b'n', b'v', ..] => self.expect(b"invoke\"").map(|()| Kind::Invoke),
            _ => self.expect(b"info\"").map(|()| Kind::Info),
        }
    }

    fn int(&mut self, field: &'static str) -> Result<i64, Unread> {
        self.number()?.ok_or(Unread::Beyond(field))
    }

    /// None: it takes more than 64 bits.
    fn number(&mut self) -> Result<Option<i64>, Unread> {
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
            0 => Err(Unread::Form),
            _ if digits > 1 && unsigned[0] == b'0' => Err(Unread::Form),
            1..19 if negative => Ok(Some(-(found as i64))),
            1..19 => Ok(Some(found as i64)),
            _ => {
                let text = &from[..digits + usize::from(negative)];
                Ok(std::str::from_utf8(text).expect("digits").parse().ok())
            }
        }
    }

    /// A JSON string as it stands.
    fn text(&mut self) -> Result<&'a [u8], Unread> {
        let text = self.string()?;
        std::str::from_utf8(text).map_err(|_| Unread::Form)?;
        Ok(text)
    }

    /// Whatever its bytes.
    fn string(&mut self) -> Result<&'a [u8], Unread> {
        let from = self.rest;
        if !matches!(from, [b'"', ..]) {
            return Err(Unread::Form);
        }
        self.skip(1);
        loop {
            let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let plain = self.rest.iter().position(ends).ok_or(Unread::Form)?;
            self.skip(plain);
            match self.rest[0] {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => return Err(Unread::Form),
            }
        }
        self.skip(1);
        Ok(&from[..from.len() - self.rest.len()])
    }

    /// One of those that the journal writes.
    fn escape(&mut self) -> Result<(), Unread> {
        self.rest = match self.rest {
            [_, b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => rest,
            // Control characters that have no letter.
            [_, b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f', rest @ ..] => rest,
            [_, b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', rest @ ..] => rest,
            _ => return Err(Unread::Form),
        };
        Ok(())
    }

    /// To the brace that ends it; whether what is between is JSON is not looked at.
    fn object(&mut self) -> Result<Range<usize>, Unread> {
        let from = self.place();
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
                [] => return Err(Unread::Form),
            }
            self.skip(1);
            if depth == 0 {
                let object = from..self.place();
                std::str::from_utf8(&self.text[object.clone()]).map_err(|_| Unread::Form)?;
                return Ok(object);
            }
        }
    }
}
