//! Selects the memory allocator.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mi;

/// mimalloc aligns to a word by default.
const WORD: usize = size_of::<usize>();

/// mimalloc: a simulation makes many small, short-lived allocations, and this saves a sixth of its
/// time. The crate `mimalloc` passes every alignment, which is slower.
pub struct Allocator;

// SAFETY: every method is mimalloc's own, with the requested size and alignment.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD {
            let place: *mut u8 = mi::mi_malloc(layout.size()).cast();
            if !place.is_null() {
                // A block is at least a word long, and a free one begins with the address of the
                // next free one.
                prefetch(place.cast::<*const u8>().read());
            }
            place
        } else {
            mi::mi_malloc_aligned(layout.size(), layout.align()).cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        mi::mi_zalloc_aligned(layout.size(), layout.align()).cast()
    }

    unsafe fn dealloc(&self, place: *mut u8, _: Layout) {
        mi::mi_free(place.cast());
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        mi::mi_realloc_aligned(place.cast(), size, layout.align()).cast()
    }
}

/// Prefetches a cache line that will be needed soon. Most free blocks were not touched for long,
/// and the cache misses took 2 to 6 % of a simulation's time. Any address is allowed.
#[inline(always)]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint and reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Time for which unused memory is kept. Otherwise the next simulation, which follows at once,
/// would fault it in again, which takes a fiftieth of its time.
const KEPT_MS: std::ffi::c_long = 1000;
/// The crate does not define this option.
const PURGE_DELAY: mi::mi_option_t = 15;

/// Sets that time. To be called once; `MIMALLOC_PURGE_DELAY` takes precedence.
pub fn keep_memory() {
    // SAFETY: it sets a number.
    unsafe { mi::mi_option_set_default(PURGE_DELAY, KEPT_MS) }
}
