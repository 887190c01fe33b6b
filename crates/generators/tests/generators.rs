//! States what combinators do, on virtual time: each call takes a while and ends as a test says.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use generators::calls::{AtMostInFlight, Numbered, Repeat, Sequence};
use generators::choose::{KeyRounds, Mix, PerKey};
use generators::few_nodes::{FewNodes, Turn};
use generators::generator::{Call, Generator, MakeCall, MakeGenerator};
use generators::order::{Cycle, Phases, StopWhen};
use generators::scheduler::{Next, Scheduler};
use generators::shares::Reserve;
use generators::timing::{Limit, RestAfterFail, Sleep, TimeLimit, WhileAnswered};
use generators::workers::{Worker, Workers};
use generators::{Failure, Kind, Ns};
use seed::Seed;

const MS: Ns = 1_000_000;
const SECOND: Ns = 1_000 * MS;
const NODES: [&str; 3] = ["a", "b", "c"];

/// A call as it began and ended.
#[derive(Clone, Debug, PartialEq)]
struct Made {
    f: String,
    value: Option<i64>,
    key: Option<i64>,
    worker: i64,
    node: String,
    begun_ns: Ns,
    ended_ns: Ns,
}

/// Says how a call ends, and how long it takes.
type End = fn(&Call, &str) -> (Kind, Ns);

fn quick(_: &Call, _: &str) -> (Kind, Ns) {
    (Kind::Ok, 10 * MS)
}

/// Plays the generator with six workers on three nodes until it is exhausted; returns its calls in
/// the order of their ends.
fn play(generator: impl Generator + 'static, end: End) -> Result<Vec<Made>, Failure> {
    let worker = |number: i64| Worker::new(number, number, NODES[number as usize % 3], false);
    let free = Vec::from_iter((0..6).chain([-1]));
    let mut scheduler = Scheduler::new(Workers::new((0..6).map(worker).collect(), &free, &[]));
    scheduler.follow(Box::new(generator));
    let (mut now_ns, mut made, mut ends) = (0, Vec::new(), BTreeMap::new());
    loop {
        let wake_ns = match scheduler.poll(now_ns, None)? {
            Next::Begun(slot) => {
                let begun = scheduler.in_flight(slot).expect("it has begun");
                let (kind, took_ns) = end(&begun.call, &scheduler.workers().of(slot).node);
                ends.insert((now_ns + took_ns, begun.index), (slot, kind));
                continue;
            }
            Next::Wait(wake_ns) => wake_ns,
            Next::Exhausted => None,
        };
        let next = ends.keys().next().copied();
        match (next, wake_ns) {
            (None, None) => return Ok(made),
            (Some((end_ns, _)), _) if wake_ns.is_none_or(|wake_ns| end_ns <= wake_ns) => {
                now_ns = end_ns;
                let (slot, kind) = ends.pop_first().expect("there is one").1;
                let begun_ns = scheduler.in_flight(slot).expect("it is in flight").time_ns;
                let ended = scheduler.end(slot, kind, now_ns);
                let op: Rc<dyn Any> = Rc::new(ended.call.f.clone());
                scheduler.tell(&ended, &|| Ok(op.clone()))?;
                made.push(Made {
                    f: ended.call.f.to_string(),
                    value: ended.call.value,
                    key: ended.call.key,
                    worker: scheduler.workers().of(slot).number,
                    node: ended.node.as_deref().unwrap_or_default().into(),
                    begun_ns,
                    ended_ns: now_ns,
                });
            }
            (_, Some(wake_ns)) => now_ns = wake_ns,
            (Some(_), None) => unreachable!("without a wake the end comes first"),
        }
    }
}

fn call(f: &str, value: Option<i64>) -> Call {
    Call {
        f: f.into(),
        value,
        key: None,
        node: None,
        nemesis: false,
        foreign: None,
    }
}

fn numbered(f: &'static str) -> Box<dyn Generator> {
    let make: MakeCall = Rc::new(move |number| Ok(call(f, Some(number as i64))));
    Box::new(Numbered { make, number: 0 })
}

fn repeat(f: &str) -> Box<dyn Generator> {
    Box::new(Repeat(call(f, None)))
}

fn limit(generator: Box<dyn Generator>, left: u64) -> Box<dyn Generator> {
    Box::new(Limit { generator, left })
}

fn time_limit(generator: impl Generator + 'static, length_ns: Ns) -> TimeLimit {
    TimeLimit {
        generator: Box::new(generator),
        length_ns,
        end_ns: None,
    }
}

