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
#[inline]
pub fn read<'a>(
    text: &'a [u8],
    from: usize,
    numbers: &mut Vec<i64>,
) -> Result<(Line<'a>, usize), Unread> {
    let mut at = Cursor {
        text,
        rest: text.get(from..).ok_or(Unread::Form)?,
    };
    at.expect(b"{\"index\":")?;
    let index = at.int("index")?;
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
    Ok((line, at.place()))
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
        self.skip(usize::from(negative));
        let mut found: u64 = 0;
        let mut digits = 0;
        let first = self.rest.first();
        while let [digit @ b'0'..=b'9', rest @ ..] = self.rest {
            found = found.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            digits += 1;
            self.rest = rest;
        }
        match digits {
            0 => Err(Unread::Form),
            _ if digits > 1 && first == Some(&b'0') => Err(Unread::Form),
            1..19 if negative => Ok(Some(-(found as i64))),
            1..19 => Ok(Some(found as i64)),
            _ => {
                let text = &from[..digits + usize::from(negative)];
                Ok(std::str::from_utf8(text).expect("digits").parse().ok())
            }
        }
    }

    fn value(&mut self, numbers: &mut Vec<i64>) -> Result<Value, Unread> {
        match self.rest {
            [b'n', ..] => self.expect(b"null").map(|()| Value::None),
            [b'[', ..] => self.ints(numbers),
            [b'{', ..] => self.object().map(Value::Object),
            _ => Ok(self.number()?.map_or(Value::Big, Value::Int)),
        }
    }

    fn ints(&mut self, numbers: &mut Vec<i64>) -> Result<Value, Unread> {
        let from = numbers.len();
        let mut big = false;
        self.skip(1);
        if !matches!(self.rest, [b']', ..]) {
            loop {
                match self.number()? {
                    Some(number) => numbers.push(number),
                    None => big = true,
                }
                match self.rest {
                    [b',', ..] => self.skip(1),
                    [b']', ..] => break,
                    _ => return Err(Unread::Form),
                }
            }
        }
        self.skip(1);
        Ok(if big {
            numbers.truncate(from);
            Value::Big
        } else {
            Value::Ints(from..numbers.len())
        })
    }

    /// A JSON string as it stands.
    fn string(&mut self) -> Result<&'a [u8], Unread> {
        let from = self.rest;
        if !matches!(from, [b'"', ..]) {
            return Err(Unread::Form);
        }
        self.skip(1);
        loop {
            match self.rest {
                [b'"', ..] => break,
                [b'\\', ..] => self.escape()?,
                [0..0x20, ..] | [] => return Err(Unread::Form),
                [_, rest @ ..] => self.rest = rest,
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
                return Ok(from..self.place());
            }
        }
    }
}
