//! Tests what a cut does to the order of packets.

use std::cell::RefCell;
use std::rc::Rc;

use simulator::network::Network;
use simulator::seed::Seed;
use simulator::world::{Ns, World, MS, SECOND};

#[test]
fn no_packet_overtakes_another_when_a_cut_ends() {
    for seed in 0..40 {
        let world = World::new(Seed(seed));
        let network = Network::new(&world, 2, &[(0, 1)]);
        let came = Rc::new(RefCell::new(Vec::new()));
        let mut sent = 0;
        let mut send = |many: usize, every_ns: Ns| {
            for _ in 0..many {
                let (came, number) = (came.clone(), sent);
                network.send(0, 1, None, move || came.borrow_mut().push(number));
                sent += 1;
                world.step(world.now_ns() + every_ns);
            }
        };
        send(3, 1000);
        network.cut(&[(0, 1)]);
        send(5, 50_000);
        network.mend();
        send(60, 10 * MS);
        world.step(world.now_ns() + 5 * SECOND);
        assert_eq!(*came.borrow(), Vec::from_iter(0..sent), "seed {seed}");
    }
}
