//! How much of the processors the host of a virtual machine takes for others.
//!
//! Where it takes some, everything that passes from one process to another is slower than it is elsewhere, and by chance: a
//! ratio that was measured then says as much about the host as about the two that stand beside each other.

/// Ticks of all processors since the machine was started: those that the host took, and all.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    by_host: u64,
    all: u64,
}

impl Taken {
    /// As the kernel counts it; none where it does not say.
    pub(crate) fn so_far() -> Option<Taken> {
        Taken::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// The line of all processors: user, nice, system, idle, iowait, irq, softirq, steal, and the guests' share of the first two.
    fn parse(stat: &str) -> Option<Taken> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = numbers.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let [.., by_host] = <[u64; 8]>::try_from(ticks.clone()).ok()?;
        Some(Taken { by_host, all: ticks.iter().sum() })
    }

    /// What was taken since then, in words; none where that was nothing.
    pub(crate) fn since(self) -> Option<String> {
        Taken::so_far()?.beyond(self)
    }

    fn beyond(self, before: Taken) -> Option<String> {
        let (taken, all) = (self.by_host.checked_sub(before.by_host)?, self.all.checked_sub(before.all)?);
        (taken > 0).then(|| {
            let share = 100.0 * taken as f64 / all.max(1) as f64;
            format!("Meanwhile the host took {share:.1} % of the processors' time for others.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_took_is_told() {
        let stat = |steal: u64, idle: u64| {
            format!("cpu  10 0 5 {idle} 0 0 0 {steal} 7 7\ncpu0 1 2 3 4 5 6 7 8 9 9\n")
        };
        let taken = |steal, idle| Taken::parse(&stat(steal, idle)).unwrap();
        let said = taken(30, 170).beyond(taken(10, 110)).unwrap();
        assert!(said.contains("25.0 %"), "{said}");
        assert!(taken(10, 170).beyond(taken(10, 110)).is_none());
        assert!(Taken::parse("cpu 1 2 3").is_none());
    }
}
