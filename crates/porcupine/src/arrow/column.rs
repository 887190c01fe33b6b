//! Reads a column of an Arrow batch in place.

use std::ffi::c_void;

use arrow_interface::{text, ArrowArray, ArrowSchema};

use crate::clock::{rank, rank_of_int, Clock};
use crate::datum::Datum;
use crate::rows::prefetch;

/// Points into an [`ArrowArray`] that outlives the column.
pub struct Column {
    pub(super) layout: Layout,
    /// The validity bitmap; null if every row has a value.
    pub(super) validity: *const u8,
    pub(super) offset: usize,
    pub(super) rows: usize,
}

pub(super) enum Layout {
    /// Only nulls.
    Null,
    Bool(*const u8),
    Int8(*const i8),
    Int16(*const i16),
    Int32(*const i32),
    Int64(*const i64),
    UInt8(*const u8),
    UInt16(*const u16),
    UInt32(*const u32),
    UInt64(*const u64),
    /// Floats, which only times may be.
    Float32(*const f32),
    Float64(*const f64),
    Text32(*const i32, *const u8),
    Text64(*const i64, *const u8),
    /// Views, and the buffers into which they point.
    TextView(*const [i32; 4], Vec<*const u8>),
    List32(*const i32, Box<Column>),
    List64(*const i64, Box<Column>),
    ListFixed(usize, Box<Column>),
    Dictionary(Box<Column>, Box<Column>),
}

// SAFETY: what a column points to is immutable and owned by its batch.
unsafe impl Send for Column {}
// SAFETY: as above.
unsafe impl Sync for Column {}

impl Column {
    /// # Safety
    /// The schema and the array must be valid and belong together, and the array must outlive the
    /// column.
    pub unsafe fn new(schema: &ArrowSchema, array: &ArrowArray) -> Result<Self, String> {
        // SAFETY: the format of a valid schema is text that ends with a zero.
        let format = unsafe { text(schema.format) };
        let buffers = match array.n_buffers {
            0 => &[],
            // SAFETY: a valid array has `n_buffers` buffers.
            n => unsafe { std::slice::from_raw_parts(array.buffers, n as usize) },
        };
        let offset = array.offset as usize;
        let is_null = format == "n";
        let validity = buffers.first().copied().filter(|_| !is_null);
        let mut column = Column {
            layout: Layout::Null,
            validity: validity.unwrap_or(std::ptr::null()).cast(),
            offset,
            rows: array.length as usize,
        };
        // SAFETY: the caller guarantees what `layout` requires.
        column.layout = unsafe { layout(&format, schema, array, buffers)? };
        column.check_text()?;
        Ok(column)
    }

    /// Returns a column of times, which may be floats.
    ///
    /// # Safety
    /// As for [`Column::new`].
    pub unsafe fn of_times(schema: &ArrowSchema, array: &ArrowArray) -> Result<Self, String> {
        // SAFETY: the format of a valid schema is text that ends with a zero.
        let format = unsafe { text(schema.format) };
        if !["f", "g"].contains(&&*format) || array.n_buffers < 2 || !array.dictionary.is_null() {
            // SAFETY: as the caller guarantees.
            return unsafe { Self::new(schema, array) };
        }
        // SAFETY: a valid array of floats has two buffers.
        let buffers = unsafe { std::slice::from_raw_parts(array.buffers, 2) };
        let layout = match &*format {
            "f" => Layout::Float32(buffers[1].cast()),
            _ => Layout::Float64(buffers[1].cast()),
        };
        Ok(Column {
            layout,
            validity: buffers[0].cast(),
            offset: array.offset as usize,
            rows: array.length as usize,
        })
    }

    /// Whether the column holds floats.
    pub fn is_float(&self) -> bool {
        matches!(self.layout, Layout::Float32(_) | Layout::Float64(_))
    }

    /// Returns the row's time as its number on a clock; `None` if it is null or has none.
    pub fn time(&self, row: usize, clock: Clock) -> Option<i64> {
        if clock == Clock::Ints {
            return self.int(row);
        }
        if self.is_null(row) {
            return None;
        }
        let at = row + self.offset;
        // SAFETY: the buffer has a number for each row.
        let float = unsafe {
            match &self.layout {
                Layout::Float64(p) => *p.add(at),
                Layout::Float32(p) => (*p.add(at)).into(),
                _ => return self.int(row).and_then(rank_of_int),
            }
        };
        float.is_finite().then(|| rank(float))
    }

