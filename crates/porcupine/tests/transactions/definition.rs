//! Decides the levels by definition: tries all sets of transactions of unknown outcome that may
//! have happened, and all orders.

use std::collections::BTreeSet;

use pyporcupine::transactions::history::Outcome;

use crate::made::{write, Made, Op, State, Transaction, KEYS};

/// The order in time that an execution respects.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Nothing,
    Session,
    RealTime,
}

/// Which levels a history satisfies.
pub struct Satisfied<'a> {
    made: &'a Made,
}

impl<'a> Satisfied<'a> {
    pub fn new(made: &'a Made) -> Self {
        Self { made }
    }

    pub fn level(&self, name: &str) -> bool {
        match name {
            "read-uncommitted" => !self.reads_twice() && self.orders_versions(false),
            "read-committed" => self.reads_committed() && self.orders_versions(true),
            "causal" => self.is_causal(Order::Nothing),
            "prefix" => self.has_prefixes(Order::Nothing),
            "strong-session-causal" => self.is_causal(Order::Session),
            "strong-session-prefix" => self.has_prefixes(Order::Session),
            "snapshot-isolation" => self.has_snapshots(Order::Nothing),
            "strong-session-snapshot-isolation" => self.has_snapshots(Order::Session),
            "strong-snapshot-isolation" => self.has_snapshots(Order::RealTime),
            "serializable" => self.is_serial(Order::Nothing),
            "strong-session-serializable" => self.is_serial(Order::Session),
            "strict-serializable" => self.is_serial(Order::RealTime),
            _ => panic!("no definition of {name}"),
        }
    }

    fn all(&self) -> &[Transaction] {
        &self.made.transactions
    }

    /// Calls `works` with each set of transactions that may have happened.
    fn some_set(&self, works: impl Fn(&[usize]) -> bool) -> bool {
        let all = self.all();
        (0u32..1 << all.len()).any(|bits| {
            let is_in = |at: usize| bits >> at & 1 == 1;
            let fits = all.iter().enumerate().all(|(at, one)| match one.outcome {
                Outcome::Committed => is_in(at),
                Outcome::Aborted => !is_in(at),
                Outcome::Unknown => true,
            });
            let set: Vec<usize> = (0..all.len()).filter(|&at| is_in(at)).collect();
            fits && works(&set)
        })
    }

    fn precedes(&self, a: usize, b: usize, time: Order) -> bool {
        let (first, second) = (&self.all()[a], &self.all()[b]);
        let session = first.process == second.process && a < b;
        let returned = first.outcome == Outcome::Committed && first.ret < second.call;
        match time {
            Order::Nothing => false,
            Order::Session => session,
            Order::RealTime => session || returned,
        }
    }

    fn is_serial(&self, time: Order) -> bool {
        self.some_set(|set| self.serial_from(set, &mut Vec::new(), &State::default(), time))
    }

    fn serial_from(
        &self,
        set: &[usize],
        done: &mut Vec<usize>,
        state: &State,
        time: Order,
    ) -> bool {
        if done.len() == set.len() {
            return true;
        }
        let left: Vec<usize> = set
            .iter()
            .copied()
            .filter(|at| !done.contains(at))
            .collect();
        left.iter().any(|&next| {
            if left.iter().any(|&other| self.precedes(other, next, time)) {
                return false;
            }
            let Some(after) = self.run(next, state) else {
                return false;
            };
            done.push(next);
            let works = self.serial_from(set, done, &after, time);
            done.pop();
            works
        })
    }

    /// Executes a transaction on a state; `None` if it found something else.
    fn run(&self, at: usize, state: &State) -> Option<State> {
        let one = &self.all()[at];
        let mut state = state.clone();
        for op in &one.ops {
            match op {
                Op::Append(key, element) => write(&mut state[*key], *element, self.made.lists),
                Op::Read(key, list) => {
                    if one.outcome == Outcome::Committed && state[*key] != *list {
                        return None;
                    }
                }
            }
        }
        Some(state)
    }

