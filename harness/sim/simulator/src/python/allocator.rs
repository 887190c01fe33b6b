//! mimalloc, by its shortest way: a simulation is many small things for a moment.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// What every block of mimalloc's is aligned to.
const WORD: usize = 8;

pub struct Allocator;

// SAFETY: mimalloc keeps the contract, and its blocks without a given alignment are those of words.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if align <= WORD {
            mi_malloc(size).cast()
        } else {
            mi_malloc_aligned(size, align).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if align <= WORD {
            mi_zalloc(size).cast()
        } else {
            mi_zalloc_aligned(size, align).cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        mi_free(block.cast());
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        if align <= WORD {
            mi_realloc(block.cast(), size).cast()
        } else {
            mi_realloc_aligned(block.cast(), size, align).cast()
        }
    }
}
