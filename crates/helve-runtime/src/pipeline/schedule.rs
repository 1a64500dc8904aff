//! Schedule: the permits of a batch in, an order out.
//!
//! Calls line up in call order. One starts when nothing before it that is still there conflicts with it: reads run
//! beside reads, conflicting writes keep their order, an exclusive call runs alone. `parallel = false` makes every pair
//! conflict. A bounded number runs at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use helve_core::{Access, ToolSpec};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What a call claims while it waits and runs.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    alone: bool,
    access: Arc<Access>,
}

impl Claim {
    pub(crate) fn new(spec: &ToolSpec, access: &Arc<Access>) -> Self {
        let unknown = access.reads.is_empty() && access.writes.is_empty();
        // A tool that is not safe beside others and does not say what it touches might touch anything.
        let unsafe_beside = spec.concurrency_safe == Some(false) || (!spec.is_concurrency_safe() && unknown);
        let alone = spec.exclusive || unsafe_beside;
        Claim { alone, access: Arc::clone(access) }
    }

    fn conflicts(&self, other: &Claim) -> bool {
        self.alone || other.alone || self.access.conflicts(&other.access)
    }
}

/// The line of calls.
pub(crate) struct Scheduler {
    parallel: bool,
    workers: Semaphore,
    line: Mutex<Vec<Waiting>>,
    next: std::sync::atomic::AtomicU64,
}

struct Waiting {
    number: u64,
    started: bool,
    claim: Claim,
    /// Wakes the call; none while it does not wait.
    waker: Option<Waker>,
}

/// A place in the line. Dropping it gives the place up.
pub(crate) struct Place {
    scheduler: Arc<Scheduler>,
    number: u64,
}

/// A worker of a call that nobody waits for in one place.
pub(crate) struct Worker(Arc<Scheduler>);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.workers.add_permits(1);
    }
}

impl Scheduler {
    pub(crate) fn new(parallel: bool, workers: u64) -> Arc<Self> {
        let workers = if parallel { workers.clamp(1, 1024) as usize } else { 1 };
        Arc::new(Scheduler {
            parallel,
            workers: Semaphore::new(workers),
            line: Mutex::new(Vec::new()),
            next: std::sync::atomic::AtomicU64::new(0),
        })
    }

    /// Joins the end of the line.
    pub(crate) fn join(self: &Arc<Self>, claim: Claim) -> Place {
        let mut line = self.line();
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        line.push(Waiting { number, started: false, claim, waker: None });
        Place { scheduler: Arc::clone(self), number }
    }

    /// A worker, if one is free.
    pub(crate) fn worker_now(&self) -> Option<SemaphorePermit<'_>> {
        self.workers.try_acquire().ok()
    }

    /// The same, for as long as what it gives lives.
    pub(crate) fn take_worker(self: &Arc<Self>) -> Option<Worker> {
        self.workers.try_acquire().ok()?.forget();
        Some(Worker(Arc::clone(self)))
    }

    /// The same, once one is free.
    pub(crate) async fn worker(self: Arc<Self>) -> Worker {
        if let Ok(permit) = self.workers.acquire().await {
            permit.forget();
        }
        Worker(self)
    }

    /// Whether there is at most one call in the line.
    pub(crate) fn is_alone(&self) -> bool {
        self.line().len() <= 1
    }

    fn line(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a call if it may; otherwise the waker, if there is one, wakes it when it may.
    fn start(&self, number: u64, waker: Option<&Waker>) -> bool {
        let mut line = self.line();
        // Who joined later has a higher number.
        let Ok(at) = line.binary_search_by_key(&number, |waiting| waiting.number) else { return true };
        let free = self.is_free(&line, at);
        line[at].started |= free;
        if let (false, Some(waker)) = (free, waker) {
            line[at].waker = Some(waker.clone());
        }
        free
    }

    /// Whether nothing before the place `at` conflicts with it.
    fn is_free(&self, line: &[Waiting], at: usize) -> bool {
        if !self.parallel {
            return at == 0;
        }
        line[..at].iter().all(|before| !before.claim.conflicts(&line[at].claim))
    }
}

impl Place {
    /// Whether the call may run without waiting; it counts as running then.
    pub(crate) fn may_start(&self) -> bool {
        self.scheduler.start(self.number, None)
    }

