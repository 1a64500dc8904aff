//! Timing: the thing and its reference in turns, medians of both.

use std::time::{Duration, Instant};

/// Median times of two things that were measured in turns.
pub(crate) struct Pair {
    pub(crate) subject: Duration,
    pub(crate) reference: Duration,
}

/// Runs both `rounds` times in turns; each closure does `batch` operations and the result is the time of one.
pub(crate) fn in_turns<E>(
    rounds: usize,
    batch: u32,
    mut subject: impl FnMut() -> Result<(), E>,
    mut reference: impl FnMut() -> Result<(), E>,
) -> Result<Pair, E> {
    let [subject, reference] = all_in_turns(rounds, batch, [&mut subject, &mut reference])?;
    Ok(Pair { subject, reference })
}

/// The same for any number of things.
pub(crate) fn all_in_turns<E, const N: usize>(
    rounds: usize,
    batch: u32,
    mut acts: [&mut dyn FnMut() -> Result<(), E>; N],
) -> Result<[Duration; N], E> {
    let mut times = [const { Vec::new() }; N];
    // The first round warms caches up and is not counted.
    for round in 0..=rounds {
        for (act, times) in acts.iter_mut().zip(&mut times) {
            let took = time(act)?;
            if round > 0 {
                times.push(took / batch);
            }
        }
    }
    Ok(times.map(median))
}

fn time<E>(act: &mut dyn FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
