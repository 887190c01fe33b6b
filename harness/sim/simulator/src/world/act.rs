//! What an event does.

use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};

use crate::world::World;

/// As much as an event has room for, which takes a line of the processor's cache.
type Room = [MaybeUninit<usize>; 4];

/// Something to do once. What is small is kept in place: most events need no memory of their own.
pub struct Act {
    kind: &'static Kind,
    room: Room,
}

/// What can be done with what is in the room.
struct Kind {
    run: unsafe fn(&mut Room, &World),
    drop: unsafe fn(&mut Room),
    is_idle: unsafe fn(&Room) -> bool,
}

pub(super) trait Does: 'static {
    /// It must not wait.
    fn run(self, world: &World);

    /// It does nothing when its time comes: nobody waits any more.
    fn is_idle(&self) -> bool {
        false
    }
}

struct Call<F>(F);

impl<F: FnOnce() + 'static> Does for Call<F> {
    #[inline(always)]
    fn run(self, _: &World) {
        (self.0)();
    }
}

/// Something of the caller's is due: its number, and whether it is a task.
struct Due(u64, bool);

impl Does for Due {
    fn run(self, world: &World) {
        world.hand_out(self.0, self.1);
    }
}

impl<D: Does> Does for Box<D> {
    #[inline(always)]
    fn run(self, world: &World) {
        (*self).run(world);
    }

    fn is_idle(&self) -> bool {
        (**self).is_idle()
    }
}

impl Act {
    /// Calls something, which must not wait.
    #[inline(always)]
    pub fn call(act: impl FnOnce() + 'static) -> Act {
        Act::new(Call(act))
    }

    /// Gives out that number of the caller's, and whether it is a task.
    pub fn due(number: u64, task: bool) -> Act {
        Act::new(Due(number, task))
    }

    #[inline(always)]
    pub(super) fn new<D: Does>(does: D) -> Act {
        if fits::<D>() {
            Act::placed(does)
        } else {
            Act::placed(Box::new(does))
        }
    }

    #[inline(always)]
    fn placed<D: Does>(does: D) -> Act {
        assert!(fits::<D>());
        let mut room: Room = [MaybeUninit::uninit(); 4];
        // SAFETY: it fits, and is aligned.
        unsafe { room.as_mut_ptr().cast::<D>().write(does) };
        let kind = &Kept::<D>::KIND;
        Act { kind, room }
    }

    #[inline(always)]
    pub(super) fn run(self, world: &World) {
        let (kind, mut room) = (self.kind, self.room);
        mem::forget(self);
        // SAFETY: the room has what its kind is of, and nobody else has it.
        unsafe { (kind.run)(&mut room, world) }
    }

    pub(super) fn is_idle(&self) -> bool {
        // SAFETY: the room has what its kind is of.
        unsafe { (self.kind.is_idle)(&self.room) }
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        // SAFETY: the room has what its kind is of, and nobody has it afterwards.
        unsafe { (self.kind.drop)(&mut self.room) }
    }
}

const fn fits<D>() -> bool {
    size_of::<D>() <= size_of::<Room>() && align_of::<D>() <= align_of::<Room>()
}

/// What can be done with a room that has a `D`, which none but `placed` says of one.
struct Kept<D>(PhantomData<D>);

impl<D: Does> Kept<D> {
    const KIND: Kind = Kind {
        run: Self::run,
        drop: Self::drop,
        is_idle: Self::is_idle,
    };

    unsafe fn run(room: &mut Room, world: &World) {
        room.as_mut_ptr().cast::<D>().read().run(world);
    }

    unsafe fn drop(room: &mut Room) {
        room.as_mut_ptr().cast::<D>().drop_in_place();
    }

    unsafe fn is_idle(room: &Room) -> bool {
        (*room.as_ptr().cast::<D>()).is_idle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use std::rc::Rc;

    /// Whether it is kept in place, and how often it is run; nothing of it is left afterwards.
    fn runs<const N: usize>(runs: bool) -> (bool, Option<[usize; N]>) {
        let (world, had) = (World::new(Seed(1)), Rc::new(std::cell::Cell::new(None)));
        let (has, carried) = (had.clone(), [N; N]);
        let act = move || has.set(Some(carried));
        let small = fits_as(&act);
        let act = Act::call(act);
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
    fn what_is_small_is_kept_in_place() {
        assert_eq!(runs(true), (true, Some([3; 3])));
        assert_eq!(runs(true), (false, Some([4; 4])));
        assert_eq!(runs::<3>(false), (true, None));
        assert_eq!(runs::<4>(false), (false, None));
    }
}
