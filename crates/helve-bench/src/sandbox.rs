//! The sandboxes beside a bare spawn of the same shell: `helve-bench sandbox`.
//!
//! All contenders take turns in one run, in a new order every round, and each sample starts only when nothing else wants
//! a processor. Every call prints a new token, its own number and that of its process namespace; a call that does not, or
//! whose namespace is not new, ends the run. Only two rows, without a promise, show `true` by itself. The reference spawns
//! the same shell with the same text and captures its output.

mod calls;
mod outside;
mod peers;
mod turns;

use std::path::Path;
use std::time::Duration;

use crate::report::{Promise, Row};
use calls::{Place, Shell, Text};
use turns::Contender;

type Measured<T> = Result<T, Box<dyn std::error::Error>>;

/// What is asked of the run.
pub(crate) struct Asked<'a> {
    /// Fewer rounds.
    pub(crate) quick: bool,
    /// Also other programs that confine commands, where they are installed.
    pub(crate) peers: bool,
    /// Only rows with this in their name.
    pub(crate) only: Option<&'a str>,
    /// The program `helve`.
    pub(crate) helve: &'a Path,
}

/// A row before it is measured: which contender beside which, and what is promised.
struct Line {
    name: &'static str,
    contender: &'static str,
    beside: &'static str,
    promise: Promise,
}

const SH: &str = "bare sh";
const BASH: &str = "bare bash";
const SH_TRUE: &str = "bare sh, silent";
const BASH_TRUE: &str = "bare bash, silent";
const GREP: &str = "bare sh, grep -R";
const UNSEEN: &str = "warm sh, grep -R, unseen";
const MANY: &str = "bare sh, 20 programs";
const MANY_UNSEEN: &str = "warm sh, 20 programs, unseen";
const DIRECT: &str = "direct";
const DIRECT_SMALL: &str = "direct, one file changed";
const WORKERS: &str = "2 workers without a pause, one call";
const BWRAP: &str = "bwrap, seed's flags, --unshare-all";

/// Every row.
pub(crate) fn measure(asked: &Asked<'_>) -> Measured<Vec<Row>> {
    let place = Place::new()?;
    let mut contenders: Vec<Contender<'_>> = vec![
        calls::bare(&place, SH, Shell::Sh, Text::Probe),
        calls::bare(&place, BASH, Shell::Bash, Text::Probe),
        calls::bare(&place, SH_TRUE, Shell::Sh, Text::True),
        calls::bare(&place, BASH_TRUE, Shell::Bash, Text::True),
        calls::bare(&place, GREP, Shell::Sh, Text::Grep),
        calls::bare(&place, MANY, Shell::Sh, Text::Many),
        calls::pooled(&place, "warm sh", Shell::Sh, Text::Probe)?,
        calls::pooled(&place, "warm bash", Shell::Bash, Text::Probe)?,
        calls::pooled(&place, "warm sh, silent", Shell::Sh, Text::True)?,
        calls::pooled(&place, "warm bash, silent", Shell::Bash, Text::True)?,
        calls::pooled(&place, "warm sh, grep -R", Shell::Sh, Text::Grep)?,
        calls::pooled(&place, "warm sh, 20 programs", Shell::Sh, Text::Many)?,
        calls::parked(&place, "parked argv")?,
        calls::direct(&place, DIRECT, Text::Probe)?,
        calls::dry_run(&place, "dry run", Text::Probe)?,
        calls::direct(&place, DIRECT_SMALL, Text::Small)?,
        calls::dry_run(&place, "dry run, one file changed", Text::Small)?,
        peers::bwrap(&place, "bwrap, seed's flags", &[]),
        peers::bwrap(&place, BWRAP, &["--unshare-all"]),
        outside::call(asked.helve, "helve call exec")?,
        outside::batch(asked.helve, "helve batch, exec")?,
    ];
    contenders.extend(calls::seen(&place, Text::Grep, [UNSEEN, "direct sh, grep -R, explained in full"])?);
    contenders.extend(calls::seen(
        &place,
        Text::Many,
        [MANY_UNSEEN, "direct sh, 20 programs, explained in full"],
    )?);
    contenders.extend(calls::others(&place));
    if asked.peers {
        contenders.extend(peers::installed(&place)?);
    }
    let wanted = |name: &str| asked.only.is_none_or(|only| name.contains(only));
    let lines: Vec<Line> = lines().into_iter().filter(|line| wanted(line.name)).collect();
    let used = |name: &str| lines.iter().any(|line| [line.contender, line.beside].contains(&name));
    contenders.retain(|contender| asked.only.is_none() || used(contender.name));
    let rounds = if asked.quick { 30 } else { 250 };
    let times = turns::take(&mut contenders, rounds)?;
    let mut rows: Vec<Row> = Vec::new();
    for line in &lines {
        rows.push(times.row(line.name, line.contender, line.beside, line.promise)?);
    }
    if asked.only.is_none() {
        for name in times.others(lines.iter().map(|line| line.contender)) {
            rows.push(times.row(name, name, SH, Promise::None)?);
        }
    }
    drop(contenders);
    if wanted(WORKERS) {
        rows.push(throughput(&place, if asked.quick { 1 } else { 9 })?);
    }
    Ok(rows)
}

