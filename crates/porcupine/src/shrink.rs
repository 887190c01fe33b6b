//! Minimizes failing sub-histories by deletion (Zeller & Hildebrandt, "Simplifying and isolating
//! failure-inducing input", 2002).

use crate::budget::Limits;

/// Drops operations, in runs of decreasing length, as long as the rest still fails.
///
/// `close` is applied to each candidate: it drops operations that are impossible, or probably so,
/// without the dropped ones. If the deletion ends in time (`true`), no single operation can be
/// dropped, with `close` or without it. For a witness of w among n operations it tries about
/// w·log(n/w) candidates.
pub fn smallest<T: Copy>(
    ops: &[T],
    limits: Limits,
    close: impl Fn(&mut Vec<T>),
    mut fails: impl FnMut(&[T]) -> bool,
) -> (Vec<T>, bool) {
    let mut kept = ops.to_vec();
    let mut run = kept.len().div_ceil(2).max(1);
    loop {
        let mut dropped = false;
        // Start at the end, where the failure is, so that everything before it goes in long runs.
        let mut from = 0;
        while from < kept.len() {
            if limits.out_of_time().is_some() {
                return (kept, false);
            }
            let to = (from + run).min(kept.len());
            let rest = [&kept[..from], &kept[to..]].concat();
            let mut closed = rest.clone();
            close(&mut closed);
            let candidates = [
                Some(&closed),
                (run == 1 && closed.len() < rest.len()).then_some(&rest),
            ];
            let mut candidates = candidates.into_iter().flatten();
            match candidates.find(|part| !part.is_empty() && fails(part)) {
                // The part before `from` may have shrunk as well; continuing from there is still
                // right.
                Some(part) => {
                    kept = part.clone();
                    dropped = true;
                }
                None => from = to,
            }
        }
        if run == 1 && !dropped {
            return (kept, true);
        }
        if run > 1 {
            run = run.div_ceil(2);
        }
    }
}
