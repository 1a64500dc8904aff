//! Contenders in turns: a new order every round, each on a quiet machine, each call checked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Measured;
use crate::report::{Promise, Row};
use crate::sample::median;

/// What one call printed: its token, the shell's number and that of its process namespace.
pub(crate) struct Answer {
    pub(crate) took: Duration,
    pub(crate) stdout: Vec<u8>,
}

/// One call with a token.
pub(crate) type Act<'a> = Box<dyn FnMut(&str) -> Measured<Answer> + 'a>;

/// What has to be seen of each call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing: it prints nothing.
    None,
    /// Its own token.
    Token,
    /// Its own token, from a process namespace of its own.
    Fresh,
}

/// Something that runs one call after another.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    pub(crate) proof: Proof,
    pub(crate) call: Act<'a>,
}

/// The times of all contenders.
pub(crate) struct Times(BTreeMap<&'static str, Vec<Duration>>);

impl Times {
    fn median(&self, name: &str) -> Measured<Duration> {
        let times = self.0.get(name).ok_or_else(|| format!("{name} was not measured"))?;
        Ok(median(times.clone()))
    }

    pub(crate) fn row(
        &self,
        name: &'static str,
        contender: &str,
        beside: &'static str,
        promise: Promise,
    ) -> Measured<Row> {
        let reference = Some((beside, self.median(beside)?));
        Ok(Row { name: name.into(), subject: self.median(contender)?, reference, promise, mib: None })
    }

    /// Those that are neither a reference nor among `shown`.
    pub(crate) fn others<'n>(&self, shown: impl Iterator<Item = &'n str>) -> Vec<&'static str> {
        let shown: Vec<&str> = shown.collect();
        self.0.keys().copied().filter(|name| !shown.contains(name) && !name.starts_with("bare")).collect()
    }
}

/// Runs every contender `rounds` times, and a few times before that which do not count.
pub(crate) fn take(contenders: &mut [Contender<'_>], rounds: usize) -> Measured<Times> {
    const WARM_UP: usize = 5;
    let mut random = Random::new();
    let mut times: BTreeMap<&'static str, Vec<Duration>> = BTreeMap::new();
    for round in 0..WARM_UP + rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        for index in order {
            let Some(contender) = contenders.get_mut(index) else { continue };
            let token = random.token();
            wait_for_quiet();
            let answer = (contender.call)(&token)?;
            check(contender, &token, &answer.stdout)?;
            if round >= WARM_UP {
                times.entry(contender.name).or_default().push(answer.took);
            }
        }
    }
    Ok(Times(times))
}

/// The highest number that a shell has in a process namespace that nobody used before it.
const YOUNG: u32 = 8;

/// A call has to print its token. One from a new process namespace has another number of it than this process, and its
/// shell is among the first in it: numbers of processes are given in order, so a used namespace would show. (The number
/// of a namespace by itself proves little: the kernel gives it to the next one when the first is gone.)
fn check(contender: &Contender<'_>, token: &str, stdout: &[u8]) -> Measured<()> {
    if contender.proof == Proof::None {
        return Ok(());
    }
    let text = String::from_utf8_lossy(stdout);
    let line = text.lines().find_map(|line| line.strip_prefix(token)).unwrap_or_default();
    let mut words = line.split_whitespace();
    let pid = words.next().and_then(|pid| pid.parse::<u32>().ok());
    let (Some(pid), Some(namespace)) = (pid, words.next()) else {
        let start: String = text.chars().take(200).collect();
        return Err(
            format!("{}: no token and namespace in what it printed: {start:?}", contender.name).into()
        );
    };
    let own = std::fs::read_link("/proc/self/ns/pid")?.display().to_string();
    if contender.proof == Proof::Fresh && (own.contains(namespace) || pid > YOUNG) {
        return Err(format!(
            "{}: process {pid} of namespace {namespace} is not in a new one",
            contender.name
        )
        .into());
    }
    Ok(())
}

/// Waits, but not long, until only this thread wants a processor.
pub(crate) fn wait_for_quiet() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let running = stat.lines().find_map(|line| line.strip_prefix("procs_running "));
        if running.is_some_and(|number| number.trim() == "1") {
            return;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// A generator of random numbers that need not be secret (xorshift).
pub(super) struct Random(u64);

impl Random {
    fn new() -> Random {
        use std::hash::{BuildHasher as _, Hasher as _};
        Random(std::hash::RandomState::new().build_hasher().finish() | 1)
    }

    /// The same numbers for the same seed, which is not 0.
    pub(super) fn from_seed(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or_default()
    }

    fn token(&mut self) -> String {
        format!("t{:016x}", self.next())
    }
}