fn of<'a>(made: &'a [Made], f: &str) -> Vec<&'a Made> {
    made.iter().filter(|call| call.f == f).collect()
}

/// The maximum number of these calls that were in flight at a time.
fn in_flight_max(calls: &[&Made]) -> usize {
    let at = |time_ns| {
        let here = |call: &&&Made| call.begun_ns <= time_ns && time_ns < call.ended_ns;
        calls.iter().filter(here).count()
    };
    calls
        .iter()
        .map(|call| at(call.begun_ns))
        .max()
        .unwrap_or(0)
}

#[test]
fn a_mixture_keeps_its_weights_and_loses_exhausted_parts() -> Result<(), Failure> {
    let parts = vec![(3.0, repeat("write")), (1.0, limit(repeat("read"), 50))];
    let made = play(
        Limit {
            generator: Box::new(Mix::new(Seed(1), parts)),
            left: 400,
        },
        quick,
    )?;
    let first = &made[..100];
    assert!((15..35).contains(&of(first, "read").len()));
    assert_eq!(of(&made, "read").len(), 50);
    assert_eq!(of(&made, "write").len(), 350);
    Ok(())
}

#[test]
fn a_key_is_left_after_its_calls_and_never_used_again() -> Result<(), Failure> {
    let make: MakeGenerator = Rc::new(|_| Ok(numbered("write")));
    let keys = PerKey::new(Seed(1), make, 3, 10)?;
    let made = play(
        Limit {
            generator: Box::new(keys),
            left: 200,
        },
        quick,
    )?;
    let mut values: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for call in &made {
        let own = values
            .entry(call.key.expect("every call has a key"))
            .or_default();
        own.push(call.value.expect("every call has a value"));
    }
    assert_eq!(
        Vec::from_iter(values.keys().copied()),
        Vec::from_iter(0..values.len() as i64)
    );
    assert!(values.values().filter(|own| own.len() < 10).count() <= 3);
    for own in values.values_mut() {
        own.sort_unstable();
        assert_eq!(*own, Vec::from_iter(0..own.len() as i64));
    }
    Ok(())
}

#[test]
fn all_keys_of_a_round_make_way_at_the_same_time() -> Result<(), Failure> {
    let keyed = KeyRounds {
        generator: numbered("write"),
        seed: Seed(1),
        keys: 2,
        ops_per_key: 5,
        number: 0,
    };
    let made = play(
        Limit {
            generator: Box::new(keyed),
            left: 40,
        },
        quick,
    )?;
    for call in made {
        let round = call.value.expect("a number") / 10;
        assert!([2 * round, 2 * round + 1].contains(&call.key.expect("every call has a key")));
    }
    Ok(())
}

fn few_nodes(nodes_max: u64) -> TimeLimit {
    let kinds = vec![
        Turn {
            calls: 20,
            pause_ns: 0,
        },
        Turn {
            calls: 5,
            pause_ns: 200 * MS,
        },
    ];
    let (few, others) = (numbered("write"), repeat("read"));
    time_limit(
        FewNodes::new(few, others, Seed(1), nodes_max, kinds, 500 * MS),
        20 * SECOND,
    )
}

#[test]
fn few_nodes_take_turns_with_one_call_in_flight_on_each() -> Result<(), Failure> {
    for nodes_max in 1..=3 {
        let made = play(few_nodes(nodes_max), quick)?;
        let writes = of(&made, "write");
        assert_eq!(in_flight_max(&writes), nodes_max as usize);
        let values: BTreeSet<_> = writes.iter().map(|call| call.value).collect();
        assert_eq!(values.len(), writes.len());
        for f in ["write", "read"] {
            let nodes: BTreeSet<_> = of(&made, f).iter().map(|call| &*call.node).collect();
            assert_eq!(nodes, BTreeSet::from(NODES), "{f}");
        }
    }
    Ok(())
}

#[test]
fn turns_differ_in_their_pauses() -> Result<(), Failure> {
    let made = play(few_nodes(1), quick)?;
    let writes = of(&made, "write");
    let pauses = writes
        .windows(2)
        .map(|two| two[1].begun_ns - two[0].ended_ns);
    let pauses: BTreeSet<Ns> = pauses.collect();
    assert!(pauses.first().expect("some") < &(20 * MS));
    assert!(pauses.last().expect("some") >= &(200 * MS));
    Ok(())
}

