//! Measures packets without receivers that act: each arrives after a drawn delay, and its arrival
//! sends the next. This bounds the speed of a simulation whose servers cost nothing.
//!
//!     cargo bench --features python --bench packets   # with the allocator of the extension module

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use seed::Seed;
use simulator::network::Network;
use simulator::world::{World, SECOND};

/// Number of packets under way at a time.
const FLIGHTS: u64 = 32;
const TURNS: usize = 5;

struct Players {
    network: Network,
    received: Cell<u64>,
}

/// Sends a packet that carries four numbers.
fn play(players: &Rc<Players>, from: usize, carried: [u64; 4]) {
    let (to, them) = (1 - from, players.clone());
    players.network.send(from, to, None, move || {
        them.received.set(them.received.get() + 1);
        play(&them, to, black_box(carried));
    });
}

fn main() {
    for _ in 0..TURNS {
        let world = World::new(Seed(1));
        let players = Rc::new(Players {
            network: Network::new(&world, 2, &[(0, 1), (1, 0)]),
            received: Cell::new(0),
        });
        for flight in 0..FLIGHTS {
            play(&players, flight as usize % 2, [flight; 4]);
        }
        let begun = Instant::now();
        world.step(20 * SECOND);
        let (took, packets) = (begun.elapsed(), players.received.get());
        println!("{:.1} ns a packet", took.as_nanos() as f64 / packets as f64);
        world.clear();
    }
}
