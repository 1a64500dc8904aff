//! The servers of each client: no process of a server, and no connection to one, is of two clients.
//!
//! In comes the name of a client, out comes the [`Fleet`] that is its own. What a server keeps in memory of one client, and what it
//! says without naming a call, reaches no other. Nothing of a fleet runs before it is needed; that of a client that has had no
//! session for a while ends. There are as many as there are clients, which the owner names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_mcp::client::Fleet;
use tokio::task::JoinSet;

/// How long the servers of a client without a session are kept: most begin another soon.
const KEPT: Duration = Duration::from_secs(5 * 60);
/// How often it is looked for those.
const LOOKS: Duration = Duration::from_secs(60);
/// How long a fleet is held while servers that were never seen before start.
const STARTS: Duration = Duration::from_secs(5);

/// Makes a fleet that nobody uses yet.
pub type MakeFleet = Box<dyn Fn() -> Arc<Fleet> + Send + Sync>;

/// The fleets of all clients.
pub struct Fleets {
    make: MakeFleet,
    kept: Mutex<Kept>,
}

struct Kept {
    /// The one in which servers were started to learn what they have. The first client gets it.
    first: Option<Arc<Fleet>>,
    by_client: HashMap<String, Own>,
}

struct Own {
    fleet: Arc<Fleet>,
    /// Since when nobody was seen to use it.
    unused: Option<Instant>,
}

impl Fleets {
    /// Starts nothing.
    pub fn new(make: MakeFleet) -> Arc<Fleets> {
        let kept = Kept { first: Some(make()), by_client: HashMap::new() };
        Arc::new(Fleets { make, kept: Mutex::new(kept) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns the tools of the servers: from what is on record where they were seen before, else by starting them, for which
    /// nobody waits longer than `within`. From then on fleets that nobody uses end. Has to be called where tasks can be spawned.
    pub async fn settle(self: &Arc<Self>, within: Duration) {
        let first = self.kept().first.clone();
        if let Some(first) = first {
            first.recall().await;
            first.settled(within).await;
        }
        let fleets = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOKS).await;
                let Some(fleets) = fleets.upgrade() else { return };
                for fleet in fleets.unused(Instant::now()) {
                    fleet.close().await;
                }
            }
        });
    }

    /// The fleet of a client. One that was not there before knows what is on record, and servers that were never seen are
    /// started in it. Has to be called where tasks can be spawned.
    pub fn of(&self, client: &str) -> Arc<Fleet> {
        let mut kept = self.kept();
        if let Some(own) = kept.by_client.get_mut(client) {
            own.unused = None;
            return Arc::clone(&own.fleet);
        }
        let fleet = kept.first.take().unwrap_or_else(|| self.fresh());
        kept.by_client.insert(client.to_owned(), Own { fleet: Arc::clone(&fleet), unused: None });
        fleet
    }

    fn fresh(&self) -> Arc<Fleet> {
        let fleet = (self.make)();
        fleet.recall_now();
        let starts = Arc::clone(&fleet);
        tokio::spawn(async move { starts.settled(STARTS).await });
        fleet
    }

    /// Lets go of fleets that nobody but this has had for a while, whose servers are to end.
    fn unused(&self, now: Instant) -> Vec<Arc<Fleet>> {
        let mut kept = self.kept();
        let unused = kept.by_client.extract_if(|_, own| {
            if Arc::strong_count(&own.fleet) > 1 {
                own.unused = None;
                return false;
            }
            now.duration_since(*own.unused.get_or_insert(now)) >= KEPT
        });
        unused.map(|(_, own)| own.fleet).collect()
    }

    /// Ends all servers; comes back when those at addresses have been told, for which there is a moment.
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for fleet in self.all() {
            closing.spawn(async move { fleet.close().await });
        }
        closing.join_all().await;
    }

    /// All that there are now.
    pub fn all(&self) -> Vec<Arc<Fleet>> {
        let kept = self.kept();
        let of_clients = kept.by_client.values().map(|own| &own.fleet);
        of_clients.chain(&kept.first).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_policy::Policy;

    fn fleets(home: &tempfile::TempDir) -> Arc<Fleets> {
        let (policy, home) = (Policy::from_toml("").unwrap(), home.path().to_owned());
        Fleets::new(Box::new(move || {
            crate::mcp::fleet(&policy, &home, &home, crate::mcp::keep(&home, &policy, None))
        }))
    }

    #[tokio::test]
    async fn each_client_has_its_own() {
        let home = tempfile::tempdir().unwrap();
        let fleets = fleets(&home);
        fleets.settle(Duration::ZERO).await;
        let learned = fleets.all();
        let (one, two) = (fleets.of("one"), fleets.of("two"));
        assert!(Arc::ptr_eq(&one, &learned[0]), "what was started is used");
        assert!(Arc::ptr_eq(&one, &fleets.of("one")) && !Arc::ptr_eq(&one, &two));
        assert_eq!(fleets.all().len(), 2);
    }

    #[tokio::test]
    async fn what_nobody_uses_for_a_while_ends() {
        let home = tempfile::tempdir().unwrap();
        let (fleets, now) = (fleets(&home), Instant::now());
        let (used, unused) = (fleets.of("one"), Arc::downgrade(&fleets.of("two")));
        // What starts in it has it for a moment.
        while unused.strong_count() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(fleets.unused(now).is_empty() && fleets.unused(now + KEPT / 2).is_empty());
        assert!(unused.upgrade().is_some(), "it may be needed again");
        assert_eq!(fleets.unused(now + KEPT).len(), 1);
        assert!(unused.upgrade().is_none());
        assert!(fleets.unused(now + 2 * KEPT).is_empty());
        assert!(Arc::ptr_eq(&used, &fleets.of("one")));
    }
}
