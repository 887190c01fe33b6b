//! Columns given by the Arrow C stream interface, without a copy. The structs are those of "The
//! Arrow C data interface" and "The Arrow C stream interface".

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;
use std::sync::Arc;

/// A column, or the table that has all of them as its children.
pub struct Column {
    pub name: &'static CStr,
    /// Arrow's word for the type, which says what buffers there are.
    pub format: &'static CStr,
    pub entries: usize,
    pub buffers: Vec<Buffer>,
    pub children: Vec<Arc<Column>>,
    pub dictionary: Option<Arc<Column>>,
}

pub enum Buffer {
    /// Of bits, in a column whose entries are all there.
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
/// Nobody has counted them.
const NULLS_UNKNOWN: i64 = -1;

#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
pub struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: what it points to is immutable but for its place, and nobody else's.
unsafe impl Send for ArrowArrayStream {}

macro_rules! released {
    ($raw:ident, $held:ty) => {
        impl Drop for $raw {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: it is released once: to be released is to have no `release`.
                    unsafe { release(self) }
                }
            }
        }

        impl $raw {
            unsafe extern "C" fn release(raw: *mut $raw) {
                // SAFETY: who releases it has it whole, and what it holds was boxed when it was
                // made.
                unsafe {
                    (*raw).release = None;
                    drop(Box::from_raw((*raw).private_data.cast::<$held>()));
                }
            }
        }
    };
}

released!(ArrowSchema, Held<ArrowSchema>);
released!(ArrowArray, Held<ArrowArray>);
released!(ArrowArrayStream, Source);

/// What a schema or an array points to.
struct Held<T> {
    column: Arc<Column>,
    buffers: Vec<*const c_void>,
    /// Boxes; the dictionary comes last, if there is one.
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
            // SAFETY: they were boxed in `new`. One that was moved elsewhere has no `release`.
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
        release: Some(ArrowSchema::release),
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
        release: Some(ArrowArray::release),
        private_data: Box::into_raw(held).cast(),
    }
}

struct Source {
    table: Arc<Column>,
    given: bool,
}

/// A table as one batch.
pub fn stream(table: Column) -> ArrowArrayStream {
    let source = Source {
        table: Arc::new(table),
        given: false,
    };
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(ArrowArrayStream::release),
        private_data: Box::into_raw(Box::new(source)).cast(),
    }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the stream is not released, and `out` is the caller's to be filled.
    unsafe {
        let source = &*(*stream).private_data.cast::<Source>();
        out.write(schema(&source.table));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as above; an array that is all zeros is the end.
    unsafe {
        let source = &mut *(*stream).private_data.cast::<Source>();
        out.write(match source.given {
            true => std::mem::zeroed(),
            false => array(&source.table),
        });
        source.given = true;
    }
    0
}

/// None of them fails.
unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    ptr::null()
}