/// The rows with a promise, and what they stand beside.
fn lines() -> Vec<Line> {
    let line = |name, contender, beside, promise| Line { name, contender, beside, promise };
    vec![
        line("warm sh, true", "warm sh", SH, Promise::Ratio(0.5)),
        line("warm bash, true", "warm bash", BASH, Promise::Ratio(0.5)),
        line("warm sh, true without a proof", "warm sh, silent", SH_TRUE, Promise::None),
        line("warm bash, true without a proof", "warm bash, silent", BASH_TRUE, Promise::None),
        line("parked argv", "parked argv", SH, Promise::Ratio(1.2)),
        line("direct, no pool", DIRECT, SH, Promise::Ratio(1.4)),
        line("dry run of a small command", "dry run", DIRECT, Promise::Ratio(1.3)),
        line("dry run that changes a file", "dry run, one file changed", DIRECT_SMALL, Promise::Ratio(1.3)),
        line("grep -R over 2,000 files", "warm sh, grep -R", GREP, Promise::Ratio(1.1)),
        line("grep -R, seen by the witness", "warm sh, grep -R", UNSEEN, Promise::Ratio(1.03)),
        line("grep -R, explained in full", "direct sh, grep -R, explained in full", UNSEEN, Promise::None),
        line("20 programs", "warm sh, 20 programs", MANY, Promise::None),
        line("20 programs, seen by the witness", "warm sh, 20 programs", MANY_UNSEEN, Promise::None),
        line("helve batch, exec of true", "helve batch, exec", BASH, Promise::Ratio(0.9)),
        line("helve call exec, one process", "helve call exec", BASH, Promise::Ratio(6.0)),
        line("helve call exec, one process", "helve call exec", BWRAP, Promise::Ratio(1.5)),
        line("bwrap with the seed's flags", "bwrap, seed's flags", SH, Promise::None),
        line("bwrap --unshare-all", BWRAP, SH, Promise::None),
    ]
}

/// Two workers without a pause, in turns with two that spawn bare. The time of one call, so that at least half of the
/// throughput is at most twice the time.
fn throughput(place: &Place, rounds: usize) -> Measured<Row> {
    let window = Duration::from_secs(1);
    // What one leaves to the kernel to tidy up is not to be in the way of the other.
    let pause = Duration::from_millis(200);
    let backend = calls::used(place)?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare.push(calls::busy_bare(place, window)?);
        std::thread::sleep(pause);
        ours.push(calls::busy_pooled(&backend, window)?);
        std::thread::sleep(pause);
    }
    Ok(Row {
        name: WORKERS.into(),
        subject: crate::sample::median(ours),
        reference: Some(("2 workers, bare sh", crate::sample::median(bare))),
        promise: Promise::Ratio(2.0),
        mib: None,
    })
}