#[test]
fn a_node_whose_call_hangs_loses_its_turn() -> Result<(), Failure> {
    fn hangs(call: &Call, node: &str) -> (Kind, Ns) {
        match &*call.f == "write" && node == "c" {
            true => (Kind::Info, 3 * SECOND),
            false => quick(call, node),
        }
    }
    let made = play(few_nodes(1), hangs)?;
    let hung = made
        .iter()
        .find(|call| call.f == "write" && call.node == "c");
    let hung = hung.expect("every node has a turn");
    let meanwhile =
        |call: &&&Made| call.begun_ns > hung.begun_ns + 500 * MS && call.ended_ns < hung.ended_ns;
    let writes = of(&made, "write");
    assert!(writes.iter().filter(meanwhile).any(|call| call.node != "c"));
    assert!(of(&made, "read")
        .iter()
        .filter(meanwhile)
        .any(|call| call.node == "c"));
    Ok(())
}

#[test]
fn a_worker_rests_after_a_refusal() -> Result<(), Failure> {
    let resting = RestAfterFail::new(numbered("write"), 100 * MS);
    let made = play(time_limit(resting, SECOND), |_, _| (Kind::Fail, MS))?;
    for worker in 0..6 {
        let own = made.iter().filter(|call| call.worker == worker);
        let own: Vec<_> = own.map(|call| call.begun_ns).collect();
        assert!(own.len() >= 9);
        assert!(own.windows(2).all(|two| two[1] - two[0] == 101 * MS));
    }
    Ok(())
}

#[test]
fn shares_have_workers_of_their_own() -> Result<(), Failure> {
    let parts = vec![(0, repeat("write")), (2, repeat("read"))];
    let made = play(time_limit(Reserve { parts }, SECOND), quick)?;
    assert!(made
        .iter()
        .all(|call| (call.worker < 2) == (call.f == "write")));
    Ok(())
}

#[test]
fn a_limited_number_is_in_flight() -> Result<(), Failure> {
    let make: MakeCall = Rc::new(|number| Ok(call("write", Some(number as i64))));
    let few = AtMostInFlight::new(make, 2, 30 * MS, Seed(1), 50 * MS);
    let made = play(time_limit(few, SECOND), quick)?;
    let writes = of(&made, "write");
    assert_eq!(writes[0].begun_ns, 50 * MS);
    assert_eq!(in_flight_max(&writes), 2);
    Ok(())
}

#[test]
fn phases_and_rounds_wait_for_their_calls() -> Result<(), Failure> {
    let one = |value| Sequence([call("write", Some(value))].into());
    let make: MakeGenerator = Rc::new(move |round| {
        let pause = Sleep {
            length_ns: 5 * MS,
            end_ns: None,
        };
        let parts: [Box<dyn Generator>; 2] = [Box::new(one(round as i64)), Box::new(pause)];
        Ok(Box::new(Phases::new(parts.into())))
    });
    let made = play(
        Limit {
            generator: Box::new(Cycle::new(make)?),
            left: 3,
        },
        quick,
    )?;
    let begun: Vec<_> = made.iter().map(|call| call.begun_ns / MS).collect();
    assert_eq!(begun, [0, 15, 30]);
    let empty = Cycle::new(Rc::new(|_| Ok(Box::new(Sequence([].into())))))?;
    let error = play(empty, quick).expect_err("it would spin");
    assert!(error.to_string().contains("it would spin"));
    Ok(())
}

#[test]
fn an_awaited_end_stops_a_generator() -> Result<(), Failure> {
    let parts = vec![(9.0, repeat("read")), (1.0, repeat("stop"))];
    let stopped = StopWhen {
        generator: Box::new(Mix::new(Seed(1), parts)),
        is_awaited: Rc::new(|op| Ok(**op.downcast_ref::<Rc<str>>().expect("a name") == *"stop")),
        over: false,
    };
    let made = play(stopped, quick)?;
    let awaited = of(&made, "stop")[0].ended_ns;
    assert!(made.iter().all(|call| call.begun_ns <= awaited));
    Ok(())
}

#[test]
fn calls_end_when_nothing_succeeds_any_more() -> Result<(), Failure> {
    let patient = WhileAnswered {
        generator: numbered("read"),
        patience_ns: SECOND,
        since_ns: None,
    };
    fn breaks(call: &Call, _: &str) -> (Kind, Ns) {
        match call.value < Some(60) {
            true => (Kind::Ok, 10 * MS),
            false => (Kind::Fail, 10 * MS),
        }
    }
    let made = play(patient, breaks)?;
    let end_ns = made.last().expect("some").ended_ns;
    assert!((1_090 * MS..1_120 * MS).contains(&end_ns), "{end_ns}");
    Ok(())
}
