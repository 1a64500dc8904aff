//! The caller's side of a call: who calls, who is asked, who listens, what takes it back.
//!
//! A runtime has one such side, put together by its builder. A face that serves several callers, or that must end one call
//! and not the others, gives a [`CallScope`] along with a call; what it leaves open is as the runtime has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_core::context::ProgressNote;
use helve_core::{Cancel, Peer};
use tokio::sync::mpsc;

use crate::Caller;
use crate::approval::chain::Chain;
use crate::approval::{Approver, Headless};

/// What is particular to one call.
#[derive(Clone, Default)]
pub struct CallScope {
    /// What takes this call back, beside what takes back every call of the runtime.
    pub cancel: Option<Cancel>,
    /// Where its progress goes, and what its commands put out while they run. Notes that find no room are dropped.
    pub progress: Option<mpsc::Sender<ProgressNote>>,
    /// Who is asked, before the owner's hook.
    pub approver: Option<Arc<dyn Approver>>,
    /// The program at the other end.
    pub peer: Option<Arc<dyn Peer>>,
    /// Who calls.
    pub caller: Option<Caller>,
    /// What the program at the other end calls itself: told to whoever asks, and nothing is decided by it.
    pub client: Option<String>,
    /// What counts the time in which somebody is asked.
    pub asked: Option<AskClock>,
    /// Who else wrote what led to the call, where the owner does not vouch for it: a source such as `mcp:NAME`. What could
    /// carry something out is asked about then.
    pub tainted: Option<String>,
    /// Other calls come together with it: what all of them have to record may be written at once.
    pub beside: bool,
}

/// Counts the time in which somebody is asked, for a caller whose own time does not run then. Cheap to clone; every clone is
/// the same clock.
#[derive(Clone, Debug, Default)]
pub struct AskClock(Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
struct Asked {
    done: Duration,
    /// Since when somebody is asked, and about how many things.
    since: Option<(Instant, usize)>,
}

impl AskClock {
    /// For how long somebody was asked so far. Two questions at a time take no longer than one.
    pub fn waited(&self) -> Duration {
        let asked = self.asked();
        asked.done + asked.since.map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    /// Somebody is asked, for as long as what it gives lives.
    pub(crate) fn begin(&self) -> Asking {
        let mut asked = self.asked();
        let (since, many) = asked.since.unwrap_or_else(|| (Instant::now(), 0));
        asked.since = Some((since, many + 1));
        Asking(self.clone())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody is asked.
pub(crate) struct Asking(AskClock);

impl Drop for Asking {
    fn drop(&mut self) {
        let mut asked = self.0.asked();
        match asked.since {
            Some((since, 1)) => {
                asked.done += since.elapsed();
                asked.since = None;
            }
            Some((since, many)) => asked.since = Some((since, many - 1)),
            None => {}
        }
    }
}

/// The caller's side of a call.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) caller: Caller,
    pub(crate) client: Option<String>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) cancel: Cancel,
    pub(crate) progress: Option<mpsc::Sender<ProgressNote>>,
    /// Whether the listener wants what commands put out while they run.
    pub(crate) live: bool,
    pub(crate) peer: Option<Arc<dyn Peer>>,
    pub(crate) asked: Option<AskClock>,
    pub(crate) tainted: Option<String>,
    pub(crate) beside: bool,
}

/// Who is asked, in order: the one that was given, the owner's hook, nobody.
pub(crate) fn approver(
    given: Option<Arc<dyn Approver>>,
    hook: Option<&Arc<dyn Approver>>,
) -> Arc<dyn Approver> {
    match (given, hook) {
        (None, None) => Arc::new(Headless),
        (Some(one), None) => one,
        (None, Some(hook)) => Arc::clone(hook),
        (Some(one), Some(hook)) => Arc::new(Chain(vec![one, Arc::clone(hook)])),
    }
}

impl Side {
    /// This side as a scope changes it.
    pub(crate) fn within(&self, scope: CallScope, hook: Option<&Arc<dyn Approver>>) -> Side {
        let CallScope { cancel, progress, approver: given, peer, caller, client, asked, tainted, beside } =
            scope;
        Side {
            caller: caller.unwrap_or_else(|| self.caller.clone()),
            client: client.or_else(|| self.client.clone()),
            approver: match given {
                Some(given) => approver(Some(given), hook),
                None => Arc::clone(&self.approver),
            },
            cancel: match cancel {
                Some(cancel) => cancel.or(&self.cancel),
                None => self.cancel.clone(),
            },
            live: progress.is_some(),
            progress: progress.or_else(|| self.progress.clone()),
            peer: peer.or_else(|| self.peer.clone()),
            asked: asked.or_else(|| self.asked.clone()),
            tainted: tainted.or_else(|| self.tainted.clone()),
            beside: beside || self.beside,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_that_overlap_are_counted_once() {
        let clock = AskClock::default();
        assert_eq!(clock.waited(), Duration::ZERO);
        let (one, two) = (clock.begin(), clock.begin());
        std::thread::sleep(Duration::from_millis(20));
        drop(one);
        assert!(clock.waited() >= Duration::from_millis(20), "while it is asked, too");
        drop(two);
        let waited = clock.waited();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(clock.waited(), waited, "nobody is asked any more");
    }
}
