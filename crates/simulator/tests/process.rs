//! Processes whose events are deferred: paused, without CPU time, with a clock of their own speed.

use std::cell::RefCell;
use std::rc::Rc;

use seed::Seed;
use simulator::world::{Ns, Process, World, SECOND};

/// Starts a process that notes the time after each second by its clock.
fn ticking(world: &Rc<World>) -> (Rc<Process>, Rc<RefCell<Vec<Ns>>>) {
    let (process, noted) = (Process::new(), Rc::<RefCell<Vec<Ns>>>::default());
    let (own, to) = (world.clone(), noted.clone());
    world.spawn(Some(&process), async move {
        for _ in 0..3 {
            own.sleep(SECOND).await;
            to.borrow_mut().push(own.now_ns() / (SECOND / 2));
        }
    });
    (process, noted)
}

fn run_until(world: &World, ns: Ns) {
    assert!(world.step(ns).is_none());
}

#[test]
fn a_process_without_cpu_time_does_later_what_was_due() {
    let world = World::new(Seed(1));
    let (process, noted) = ticking(&world);
    run_until(&world, SECOND / 2);
    world.throttle(&process);
    assert!(!process.paused());
    run_until(&world, 3 * SECOND / 2);
    assert!(world.unthrottle(&process), "something was due");
    run_until(&world, 9 * SECOND);
    assert_eq!(*noted.borrow(), [3, 5, 7]);
    world.throttle(&process);
    assert!(!world.unthrottle(&process), "nothing was due");
}

#[test]
fn cpu_time_does_not_end_a_pause_nor_a_pause_a_lack_of_cpu_time() {
    let world = World::new(Seed(1));
    let (process, noted) = ticking(&world);
    run_until(&world, SECOND / 2);
    world.throttle(&process);
    world.resume_process(&process);
    run_until(&world, 3 * SECOND / 2);
    assert!(noted.borrow().is_empty());
    world.pause(&process);
    assert!(!world.unthrottle(&process));
    run_until(&world, 2 * SECOND);
    assert!(noted.borrow().is_empty());
    world.resume_process(&process);
    run_until(&world, 9 * SECOND);
    assert_eq!(*noted.borrow(), [4, 6, 8]);
}

#[test]
fn waits_follow_the_clock_of_the_process() {
    let world = World::new(Seed(1));
    let (process, noted) = ticking(&world);
    process.set_rate(0.5);
    run_until(&world, 9 * SECOND);
    assert_eq!(*noted.borrow(), [4, 8, 12]);
    assert_eq!(process.shown_ns(SECOND), SECOND / 2);
}