    /// Whether each transaction may have read from a snapshot, so that no two of which neither
    /// sees the other append to the same key (Berenson et al. 1995, with snapshots of any age).
    fn has_snapshots(&self, time: Order) -> bool {
        self.some_set(|set| {
            let mut run = Snapshots {
                satisfied: self,
                set,
                time,
                started: Vec::new(),
                committed: Vec::new(),
            };
            run.works(&State::default())
        })
    }

    fn reads(&self) -> impl Iterator<Item = (usize, usize, &Vec<i64>)> {
        let committed = self.all().iter().enumerate();
        let committed = committed.filter(|(_, one)| one.outcome == Outcome::Committed);
        committed.flat_map(|(at, one)| {
            one.ops.iter().filter_map(move |op| match op {
                Op::Read(key, list) => Some((at, *key, list)),
                Op::Append(..) => None,
            })
        })
    }

    fn reads_twice(&self) -> bool {
        self.reads()
            .any(|(_, _, list)| list.iter().collect::<BTreeSet<_>>().len() < list.len())
    }

    /// Whether all reads of a key are the beginning of each other.
    fn reads_agree(&self) -> bool {
        let mut pairs = self.reads().flat_map(|a| self.reads().map(move |b| (a, b)));
        pairs.all(|(a, b)| a.1 != b.1 || a.2.starts_with(b.2) || b.2.starts_with(a.2))
    }

    fn writer(&self, element: i64) -> usize {
        let writes = |one: &Transaction| {
            let mut ops = one.ops.iter();
            ops.any(|op| matches!(op, Op::Append(_, other) if *other == element))
        };
        self.all()
            .iter()
            .position(writes)
            .expect("somebody appended it")
    }

    fn appends(&self, at: usize) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.all()[at].ops.iter().filter_map(|op| match op {
            Op::Append(key, element) => Some((*key, *element)),
            Op::Read(..) => None,
        })
    }

    /// Whether reads agree, and find only what was committed and not replaced by the same
    /// transaction.
    fn reads_committed(&self) -> bool {
        !self.reads_twice()
            && self.reads_agree()
            && self.appends_in_order()
            && self.reads().all(|(reader, key, list)| {
                let committed =
                    |&element: &i64| self.all()[self.writer(element)].outcome != Outcome::Aborted;
                let last = list.last().is_none_or(|&last| {
                    let writer = self.writer(last);
                    let own = self.appends(writer).filter(|append| append.0 == key);
                    writer == reader || own.last() == Some((key, last))
                });
                list.iter().all(committed) && last && !self.reads_ahead(reader)
            })
    }

    /// Whether each read that finds an element also finds before it what the same transaction had
    /// appended before.
    fn appends_in_order(&self) -> bool {
        self.reads().all(|(_, key, list)| {
            list.iter().enumerate().all(|(place, &element)| {
                let own = self
                    .appends(self.writer(element))
                    .filter(|append| append.0 == key);
                let mut earlier = own.take_while(|append| append.1 != element);
                earlier.all(|append| list[..place].contains(&append.1))
            })
        })
    }

    fn reads_ahead(&self, reader: usize) -> bool {
        let ops = &self.all()[reader].ops;
        ops.iter().enumerate().any(|(at, op)| match op {
            Op::Read(_, list) => ops[at..]
                .iter()
                .any(|later| matches!(later, Op::Append(_, element) if list.contains(element))),
            Op::Append(..) => false,
        })
    }

    /// Whether some order of all appends of each key, of which reads show the beginning, orders the
    /// transactions, together with what they read if `reads`.
    fn orders_versions(&self, reads: bool) -> bool {
        if !self.reads_agree() {
            return !reads; // there is no order of versions to speak of
        }
        let observed: BTreeSet<i64> = self.reads().flat_map(|read| read.2.clone()).collect();
        let is_in = |at: usize| match self.all()[at].outcome {
            Outcome::Committed => true,
            Outcome::Aborted => false,
            Outcome::Unknown => self.appends(at).any(|append| observed.contains(&append.1)),
        };
        let count = self.all().len();
        let mut orders: Vec<Vec<Vec<i64>>> = Vec::new();
        for key in 0..KEYS {
            let known = self.reads().filter(|read| read.1 == key).map(|read| read.2);
            let known = known
                .max_by_key(|list| list.len())
                .cloned()
                .unwrap_or_default();
            let appends = (0..count)
                .filter(|&at| is_in(at))
                .flat_map(|at| self.appends(at));
            let rest = appends.filter(|append| append.0 == key && !known.contains(&append.1));
            let rest: Vec<i64> = rest.map(|append| append.1).collect();
            let known = known
                .into_iter()
                .filter(|&element| is_in(self.writer(element)));
            let known: Vec<i64> = known.collect();
            orders.push(
                permutations(&rest)
                    .into_iter()
                    .map(|rest| [&known[..], &rest].concat())
                    .collect(),
            );
        }
        let mut pairs = orders[0]
            .iter()
            .flat_map(|a| orders[1].iter().map(move |b| [a, b]));
        pairs.any(|order| {
            let mut edges: Vec<(usize, usize)> = Vec::new();
            for list in order {
                edges.extend(
                    list.windows(2)
                        .map(|two| (self.writer(two[0]), self.writer(two[1]))),
                );
            }
            if reads {
                let last = self
                    .reads()
                    .filter_map(|read| Some((read.0, *read.2.last()?)));
                edges.extend(last.map(|(reader, last)| (self.writer(last), reader)));
            }
            edges.retain(|(a, b)| a != b);
            is_acyclic(count, &edges)
        })
    }
}

