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
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // The first round warms caches up and is not counted.
    for round in 0..=rounds {
        let (a, b) = (time(&mut subject)?, time(&mut reference)?);
        if round > 0 {
            ours.push(a / batch);
            theirs.push(b / batch);
        }
    }
    Ok(Pair { subject: median(ours), reference: median(theirs) })
}

fn time<E>(act: &mut impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