    /// Whether its turn has come. Who polls is woken when it does.
    pub(crate) fn poll_turn(&self, poller: &Context<'_>) -> Poll<()> {
        let may_start = self.scheduler.start(self.number, Some(poller.waker()));
        if may_start { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until the call may run. The returned guard counts against the workers; hold both while it runs.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        std::future::poll_fn(|poller| self.poll_turn(poller)).await;
        // A closed semaphore cannot happen: nothing closes it.
        self.scheduler.workers.acquire().await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut wakers = Vec::new();
        let mut line = self.scheduler.line();
        if let Ok(at) = line.binary_search_by_key(&self.number, |waiting| waiting.number) {
            line.remove(at);
        }
        // Only who may start now is woken: waking everybody would make a long line pay for each of its calls.
        for at in 0..line.len() {
            if line[at].waker.is_some() && self.scheduler.is_free(&line, at) {
                wakers.extend(line[at].waker.take());
            }
            if line[at].claim.alone && !line[at].started {
                break;
            }
        }
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::Resource;
    use serde_json::json;
    use std::time::Duration;

    fn spec() -> ToolSpec {
        ToolSpec::new("t", "", json!({"type": "object", "properties": {}}))
    }

    fn reads(path: &str) -> Claim {
        let access = Access { reads: vec![Resource::Path(path.into())], ..Access::default() };
        Claim::new(&spec().read_only(), &Arc::new(access))
    }

    fn writes(path: &str) -> Claim {
        let access = Access { writes: vec![Resource::Path(path.into())], ..Access::default() };
        Claim::new(&spec(), &Arc::new(access))
    }

    fn alone() -> Claim {
        Claim::new(&spec().exclusive(), &Arc::default())
    }

    /// Which of the places may start now, without waiting.
    fn ready(places: &[&Place]) -> Vec<bool> {
        places.iter().map(|place| place.may_start()).collect()
    }

    #[test]
    fn reads_overlap_writes_to_one_path_keep_order() {
        let line = Scheduler::new(true, 8);
        let a = line.join(reads("a"));
        let b = line.join(reads("a"));
        let c = line.join(writes("a"));
        let d = line.join(writes("b"));
        let e = line.join(reads("a"));
        assert_eq!(ready(&[&a, &b, &c, &d, &e]), [true, true, false, true, false]);
        drop((a, b));
        assert_eq!(ready(&[&c, &d, &e]), [true, true, false]);
        drop(c);
        assert_eq!(ready(&[&d, &e]), [true, true]);
    }

    #[test]
    fn an_exclusive_call_runs_alone() {
        let line = Scheduler::new(true, 8);
        let a = line.join(reads("a"));
        let b = line.join(alone());
        let c = line.join(reads("a"));
        assert_eq!(ready(&[&a, &b, &c]), [true, false, false]);
        drop(a);
        assert_eq!(ready(&[&b, &c]), [true, false]);
        drop(b);
        assert_eq!(ready(&[&c]), [true]);
    }

    #[test]
    fn a_tool_that_does_not_say_what_it_touches_runs_alone() {
        let line = Scheduler::new(true, 8);
        let a = line.join(Claim::new(&spec(), &Arc::default()));
        let b = line.join(reads("a"));
        assert_eq!(ready(&[&a, &b]), [true, false]);
    }

    #[test]
    fn not_parallel_means_one_after_the_other() {
        let line = Scheduler::new(false, 8);
        let a = line.join(reads("a"));
        let b = line.join(reads("b"));
        assert_eq!(ready(&[&a, &b]), [true, false]);
        drop(a);
        assert_eq!(ready(&[&b]), [true]);
    }

    #[tokio::test]
    async fn a_waiting_call_is_woken_and_workers_are_bounded() {
        let line = Scheduler::new(true, 1);
        let first = line.join(reads("a"));
        let held = first.turn().await;
        let second = line.join(reads("a"));
        let waits = tokio::time::timeout(Duration::from_millis(20), second.turn()).await;
        assert!(waits.is_err(), "the only worker is busy");
        drop(held);
        assert!(second.turn().await.is_some());
        drop(waits);

        let third = line.join(alone());
        let waiting = tokio::spawn(async move {
            let _guard = third.turn().await;
        });
        drop(first);
        drop(second);
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    }
}