impl Made {
    /// Whether two transactions that happened appended to a key what nobody read.
    pub fn has_unordered_appends(&self, satisfied: &Satisfied) -> bool {
        let observed: BTreeSet<i64> = satisfied.reads().flat_map(|read| read.2.clone()).collect();
        (0..KEYS).any(|key| {
            let unseen = |at: &usize| {
                let of_key =
                    |append: &(usize, i64)| append.0 == key && !observed.contains(&append.1);
                self.transactions[*at].outcome != Outcome::Aborted
                    && satisfied.appends(*at).any(|append| of_key(&append))
            };
            (0..self.transactions.len()).filter(unseen).count() > 1
        })
    }
}

/// Weaker levels, by the axioms of Cerone, Bernardi & Gotsman (CONCUR 2015): an order in which
/// transactions commit, and for each transaction the earlier ones that it sees.
impl Satisfied<'_> {
    /// Whether each transaction may have seen all that committed before some moment.
    fn has_prefixes(&self, time: Order) -> bool {
        self.commits_in_some_order(|order| {
            let mut places = (0..order.len()).map(|place| (order[place], place));
            places.all(|(at, place)| {
                (0..=place).any(|seen| self.sees(at, &order[..seen], order, time))
            })
        })
    }

    /// Whether each transaction may have seen all that those saw which it sees.
    fn is_causal(&self, time: Order) -> bool {
        self.commits_in_some_order(|order| self.see_from(order, &mut Vec::new(), time))
    }

    /// Chooses what each transaction sees, in their order.
    fn see_from(&self, order: &[usize], seen: &mut Vec<Vec<usize>>, time: Order) -> bool {
        let place = seen.len();
        let Some(&at) = order.get(place) else {
            return true;
        };
        (0u32..1 << place).any(|bits| {
            let chosen: Vec<usize> = (0..place).filter(|at| bits >> at & 1 == 1).collect();
            let is_closed = chosen
                .iter()
                .all(|&other| seen[other].iter().all(|further| chosen.contains(further)));
            let visible: Vec<usize> = chosen.iter().map(|&place| order[place]).collect();
            if !is_closed || !self.sees(at, &visible, order, time) {
                return false;
            }
            seen.push(chosen);
            let works = self.see_from(order, seen, time);
            seen.pop();
            works
        })
    }

    fn commits_in_some_order(&self, works: impl Fn(&[usize]) -> bool) -> bool {
        (!self.made.lists || self.reads_committed())
            && self.some_set(|set| {
                let set: Vec<i64> = set.iter().map(|&at| at as i64).collect();
                permutations(&set).into_iter().any(|order| {
                    let order: Vec<usize> = order.iter().map(|&at| at as usize).collect();
                    (!self.made.lists || self.finds_versions(&order)) && works(&order)
                })
            })
    }

    /// Whether each read, also of a transaction's own append, finds what the list was at some moment,
    /// if the transactions append in an order.
    fn finds_versions(&self, order: &[usize]) -> bool {
        self.reads().all(|(_, key, found)| {
            let appends = order.iter().flat_map(|&at| self.appends(at));
            let list: Vec<i64> = appends
                .filter(|one| one.0 == key)
                .map(|one| one.1)
                .collect();
            list.starts_with(found)
        })
    }

    /// Whether a transaction that sees some others found what it must: of each key what the last of
    /// them made of it, which has all that was committed before, and its own appends.
    fn sees(&self, at: usize, visible: &[usize], order: &[usize], time: Order) -> bool {
        let is_missed =
            |&other: &usize| self.precedes(other, at, time) && !visible.contains(&other);
        if order.iter().any(is_missed) {
            return false;
        }
        let mut state = State::default();
        for (key, held) in state.iter_mut().enumerate() {
            let appends = |other: usize| self.appends(other).filter(move |one| one.0 == key);
            let last = order
                .iter()
                .rposition(|&other| visible.contains(&other) && appends(other).next().is_some());
            for &other in last.map_or(&[][..], |last| &order[..=last]) {
                for (_, element) in appends(other) {
                    write(held, element, self.made.lists);
                }
            }
        }
        self.run(at, &state).is_some()
    }
}

