//! Counts how much memory each thread holds, in the allocator. So nobody need estimate the size of
//! a search structure by structure.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that the thread allocated minus bytes that it freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Returns the bytes that this thread holds. If one thread frees what another allocated, its own
/// number may become negative.
pub fn held() -> isize {
    HELD.get()
}

fn count(bytes: isize) {
    HELD.set(HELD.get().wrapping_add(bytes));
}

/// The system's allocator with a counter.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is passed on unchanged to the system's allocator. The counter is a number in
// thread-local memory that is neither allocated nor dropped.
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