    pub fn is_null(&self, row: usize) -> bool {
        if let Layout::Null = self.layout {
            return true;
        }
        let at = row + self.offset;
        // SAFETY: the bitmap has a bit for each row.
        !self.validity.is_null() && unsafe { *self.validity.add(at / 8) } >> (at % 8) & 1 == 0
    }

    /// The row's integer; `None` if it is null or does not fit 64 bits.
    #[inline(always)]
    pub fn int(&self, row: usize) -> Option<i64> {
        match &self.layout {
            // SAFETY: the buffer has a number for each row.
            Layout::Int64(p) if !self.is_null(row) => Some(unsafe { *p.add(row + self.offset) }),
            _ => self.any_int(row),
        }
    }

    fn any_int(&self, row: usize) -> Option<i64> {
        if self.is_null(row) {
            return None;
        }
        let at = row + self.offset;
        // SAFETY: the buffer has a number for each row.
        unsafe {
            match &self.layout {
                Layout::Int64(p) => Some(*p.add(at)),
                Layout::Int32(p) => Some((*p.add(at)).into()),
                Layout::Int16(p) => Some((*p.add(at)).into()),
                Layout::Int8(p) => Some((*p.add(at)).into()),
                Layout::UInt64(p) => i64::try_from(*p.add(at)).ok(),
                Layout::UInt32(p) => Some((*p.add(at)).into()),
                Layout::UInt16(p) => Some((*p.add(at)).into()),
                Layout::UInt8(p) => Some((*p.add(at)).into()),
                Layout::Dictionary(keys, values) => values.int(keys.int(row)? as usize),
                _ => None,
            }
        }
    }

    #[inline(always)]
    pub fn str(&self, row: usize) -> Option<&str> {
        match &self.layout {
            // SAFETY: there is an offset for each row and one more. Texts lie within their buffer
            // and were checked when the column was created.
            Layout::Text32(offsets, data) if self.validity.is_null() => unsafe {
                let at = row + self.offset;
                let (from, to) = (*offsets.add(at) as usize, *offsets.add(at + 1) as usize);
                let bytes = match to - from {
                    0 => &[],
                    length => std::slice::from_raw_parts(data.add(from), length),
                };
                Some(std::str::from_utf8_unchecked(bytes))
            },
            _ => self.any_str(row),
        }
    }

    fn any_str(&self, row: usize) -> Option<&str> {
        if self.is_null(row) {
            return None;
        }
        match &self.layout {
            Layout::Dictionary(keys, values) => values.str(keys.int(row)? as usize),
            // SAFETY: the texts were checked when the column was created.
            _ => self
                .bytes(row)
                .map(|b| unsafe { std::str::from_utf8_unchecked(b) }),
        }
    }

    /// Prefetches the row's number, key, offset or view.
    #[inline]
    pub fn prefetch(&self, row: usize) {
        let at = row + self.offset;
        let address: *const u8 = match &self.layout {
            Layout::Int64(p) | Layout::List64(p, _) | Layout::Text64(p, _) => {
                p.wrapping_add(at).cast()
            }
            Layout::Int32(p) | Layout::List32(p, _) | Layout::Text32(p, _) => {
                p.wrapping_add(at).cast()
            }
            Layout::TextView(p, _) => p.wrapping_add(at).cast(),
            Layout::UInt64(p) => p.wrapping_add(at).cast(),
            Layout::Int8(p) => p.wrapping_add(at).cast(),
            Layout::UInt32(p) => p.wrapping_add(at).cast(),
            Layout::Dictionary(keys, _) => return keys.prefetch(row),
            _ => return,
        };
        prefetch(address);
        if !self.validity.is_null() {
            prefetch(self.validity.wrapping_add(at / 8));
        }
    }

    /// Prefetches the row's text. Its offset has been prefetched before.
    #[inline]
    pub fn prefetch_text(&self, row: usize) {
        let at = row + self.offset;
        // SAFETY: there is an offset for each row.
        let (from, data) = unsafe {
            match &self.layout {
                Layout::Text32(offsets, data) => (*offsets.add(at) as usize, data),
                Layout::Text64(offsets, data) => (*offsets.add(at) as usize, data),
                _ => return,
            }
        };
        prefetch(data.wrapping_add(from));
    }

