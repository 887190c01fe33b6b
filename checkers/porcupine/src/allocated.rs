//! How much memory each thread holds, counted where it is allocated: what a search keeps need not be
//! estimated structure by structure.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that the thread allocated, less those that it freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread holds. What one thread allocates and another one frees makes the second one's
/// number negative.
pub fn held() -> isize {
    HELD.get()
}

fn count(bytes: isize) {
    HELD.set(HELD.get().wrapping_add(bytes));
}

/// The allocator of the system, with a count.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is handed on to the allocator of the system as it is. The count is a number in
// static memory of the thread, which is neither allocated nor dropped.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        System.alloc_zeroed(layout)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        System.dealloc(place, layout)
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        System.realloc(place, layout, size)
    }
}
