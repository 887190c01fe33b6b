//! Defines the action of an event.

use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};

use crate::world::World;

/// The buffer of an event, such that the event fills a cache line.
type InlineBuffer = [MaybeUninit<usize>; 4];

/// An action that runs once. A small one is stored inline: most events need no memory of their own.
pub struct Action {
    kind: &'static Kind,
    buffer: InlineBuffer,
}

/// The operations on the content of a buffer.
struct Kind {
    run: unsafe fn(&mut InlineBuffer, &World),
    drop: unsafe fn(&mut InlineBuffer),
    is_idle: unsafe fn(&InlineBuffer) -> bool,
}

pub(super) trait Run: 'static {
    /// Runs the action, which must not wait.
    fn run(self, world: &World);

    /// Whether the action does nothing when it is due, because nobody waits any more.
    fn is_idle(&self) -> bool {
        false
    }
}

struct Call<F>(F);

impl<F: FnOnce() + 'static> Run for Call<F> {
    #[inline(always)]
    fn run(self, _: &World) {
        (self.0)();
    }
}

/// Reports the caller's event or task of this number as due.
struct Due(u64, bool);

impl Run for Due {
    fn run(self, world: &World) {
        world.report_due(self.0, self.1);
    }
}

impl<D: Run> Run for Box<D> {
    #[inline(always)]
    fn run(self, world: &World) {
        (*self).run(world);
    }

    fn is_idle(&self) -> bool {
        (**self).is_idle()
    }
}

impl Action {
    /// Creates an action that calls a function, which must not wait.
    #[inline(always)]
    pub fn call(act: impl FnOnce() + 'static) -> Action {
        Action::new(Call(act))
    }

    /// Creates an action that reports the caller's event or task of this number as due.
    pub fn due(number: u64, task: bool) -> Action {
        Action::new(Due(number, task))
    }

    #[inline(always)]
    pub(super) fn new<D: Run>(run: D) -> Action {
        if fits::<D>() {
            Action::inline(run)
        } else {
            Action::inline(Box::new(run))
        }
    }

    #[inline(always)]
    fn inline<D: Run>(run: D) -> Action {
        assert!(fits::<D>());
        let mut buffer: InlineBuffer = [MaybeUninit::uninit(); 4];
        // SAFETY: the value fits and is aligned.
        unsafe { buffer.as_mut_ptr().cast::<D>().write(run) };
        let kind = &KindOf::<D>::KIND;
        Action { kind, buffer }
    }

    #[inline(always)]
    pub(super) fn run(self, world: &World) {
        let (kind, mut buffer) = (self.kind, self.buffer);
        mem::forget(self);
        // SAFETY: the buffer holds a value of the kind's type, which is not used again.
        unsafe { (kind.run)(&mut buffer, world) }
    }

    pub(super) fn is_idle(&self) -> bool {
        // SAFETY: the buffer holds a value of the kind's type.
        unsafe { (self.kind.is_idle)(&self.buffer) }
    }
}

impl Drop for Action {
    fn drop(&mut self) {
        // SAFETY: the buffer holds a value of the kind's type, which is not used again.
        unsafe { (self.kind.drop)(&mut self.buffer) }
    }
}

const fn fits<D>() -> bool {
    size_of::<D>() <= size_of::<InlineBuffer>() && align_of::<D>() <= align_of::<InlineBuffer>()
}

/// The operations on a buffer that holds a `D`. Only `inline` assigns them to a buffer.
struct KindOf<D>(PhantomData<D>);

impl<D: Run> KindOf<D> {
    const KIND: Kind = Kind {
        run: Self::run,
        drop: Self::drop,
        is_idle: Self::is_idle,
    };

    unsafe fn run(buffer: &mut InlineBuffer, world: &World) {
        buffer.as_mut_ptr().cast::<D>().read().run(world);
    }

    unsafe fn drop(buffer: &mut InlineBuffer) {
        buffer.as_mut_ptr().cast::<D>().drop_in_place();
    }

    unsafe fn is_idle(buffer: &InlineBuffer) -> bool {
        (*buffer.as_ptr().cast::<D>()).is_idle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seed::Seed;
    use std::rc::Rc;

    /// Returns whether the action is stored inline and what it did, and checks that nothing of it
    /// is left.
    fn runs<const N: usize>(runs: bool) -> (bool, Option<[usize; N]>) {
        let (world, had) = (World::new(Seed(1)), Rc::new(std::cell::Cell::new(None)));
        let (has, carried) = (had.clone(), [N; N]);
        let act = move || has.set(Some(carried));
        let small = fits_as(&act);
        let act = Action::call(act);
        assert!(!act.is_idle());
        if runs {
            act.run(&world);
        } else {
            drop(act);
        }
        assert_eq!(Rc::strong_count(&had), 1);
        (small, had.get())
    }

    fn fits_as<D>(_: &D) -> bool {
        fits::<D>()
    }

    #[test]
    fn small_actions_are_stored_inline() {
        assert_eq!(runs(true), (true, Some([3; 3])));
        assert_eq!(runs(true), (false, Some([4; 4])));
        assert_eq!(runs::<3>(false), (true, None));
        assert_eq!(runs::<4>(false), (false, None));
    }
}