    pub fn datum(&self, row: usize) -> Datum<'_> {
        if self.is_null(row) {
            return Datum::Null;
        }
        let at = row + self.offset;
        match &self.layout {
            Layout::Null => Datum::Null,
            // SAFETY: the bitmap has a bit for each row.
            Layout::Bool(p) => Datum::Bool(unsafe { *p.add(at / 8) } >> (at % 8) & 1 == 1),
            Layout::Text32(..) | Layout::Text64(..) | Layout::TextView(..) => {
                self.str(row).map_or(Datum::Null, Datum::Text)
            }
            Layout::Dictionary(keys, values) => match keys.int(row) {
                Some(key) => values.datum(key as usize),
                None => Datum::Null,
            },
            // SAFETY: there is an offset for each row and one more.
            Layout::List32(p, items) => unsafe {
                items.list(*p.add(at) as usize, *p.add(at + 1) as usize)
            },
            // SAFETY: as above.
            Layout::List64(p, items) => unsafe {
                items.list(*p.add(at) as usize, *p.add(at + 1) as usize)
            },
            Layout::ListFixed(size, items) => items.list(at * size, (at + 1) * size),
            _ => self.int(row).map_or(Datum::Null, Datum::Int),
        }
    }

    fn list(&self, from: usize, to: usize) -> Datum<'_> {
        if let (Layout::Int64(p), true) = (&self.layout, self.validity.is_null()) {
            let p = p.wrapping_add(self.offset + from);
            if from == to {
                return Datum::Ints(&[]);
            }
            // SAFETY: lists lie within their items.
            return Datum::Ints(unsafe { std::slice::from_raw_parts(p, to - from) });
        }
        Datum::List((from..to).map(|row| self.datum(row)).collect())
    }

    fn bytes(&self, row: usize) -> Option<&[u8]> {
        let at = row + self.offset;
        // SAFETY: there is an offset for each row and one more, or a view for each row.
        let (start, len) = unsafe {
            match &self.layout {
                Layout::Text32(offsets, data) => {
                    let (from, to) = (*offsets.add(at) as usize, *offsets.add(at + 1) as usize);
                    (data.wrapping_add(from), to - from)
                }
                Layout::Text64(offsets, data) => {
                    let (from, to) = (*offsets.add(at) as usize, *offsets.add(at + 1) as usize);
                    (data.wrapping_add(from), to - from)
                }
                Layout::TextView(views, buffers) => {
                    let view = views.add(at);
                    let [len, _, buffer, from] = *view;
                    let inside = view.cast::<u8>().add(4);
                    match len {
                        0..=12 => (inside, len as usize),
                        _ => (buffers[buffer as usize].add(from as usize), len as usize),
                    }
                }
                _ => return None,
            }
        };
        if len == 0 {
            return Some(&[]);
        }
        // SAFETY: texts lie within their buffers.
        Some(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// Checks that all texts are UTF-8. The texts of a dictionary or a list belong to a column of
    /// their own.
    fn check_text(&self) -> Result<(), String> {
        let texts = matches!(
            self.layout,
            Layout::Text32(..) | Layout::Text64(..) | Layout::TextView(..)
        );
        if !texts || self.contiguous_texts().is_some_and(<[u8]>::is_ascii) {
            return Ok(());
        }
        let bad = (0..self.rows)
            .filter(|&row| !self.is_null(row))
            .filter_map(|row| self.bytes(row))
            .any(|bytes| std::str::from_utf8(bytes).is_err());
        if bad {
            return Err("holds text that is not UTF-8".to_owned());
        }
        Ok(())
    }

    /// Returns the bytes of all texts if they are contiguous.
    fn contiguous_texts(&self) -> Option<&[u8]> {
        let (first, last) = (self.offset, self.offset + self.rows);
        // SAFETY: there is an offset for each row and one more.
        let (from, to, data) = unsafe {
            match &self.layout {
                _ if self.rows == 0 => return None,
                Layout::Text32(offsets, data) => (
                    *offsets.add(first) as usize,
                    *offsets.add(last) as usize,
                    data,
                ),
                Layout::Text64(offsets, data) => (
                    *offsets.add(first) as usize,
                    *offsets.add(last) as usize,
                    data,
                ),
                _ => return None,
            }
        };
        if from == to {
            return Some(&[]);
        }
        // SAFETY: texts lie within their buffer.
        Some(unsafe { std::slice::from_raw_parts(data.wrapping_add(from), to - from) })
    }

    /// Whether the column may have values other than null.
    pub fn has_values(&self) -> bool {
        !matches!(self.layout, Layout::Null)
    }

    /// Whether every row is known to have a text or an integer that fits.
    pub fn is_filled(&self) -> bool {
        let odd = matches!(
            self.layout,
            Layout::Null | Layout::UInt64(_) | Layout::Dictionary(..)
        );
        self.validity.is_null() && !odd
    }

    /// Whether the column holds integers.
    pub fn is_int(&self) -> bool {
        match &self.layout {
            Layout::Dictionary(_, values) => values.is_int(),
            Layout::Int8(_) | Layout::Int16(_) | Layout::Int32(_) | Layout::Int64(_) => true,
            Layout::UInt8(_) | Layout::UInt16(_) | Layout::UInt32(_) | Layout::UInt64(_) => true,
            Layout::Null => true,
            _ => false,
        }
    }

    /// Whether the column holds lists of integers of 64 bits without nulls, or only nulls.
    pub fn is_plain_list(&self) -> bool {
        match &self.layout {
            Layout::List32(_, items) | Layout::List64(_, items) | Layout::ListFixed(_, items) => {
                matches!(items.layout, Layout::Int64(_)) && items.validity.is_null()
            }
            Layout::Null => true,
            _ => false,
        }
    }

    /// Whether the column holds texts.
    pub fn is_text(&self) -> bool {
        match &self.layout {
            Layout::Dictionary(_, values) => values.is_text(),
            Layout::Text32(..) | Layout::Text64(..) | Layout::TextView(..) => true,
            Layout::Null => true,
            _ => false,
        }
    }
}

/// # Safety
/// As for [`Column::new`].
unsafe fn layout(
    format: &str,
    schema: &ArrowSchema,
    array: &ArrowArray,
    buffers: &[*const c_void],
) -> Result<Layout, String> {
    if !array.dictionary.is_null() && !schema.dictionary.is_null() {
        let keys = Column {
            // SAFETY: the buffers of a dictionary's array are those of its keys' format.
            layout: unsafe { plain(format, buffers)? },
            validity: buffers.first().map_or(std::ptr::null(), |b| b.cast()),
            offset: array.offset as usize,
            rows: array.length as usize,
        };
        // SAFETY: both exist, are valid and belong together; the array owns its dictionary.
        let values = unsafe { Column::new(&*schema.dictionary, &*array.dictionary)? };
        return Ok(Layout::Dictionary(Box::new(keys), Box::new(values)));
    }
    let items = || {
        if array.n_children != 1 || schema.n_children != 1 {
            return Err("is a list without items".to_owned());
        }
        // SAFETY: schema and array have one child each.
        unsafe { Column::new(&**schema.children, &**array.children).map(Box::new) }
    };
    match format {
        "+l" => Ok(Layout::List32(buffers[1].cast(), items()?)),
        "+L" => Ok(Layout::List64(buffers[1].cast(), items()?)),
        _ => match format.strip_prefix("+w:").map(str::parse) {
            Some(Ok(size)) => Ok(Layout::ListFixed(size, items()?)),
            // SAFETY: a valid array has the buffers that its format prescribes.
            _ => unsafe { plain(format, buffers) },
        },
    }
}

/// # Safety
/// The buffers must be those that the format prescribes.
unsafe fn plain(format: &str, buffers: &[*const c_void]) -> Result<Layout, String> {
    let buffer = |i: usize| buffers.get(i).copied().unwrap_or(std::ptr::null());
    Ok(match format {
        "n" => Layout::Null,
        "b" => Layout::Bool(buffer(1).cast()),
        "c" => Layout::Int8(buffer(1).cast()),
        "s" => Layout::Int16(buffer(1).cast()),
        "i" => Layout::Int32(buffer(1).cast()),
        "l" => Layout::Int64(buffer(1).cast()),
        "C" => Layout::UInt8(buffer(1).cast()),
        "S" => Layout::UInt16(buffer(1).cast()),
        "I" => Layout::UInt32(buffer(1).cast()),
        "L" => Layout::UInt64(buffer(1).cast()),
        "u" => Layout::Text32(buffer(1).cast(), buffer(2).cast()),
        "U" => Layout::Text64(buffer(1).cast(), buffer(2).cast()),
        "vu" => {
            // The last buffer holds the sizes of the others.
            let last = buffers.len().saturating_sub(1).max(2);
            let data = buffers.get(2..last).unwrap_or(&[]);
            Layout::TextView(buffer(1).cast(), data.iter().map(|b| b.cast()).collect())
        }
        _ if format.starts_with("ts") || format.starts_with("tD") => {
            Layout::Int64(buffer(1).cast())
        }
        "f" | "g" => {
            let text = "holds floating point numbers, expected whole ones; pandas makes them of \
                        ints with gaps, and frame.convert_dtypes() makes them ints again";
            return Err(text.to_owned());
        }
        _ => {
            return Err(format!(
                "has the Arrow format {format:?}, which no field can have"
            ))
        }
    })
}
