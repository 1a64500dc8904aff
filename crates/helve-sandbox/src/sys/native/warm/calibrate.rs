//! Finds out where a shell is to be stopped: by running it, and by proving each guess.
//!
//! ```text
//! list the system calls of `SHELL -c PLACEHOLDER`
//!   └ the last one after which a changed text is still obeyed
//!       └ step on from there to an instruction of the shell's own that it has not come by before
//!           └ what of the start must be mended there: the copy of the text, the second of the start
//! ```
//!
//! In: a shell and its environment, in a process with one thread that may allocate. Out: a [`Stop`] with which the shell
//! has obeyed a text, or nothing. The shell is held like a command (`apart`, `run`), and each run of it is ended by an
//! alarm at the latest.

mod apart;
mod run;

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};

use run::{Image, Lab, Run};

use super::super::trace::{self, BREAKPOINT, Event};
use super::{Kept, Stop, TEXT_BYTES};

/// A start-up with more system calls than this is not followed.
const MOST_CALLS: usize = 5_000;
/// How many of the last system calls are tried.
const TRIED_CALLS: usize = 24;
/// How far is stepped from the last good system call on. What a shell does from there to its text takes no time.
const MOST_STEPS: usize = 200;
/// How many words that could be the second of the start are tried.
const MOST_CLOCKS: usize = 16;
/// In how many more runs the way to the copy of the text must hold.
const OTHER_RUNS: usize = 2;
/// How far behind a pointer the copy of the text is looked for.
const SEARCHED: u64 = 512 * 1024;

/// Finds where `shell` stops, started with its path as argument 0 and with `env`, which ends with a null pointer. None
/// if the shell cannot be kept warm: another machine, following is refused, a shell of another kind, or a start-up file
/// (`BASH_ENV`) whose commands must not run before the call.
pub(in crate::sys) fn calibrate(shell: &CStr, env: &[*const c_char]) -> Option<Stop> {
    apart::search(|| find(shell, env))
}

/// The search itself, in this process.
pub(super) fn find(shell: &CStr, env: &[*const c_char]) -> Option<Stop> {
    let lab = Lab::new(shell, env)?;
    let calls = count_calls(&lab)?;
    let last = (calls.saturating_sub(TRIED_CALLS)..calls)
        .rev()
        .find(|call| lab.obeys(|run| run.run_past_call(*call)).is_some())?;
    let mut stop =
        stops_after(&lab, last)?.into_iter().find(|stop| lab.obeys(|run| run.run_to(stop)).is_some())?;
    stop.clock = find_clock(&lab, &stop)?;
    stop.copy = find_copy(&lab, &stop)?;
    prove(shell, env, &stop).then_some(stop)
}

/// How many system calls the shell makes before it ends; the last one does not return.
fn count_calls(lab: &Lab) -> Option<usize> {
    let mut run = lab.start()?;
    let mut stops = 0;
    loop {
        match run.next(libc::PTRACE_SYSCALL)? {
            Event::Call if stops < 2 * MOST_CALLS => stops += 1,
            Event::Gone(0) => return Some(stops / 2),
            _ => return None,
        }
    }
}

/// The instructions of the shell's own, in the order in which it comes by them after the system call `last`, that it
/// has not come by before.
fn stops_after(lab: &Lab, last: usize) -> Option<Vec<Stop>> {
    let mut run = lab.start()?;
    let image = Image::read(&run)?;
    run.run_past_call(last)?;
    let mut stops: Vec<Stop> = Vec::new();
    for _ in 0..MOST_STEPS {
        match run.next(libc::PTRACE_SINGLESTEP)? {
            Event::Signal(libc::SIGTRAP) => {}
            Event::Gone(_) => break,
            _ => return None,
        }
        let address = trace::instruction(run.child).ok()?;
        let place = address.wrapping_sub(run.start.entry);
        if image.code.contains(&address) && stops.iter().all(|stop| stop.place != place) {
            let code = trace::peek(run.child, address).ok()?;
            stops.push(Stop { place, code, copy: None, clock: None });
        }
    }
    drop(run);
    let earlier = met_before(lab, last, &stops)?;
    stops.retain(|stop| !earlier.contains(&stop.place));
    Some(stops)
}

/// The places of those `stops` that the shell comes by before the end of the system call `last`.
fn met_before(lab: &Lab, last: usize, stops: &[Stop]) -> Option<BTreeSet<u64>> {
    let mut run = lab.start()?;
    let entry = run.start.entry;
    // Byte by byte, because the words of neighbours overlap.
    for stop in stops {
        run.set_byte(entry.wrapping_add(stop.place), BREAKPOINT as u8)?;
    }
    let mut met = BTreeSet::new();
    let mut passed = 0;
    while passed < 2 * last + 2 {
        match run.next(libc::PTRACE_SYSCALL)? {
            Event::Call => passed += 1,
            Event::Signal(libc::SIGTRAP) => {
                let address = trace::instruction(run.child).ok()?.wrapping_sub(1);
                let stop = stops.iter().find(|stop| entry.wrapping_add(stop.place) == address)?;
                run.set_byte(address, stop.code as u8)?;
                trace::set_instruction(run.child, address).ok()?;
                met.insert(stop.place);
            }
            _ => return None,
        }
    }
    Some(met)
}

