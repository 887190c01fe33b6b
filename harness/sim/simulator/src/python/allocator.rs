//! Where memory comes from.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mi;

/// mimalloc aligns to a word unasked.
const WORD: usize = size_of::<usize>();

/// mimalloc's: a simulation is many small things for a moment, and this takes a sixth off its time.
/// The crate `mimalloc` asks for every alignment, which is a longer way.
pub struct Allocator;

// SAFETY: every method is mimalloc's own, with the size and the alignment that are asked for.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD {
            let place: *mut u8 = mi::mi_malloc(layout.size()).cast();
            if !place.is_null() {
                // No block is less than a word, and what was free begins with where the next one is.
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

/// Has a line of memory fetched that will be wanted soon: most of what is free was not touched for
/// long, and to wait for it was 2 to 6 % of a simulation's time. Any address will do.
#[inline(always)]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it is a hint, and reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// For so long memory is kept that nobody uses: the next simulation, which follows at once, would
/// fault it in again, and that is a fiftieth of its time.
const KEPT_MS: std::ffi::c_long = 1000;
/// The crate has no name for it.
const PURGE_DELAY: mi::mi_option_t = 15;

/// To be called once; `MIMALLOC_PURGE_DELAY` takes precedence.
pub fn keep_memory() {
    // SAFETY: it sets a number.
    unsafe { mi::mi_option_set_default(PURGE_DELAY, KEPT_MS) }
}