/// An execution with snapshots that has not ended.
struct Snapshots<'a> {
    satisfied: &'a Satisfied<'a>,
    set: &'a [usize],
    time: Order,
    /// Transactions that started, with the number of those that had committed before.
    started: Vec<(usize, usize)>,
    committed: Vec<usize>,
}

impl Snapshots<'_> {
    fn works(&mut self, state: &State) -> bool {
        if self.committed.len() == self.set.len() {
            return true;
        }
        self.set.iter().any(|&next| {
            let started = self.started.iter().find(|one| one.0 == next).copied();
            match started {
                None => self.start(next, state),
                Some(_) if self.committed.contains(&next) => false,
                Some((_, seen)) => self.commit(next, seen, state),
            }
        })
    }

    fn start(&mut self, next: usize, state: &State) -> bool {
        let satisfied = self.satisfied;
        let must_wait = self.set.iter().any(|&other| {
            satisfied.precedes(other, next, self.time) && !self.committed.contains(&other)
        });
        if must_wait || satisfied.run(next, state).is_none() {
            return false;
        }
        self.started.push((next, self.committed.len()));
        let works = self.works(state);
        self.started.pop();
        works
    }

    fn commit(&mut self, next: usize, seen: usize, state: &State) -> bool {
        let satisfied = self.satisfied;
        let keys = |at: usize| satisfied.appends(at).map(|append| append.0);
        let conflicts = |other: &usize| keys(*other).any(|key| keys(next).any(|own| own == key));
        if self.committed[seen..].iter().any(conflicts) {
            return false;
        }
        let mut after = state.clone();
        for (key, element) in satisfied.appends(next) {
            write(&mut after[key], element, satisfied.made.lists);
        }
        self.committed.push(next);
        let works = self.works(&after);
        self.committed.pop();
        works
    }
}

fn permutations(items: &[i64]) -> Vec<Vec<i64>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, &item) in items.iter().enumerate() {
        let rest = [&items[..at], &items[at + 1..]].concat();
        for mut tail in permutations(&rest) {
            tail.insert(0, item);
            all.push(tail);
        }
    }
    all
}

fn is_acyclic(count: usize, edges: &[(usize, usize)]) -> bool {
    let mut left: Vec<usize> = (0..count).collect();
    loop {
        let is_first = |at: &usize| !edges.iter().any(|(a, b)| b == at && left.contains(a));
        let Some(first) = left.iter().position(is_first) else {
            return left.is_empty();
        };
        left.remove(first);
    }
}
