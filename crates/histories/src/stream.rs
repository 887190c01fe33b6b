//! Exports columns through the Arrow C stream interface without a copy.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;
use std::sync::Arc;

use arrow_interface::{ArrowArray, ArrowArrayStream, ArrowSchema};

/// A column, or a table whose children are the columns.
pub struct Column {
    pub name: &'static CStr,
    /// Arrow's format string for the type, which implies the buffers.
    pub format: &'static CStr,
    pub entries: usize,
    pub buffers: Vec<Buffer>,
    pub children: Vec<Arc<Column>>,
    pub dictionary: Option<Arc<Column>>,
}

pub enum Buffer {
    /// The validity bitmap of a column without nulls.
    None,
    Bits(Vec<u8>),
    Texts(&'static [u8]),
    Ints8(Vec<i8>),
    Ints32(Vec<i32>),
    Ints64(Vec<i64>),
}

impl Buffer {
    fn address(&self) -> *const c_void {
        match self {
            Buffer::None => ptr::null(),
            Buffer::Bits(bits) => bits.as_ptr().cast(),
            Buffer::Texts(bytes) => bytes.as_ptr().cast(),
            Buffer::Ints8(ints) => ints.as_ptr().cast(),
            Buffer::Ints32(ints) => ints.as_ptr().cast(),
            Buffer::Ints64(ints) => ints.as_ptr().cast(),
        }
    }
}

const NULLABLE: i64 = 2;
/// The nulls were not counted.
const NULLS_UNKNOWN: i64 = -1;

macro_rules! released {
    ($release:ident, $raw:ident, $held:ty) => {
        unsafe extern "C" fn $release(raw: *mut $raw) {
            // SAFETY: whoever releases the struct owns it, and `private_data` was boxed when the
            // struct was created.
            unsafe {
                (*raw).release = None;
                drop(Box::from_raw((*raw).private_data.cast::<$held>()));
            }
        }
    };
}

released!(release_schema, ArrowSchema, Held<ArrowSchema>);
released!(release_array, ArrowArray, Held<ArrowArray>);
released!(release_stream, ArrowArrayStream, Source);

/// What a schema or an array points to.
struct Held<T> {
    column: Arc<Column>,
    buffers: Vec<*const c_void>,
    /// Boxed children; the dictionary comes last, if there is one.
    children: Vec<*mut T>,
}

impl<T> Held<T> {
    fn new(column: &Arc<Column>, made: fn(&Arc<Column>) -> T) -> Box<Held<T>> {
        let parts = column.children.iter().chain(&column.dictionary);
        Box::new(Held {
            column: column.clone(),
            buffers: column.buffers.iter().map(Buffer::address).collect(),
            children: parts
                .map(|part| Box::into_raw(Box::new(made(part))))
                .collect(),
        })
    }

    fn dictionary(&self) -> *mut T {
        let last = self.children.last();
        last.filter(|_| self.column.dictionary.is_some())
            .map_or(ptr::null_mut(), |&last| last)
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        for &child in &self.children {
            // SAFETY: `new` boxed them. A child that was moved elsewhere has no `release`.
            drop(unsafe { Box::from_raw(child) });
        }
    }
}

fn schema(column: &Arc<Column>) -> ArrowSchema {
    let mut held = Held::new(column, schema);
    ArrowSchema {
        format: column.format.as_ptr(),
        name: column.name.as_ptr(),
        metadata: ptr::null(),
        flags: NULLABLE,
        n_children: column.children.len() as i64,
        children: held.children.as_mut_ptr(),
        dictionary: held.dictionary(),
        release: Some(release_schema),
        private_data: Box::into_raw(held).cast(),
    }
}

fn array(column: &Arc<Column>) -> ArrowArray {
    let mut held = Held::new(column, array);
    ArrowArray {
        length: column.entries as i64,
        null_count: NULLS_UNKNOWN,
        offset: 0,
        n_buffers: held.buffers.len() as i64,
        n_children: column.children.len() as i64,
        buffers: held.buffers.as_mut_ptr(),
        children: held.children.as_mut_ptr(),
        dictionary: held.dictionary(),
        release: Some(release_array),
        private_data: Box::into_raw(held).cast(),
    }
}

struct Source {
    table: Arc<Column>,
    delivered: bool,
}

/// Exports a table as one batch.
pub fn stream(table: Column) -> ArrowArrayStream {
    let source = Source {
        table: Arc::new(table),
        delivered: false,
    };
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new(source)).cast(),
    }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the stream is not released, and the caller provides `out` to be filled.
    unsafe {
        let source = &*(*stream).private_data.cast::<Source>();
        out.write(schema(&source.table));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as above. An empty array marks the end of the stream.
    unsafe {
        let source = &mut *(*stream).private_data.cast::<Source>();
        out.write(match source.delivered {
            true => ArrowArray::empty(),
            false => array(&source.table),
        });
        source.delivered = true;
    }
    0
}

/// No call on this stream fails.
unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    ptr::null()
}