/// The word that holds the second of the start: when it is set back, `SECONDS` grows by as much. `Some(None)` if the
/// shell keeps none.
fn find_clock(lab: &Lab, stop: &Stop) -> Option<Option<u64>> {
    const BACK: u64 = 5_000;
    let seconds = |run: &mut Run| String::from_utf8(run.answer(b"echo \"$SECONDS\"")?).ok();
    let mut run = lab.start()?;
    run.run_to(stop)?;
    if seconds(&mut run)?.trim().is_empty() {
        return Some(None);
    }
    let mut run = lab.start()?;
    run.run_to(stop)?;
    let now = trace::now().ok()?;
    let candidates: Vec<u64> = Image::read(&run)?
        .words(&run)?
        .into_iter()
        .filter(|(_, value)| now.checked_sub(*value).is_some_and(|age| age < 10))
        .map(|(place, _)| place)
        .take(MOST_CLOCKS)
        .collect();
    drop(run);
    for place in candidates {
        let mut run = lab.start()?;
        run.run_to(stop)?;
        let address = run.start.entry.wrapping_add(place);
        let value = trace::peek(run.child, address).ok()?;
        trace::poke(run.child, address, value.wrapping_sub(BACK)).ok()?;
        if seconds(&mut run)?.trim().parse().is_ok_and(|shown: u64| (BACK..BACK + 10).contains(&shown)) {
            return Some(Some(place));
        }
    }
    None
}

/// The shell's copy of its text: the nearest word that leads to it in other runs too. `Some(None)` if there is none.
fn find_copy(lab: &Lab, stop: &Stop) -> Option<Option<Kept>> {
    let mut run = lab.start()?;
    run.run_to(stop)?;
    let words = Image::read(&run)?.words(&run)?;
    let Some(copy) = search_copy(&run, &words) else {
        return Some(None);
    };
    let mut near: Vec<Kept> = words
        .into_iter()
        .filter_map(|(pointer, value)| Some(Kept { pointer, distance: copy.checked_sub(value)? }))
        .filter(|kept| kept.distance < SEARCHED)
        .collect();
    near.sort_by_key(|kept| kept.distance);
    for _ in 0..OTHER_RUNS {
        let mut run = lab.start()?;
        run.run_to(stop)?;
        near.retain(|kept| kept.find(run.child, run.start.entry).is_ok());
    }
    near.first().map(|kept| Some(*kept))
}

/// Looks for the placeholder behind every address that the shell's variables hold.
fn search_copy(run: &Run, words: &[(u64, u64)]) -> Option<u64> {
    const STEP: u64 = TEXT_BYTES as u64 / 2;
    let stack = run.start.text;
    let values: BTreeSet<u64> = words.iter().map(|(_, value)| *value).collect();
    let mut searched_to = 0;
    for value in values.into_iter().filter(|value| (0x1000..1 << 47).contains(value)) {
        let mut address = value.max(searched_to);
        while address < value + SEARCHED && !(stack..stack + TEXT_BYTES as u64).contains(&address) {
            let mut probe = [0_u8; 8];
            if trace::read(run.child, [(probe.as_mut_slice(), address)]).is_err() {
                break;
            }
            if probe == [b' '; 8]
                && let Some(copy) = run.placeholder_around(address)
            {
                return Some(copy);
            }
            address += STEP;
            searched_to = address;
        }
    }
    None
}

/// Whether the shell obeys texts at the stop, the longest among them, knows the text as its own, and counts its seconds
/// from the call.
pub(super) fn prove(shell: &CStr, env: &[*const c_char], stop: &Stop) -> bool {
    let Some(lab) = Lab::new(shell, env) else {
        return false;
    };
    let text = b"echo \"${BASH_EXECUTION_STRING}:${SECONDS}\"; exit 3".as_slice();
    let copy = if stop.copy.is_some() { text } else { b"" };
    let seconds: &[&[u8]] = if stop.clock.is_some() { &[b"0", b"1"] } else { &[b""] };
    let known = lab
        .whole(stop, text, 3)
        .is_some_and(|shown| seconds.iter().any(|second| shown == [copy, b":", second, b"\n"].concat()));
    let mut longest = b"exit 4;".to_vec();
    longest.resize(TEXT_BYTES - 1, b' ');
    known && lab.whole(stop, &longest, 4).is_some()
}
