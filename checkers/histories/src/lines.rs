//! A line of `history.jsonl`, as the journal writes it: its fields in order, no space between them.

use std::ops::Range;

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

/// The fields of a line; texts are JSON strings as they stand, quotes included.
pub struct Line<'a> {
    pub index: i64,
    pub process: i64,
    pub kind: Kind,
    pub f: &'a [u8],
    pub time_ns: i64,
    pub value: Value,
    pub key: Option<i64>,
    pub node: Option<&'a [u8]>,
    pub error: Option<&'a [u8]>,
}

/// Why a line could not be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// Not as the journal writes it; it may be an op all the same.
    Form,
    /// A field that takes more than 64 bits.
    Beyond(&'static str),
}

/// Reads the line that begins at `from`, and says where the next one does. The numbers of an array
/// are added to `numbers`.
pub fn read<'a>(
    text: &'a [u8],
    from: usize,
    numbers: &mut Vec<i64>,
) -> Result<(Line<'a>, usize), Unread> {
    let mut at = Cursor { text, at: from };
    at.expect(b"{\"index\":")?;
    let index = at.int("index")?;
    at.expect(b",\"process\":")?;
    let process = match at.next() {
        Some(b'"') => at.expect(b"\"nemesis\"").map(|()| NEMESIS)?,
        _ => match at.int("process")? {
            NEMESIS => return Err(Unread::Beyond("process")),
            number => number,
        },
    };
    at.expect(b",\"kind\":\"")?;
    let kind = at.kind()?;
    at.expect(b",\"f\":")?;
    let f = at.string()?;
    at.expect(b",\"time_ns\":")?;
    let time_ns = at.int("time_ns")?;
    at.expect(b",\"value\":")?;
    let value = at.value(numbers)?;
    at.expect(b",\"key\":")?;
    let key = at.unless_null(|at| at.int("key"))?;
    at.expect(b",\"node\":")?;
    let node = at.unless_null(Cursor::string)?;
    at.expect(b",\"error\":")?;
    let error = at.unless_null(Cursor::string)?;
    at.expect(b"}\n")?;
    let line = Line {
        index,
        process,
        kind,
        f,
        time_ns,
        value,
        key,
        node,
        error,
    };
    Ok((line, at.at))
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, said: &[u8]) -> Result<(), Unread> {
        if !self.text[self.at..].starts_with(said) {
            return Err(Unread::Form);
        }
        self.at += said.len();
        Ok(())
    }

    fn unless_null<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Unread>,
    ) -> Result<Option<T>, Unread> {
        if self.next() == Some(b'n') {
            return self.expect(b"null").map(|()| None);
        }
        read(self).map(Some)
    }

    fn kind(&mut self) -> Result<Kind, Unread> {
        for kind in [Kind::Invoke, Kind::Ok, Kind::Fail, Kind::Info] {
            let name = kind.name().as_bytes();
            if self.text[self.at..].starts_with(name) {
                self.at += name.len();
                self.expect(b"\"")?;
                return Ok(kind);
            }
        }
        Err(Unread::Form)
    }

    fn int(&mut self, field: &'static str) -> Result<i64, Unread> {
        self.number()?.ok_or(Unread::Beyond(field))
    }

    /// None: it takes more than 64 bits.
    fn number(&mut self) -> Result<Option<i64>, Unread> {
        let negative = self.next() == Some(b'-');
        self.at += usize::from(negative);
        let from = self.at;
        let mut found: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.next() {
            found = found.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let digits = &self.text[from..self.at];
        match digits {
            [] | [b'0', _, ..] => Err(Unread::Form),
            _ if digits.len() < 19 => Ok(Some(if negative {
                -(found as i64)
            } else {
                found as i64
            })),
            _ => {
                let from = from - usize::from(negative);
                let text = std::str::from_utf8(&self.text[from..self.at]).expect("digits");
                Ok(text.parse().ok())
            }
        }
    }

    fn value(&mut self, numbers: &mut Vec<i64>) -> Result<Value, Unread> {
        match self.next() {
            Some(b'n') => self.expect(b"null").map(|()| Value::None),
            Some(b'[') => self.ints(numbers),
            Some(b'{') => self.object().map(Value::Object),
            _ => Ok(self.number()?.map_or(Value::Big, Value::Int)),
        }
    }

    fn ints(&mut self, numbers: &mut Vec<i64>) -> Result<Value, Unread> {
        let from = numbers.len();
        let mut big = false;
        self.at += 1;
        if self.next() != Some(b']') {
            loop {
                match self.number()? {
                    Some(number) => numbers.push(number),
                    None => big = true,
                }
                match self.next() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break,
                    _ => return Err(Unread::Form),
                }
            }
        }
        self.at += 1;
        Ok(if big {
            numbers.truncate(from);
            Value::Big
        } else {
            Value::Ints(from..numbers.len())
        })
    }

    /// A JSON string as it stands.
    fn string(&mut self) -> Result<&'a [u8], Unread> {
        let from = self.at;
        if self.next() != Some(b'"') {
            return Err(Unread::Form);
        }
        self.at += 1;
        loop {
            match self.next() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..0x20) | None => return Err(Unread::Form),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(from..self.at).ok_or(Unread::Form)
    }

    /// One of those that the journal writes.
    fn escape(&mut self) -> Result<(), Unread> {
        self.at += match &self.text[self.at + 1..] {
            [b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            // Control characters that have no letter.
            [b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f', ..] => 6,
            [b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', ..] => 6,
            _ => return Err(Unread::Form),
        };
        Ok(())
    }

    /// To the brace that ends it; whether what is between is JSON is not looked at.
    fn object(&mut self) -> Result<Range<usize>, Unread> {
        let from = self.at;
        let mut depth = 0_u32;
        loop {
            match self.next() {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                Some(_) => {}
                None => return Err(Unread::Form),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(from..self.at);
            }
        }
    }
}
