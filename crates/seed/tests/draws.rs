//! States what a seed draws.

use seed::Seed;

/// The first numbers of SplitMix64 with the state 0, as its authors' implementation gives them.
#[test]
fn draws_are_those_of_splitmix64() {
    let drawn = [0, 1, 2].map(|counter| Seed(0).draw(counter));
    let expected = [
        0xe220_a839_7b1d_cdaf,
        0x6e78_9e6a_a1b9_65f4,
        0x06c4_5d18_8009_454f,
    ];
    assert_eq!(drawn, expected);
    // As tests/test_core_values.py of the repository states it.
    assert_eq!(Seed(7).draw(0), 7_191_089_600_892_374_487);
}

#[test]
fn a_draw_is_scaled_to_a_bound_and_to_a_unit() {
    for counter in 0..1000 {
        assert!(Seed(7).below(counter, 3) < 3);
        assert!((0.0..1.0).contains(&Seed(7).unit(counter)));
    }
    assert_eq!(Seed(7).choice(-1, 1), 0);
}

#[test]
fn children_with_other_names_draw_other_numbers() {
    let parent = Seed(1);
    assert_eq!(parent.child("a").draw(0), parent.child("a").draw(0));
    assert_ne!(parent.child("a").draw(0), parent.child("b").draw(0));
    assert_ne!(parent.child("a").draw(0), Seed(2).child("a").draw(0));
}

#[test]
fn a_shuffle_keeps_every_item() {
    let mut items = Vec::from_iter(0..20);
    Seed(3).shuffle(&mut items);
    assert_ne!(items, Vec::from_iter(0..20));
    items.sort_unstable();
    assert_eq!(items, Vec::from_iter(0..20));
}
