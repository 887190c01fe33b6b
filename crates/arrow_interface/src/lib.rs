//! Declares the C structs of Arrow ("The Arrow C data interface", "The Arrow C stream interface").

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;

#[repr(C)]
pub struct ArrowSchema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut ArrowSchema,
    pub dictionary: *mut ArrowSchema,
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub private_data: *mut c_void,
}

#[repr(C)]
pub struct ArrowArray {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    pub dictionary: *mut ArrowArray,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub private_data: *mut c_void,
}

#[repr(C)]
pub struct ArrowArrayStream {
    pub get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub private_data: *mut c_void,
}

// SAFETY: a stream may be used on any thread, by one at a time.
unsafe impl Send for ArrowArrayStream {}

macro_rules! released_on_drop {
    ($raw:ident) => {
        impl $raw {
            /// Creates a zeroed struct, as producers expect it. It counts as released.
            pub fn empty() -> Self {
                // SAFETY: zeros are valid values of every field: null pointers, numbers and absent
                // callbacks.
                unsafe { std::mem::zeroed() }
            }
        }

        impl Drop for $raw {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: a released struct has no `release`, so this happens once.
                    unsafe { release(self) }
                }
            }
        }
    };
}

released_on_drop!(ArrowSchema);
released_on_drop!(ArrowArray);
released_on_drop!(ArrowArrayStream);

impl ArrowArrayStream {
    /// Moves the stream out of the capsule, so that we release it.
    ///
    /// # Safety
    /// `at` must point to a valid stream.
    pub unsafe fn take(at: *mut Self) -> Self {
        // SAFETY: `at` is valid.
        unsafe { ptr::replace(at, Self::empty()) }
    }

    pub fn schema(&mut self) -> Result<ArrowSchema, String> {
        let mut schema = ArrowSchema::empty();
        let get = self.get_schema.ok_or("the Arrow stream was used before")?;
        // SAFETY: both are valid; the stream is not released.
        let code = unsafe { get(self, &mut schema) };
        self.checked(code)?;
        Ok(schema)
    }

    /// Returns the next batch; `None` at the end.
    pub fn batch(&mut self) -> Result<Option<ArrowArray>, String> {
        let mut array = ArrowArray::empty();
        let get = self.get_next.ok_or("the Arrow stream was used before")?;
        // SAFETY: both are valid; the stream is not released.
        let code = unsafe { get(self, &mut array) };
        self.checked(code)?;
        Ok(array.release.is_some().then_some(array))
    }

    fn checked(&mut self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let text = self.get_last_error.map(|last| {
            // SAFETY: the stream is not released, and the text lives until its next call.
            unsafe { text(last(self)) }
        });
        Err(format!(
            "the Arrow stream failed with error {code}: {}",
            text.unwrap_or_default()
        ))
    }
}

/// # Safety
/// `at` must be null or point to a text that ends with a zero byte.
pub unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: `at` is not null, so it points to a text that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_string_lossy().into_owned()
}
