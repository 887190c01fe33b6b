//! The C structs of Arrow ("The Arrow C data interface", "The Arrow C stream interface").

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

macro_rules! released_on_drop {
    ($owner:ident, $raw:ident) => {
        /// Released when it is dropped.
        pub struct $owner(Box<$raw>);

        impl $owner {
            /// All null, as producers expect what they fill to be.
            pub fn empty() -> Self {
                // SAFETY: null pointers, zeros and absent callbacks are values of every field.
                Self(Box::new(unsafe { std::mem::zeroed() }))
            }

            pub fn as_mut(&mut self) -> *mut $raw {
                &mut *self.0
            }

            pub fn get(&self) -> &$raw {
                &self.0
            }

            pub fn is_released(&self) -> bool {
                self.0.release.is_none()
            }
        }

        impl Drop for $owner {
            fn drop(&mut self) {
                if let Some(release) = self.0.release {
                    // SAFETY: it is released once, here.
                    unsafe { release(&mut *self.0) }
                }
            }
        }
    };
}

released_on_drop!(Schema, ArrowSchema);
released_on_drop!(Array, ArrowArray);
released_on_drop!(Stream, ArrowArrayStream);

impl Stream {
    /// Takes the stream out of its place, so that it is released by us.
    ///
    /// # Safety
    /// `at` points to a valid stream.
    pub unsafe fn take(at: *mut ArrowArrayStream) -> Self {
        let mut taken = Self::empty();
        unsafe {
            ptr::swap(at, taken.as_mut());
        }
        taken
    }

    pub fn schema(&mut self) -> Result<Schema, String> {
        let mut schema = Schema::empty();
        let get = self
            .get()
            .get_schema
            .ok_or("the Arrow stream was used before")?;
        // SAFETY: both are valid; the stream is not released.
        let code = unsafe { get(self.as_mut(), schema.as_mut()) };
        self.checked(code)?;
        Ok(schema)
    }

    /// The next batch; none at the end.
    pub fn batch(&mut self) -> Result<Option<Array>, String> {
        let mut array = Array::empty();
        let get = self
            .get()
            .get_next
            .ok_or("the Arrow stream was used before")?;
        // SAFETY: both are valid; the stream is not released.
        let code = unsafe { get(self.as_mut(), array.as_mut()) };
        self.checked(code)?;
        Ok((!array.is_released()).then_some(array))
    }

    fn checked(&mut self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let text = self.get().get_last_error.map(|last| {
            // SAFETY: the stream is not released; the text lives until its next call.
            unsafe { text(last(self.as_mut())) }
        });
        Err(format!(
            "the Arrow stream failed with error {code}: {}",
            text.unwrap_or_default()
        ))
    }
}

/// # Safety
/// `at` is null or points to text that ends with a zero.
pub unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    let text = unsafe { CStr::from_ptr(at) };
    text.to_string_lossy().into_owned()
}
