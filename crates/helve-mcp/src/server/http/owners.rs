//! Whose the sessions are, and how long nobody has used them.
//!
//! A client that has all the sessions that it may have, and wants another, gives up the one that it has not used for longest: clients
//! that end without ending their sessions do not lock out the next one with their token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use helve_core::{Cancel, CancelHandle};
use tokio::time::Instant;

use super::super::crowd::Share;
use super::super::face::lock;
use super::super::running::InSession;

#[derive(Default)]
pub(super) struct Owners(Mutex<HashMap<String, Owned>>);

/// A session of a client's.
struct Owned {
    client: String,
    /// What takes its calls back.
    canceller: CancelHandle,
    ended: Cancel,
    /// Since when nobody uses it, unless somebody does.
    unused: Arc<Mutex<Instant>>,
    /// It gave way to another.
    is_given_up: bool,
}

/// Whoever uses a session: a request that is worked on, or a stream.
pub(super) struct Using(Arc<Mutex<Instant>>);

tokio::task_local! {
    /// The session that the request may begin that this task answers.
    static BEGINS: Arc<Begins>;
}

/// A session that a request may begin.
pub(super) struct Begins {
    client: String,
    state: Mutex<Begun>,
}

#[derive(Default)]
struct Begun {
    /// The room that is kept for it, until it counts itself.
    _room: Option<Share>,
    /// It has begun, and whoever does so uses it.
    using: Option<Using>,
}

impl Begins {
    pub(super) fn new(client: String, room: Option<Share>) -> Arc<Begins> {
        Arc::new(Begins { client, state: Mutex::new(Begun { _room: room, using: None }) })
    }

    /// Answers the request.
    pub(super) async fn in_its_course<T>(self: &Arc<Self>, answer: impl Future<Output = T>) -> T {
        BEGINS.scope(Arc::clone(self), answer).await
    }

    /// Whoever uses what has begun.
    pub(super) fn using(&self) -> Option<Using> {
        lock(&self.state).using.take()
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        *lock(&self.0) = Instant::now();
    }
}

impl Owners {
    /// A session has begun: whatever becomes of the request that it began with, it is somebody's.
    pub(super) fn begun(&self, session: &str) {
        let note = |begins: &Arc<Begins>| {
            let using = Some(self.begins(session.to_owned(), begins.client.clone()));
            *lock(&begins.state) = Begun { _room: None, using };
        };
        // Each request is answered in the course of one.
        let _ = BEGINS.try_with(note);
    }

    fn begins(&self, session: String, client: String) -> Using {
        let (canceller, ended) = Cancel::pair();
        let unused = Arc::new(Mutex::new(Instant::now()));
        let using = Using(Arc::clone(&unused));
        lock(&self.0).insert(session, Owned { client, canceller, ended, unused, is_given_up: false });
        using
    }

    /// Whether a session is not this client's, or is given up.
    pub(super) fn keeps_out(&self, session: &str, client: &str) -> bool {
        lock(&self.0).get(session).is_some_and(|owned| owned.client != client || owned.is_given_up)
    }

    /// Somebody uses a session. Says what fires when that ends.
    pub(super) fn uses(&self, session: &str) -> Option<(Using, InSession)> {
        let owners = lock(&self.0);
        let owned = owners.get(session)?;
        Some((Using(Arc::clone(&owned.unused)), InSession(owned.ended.clone())))
    }

    /// A session has ended, and its calls with it.
    pub(super) fn ended(&self, session: &str) {
        if let Some(owned) = lock(&self.0).remove(session) {
            owned.canceller.cancel();
        }
    }

    /// How many a client has.
    pub(super) fn count(&self, client: &str) -> usize {
        lock(&self.0).values().filter(|owned| owned.client == client && !owned.is_given_up).count()
    }

    /// Gives up the session that a client has not used for longest, if there is one that nobody uses. Nobody comes in there any more;
    /// it is to be closed.
    pub(super) fn give_one_up(&self, client: &str) -> Option<String> {
        let mut owners = lock(&self.0);
        let own = owners.iter_mut().filter(|(_, owned)| {
            owned.client == client && !owned.is_given_up && Arc::strong_count(&owned.unused) == 1
        });
        let (session, owned) = own.min_by_key(|(_, owned)| *lock(&owned.unused))?;
        owned.is_given_up = true;
        Some(session.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use pretty_assertions::assert_eq;

    #[tokio::test(start_paused = true)]
    async fn what_was_not_used_for_longest_is_given_up_and_what_is_used_is_not() {
        let owners = Owners::default();
        for session in ["a", "b", "c"] {
            drop(owners.begins(session.to_owned(), "one".to_owned()));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        drop(owners.begins("d".to_owned(), "two".to_owned()));
        let used = owners.uses("b").unwrap();
        // What was used a moment ago is the last.
        drop(owners.uses("a").unwrap());
        assert_eq!(owners.count("one"), 3);
        assert_eq!(owners.give_one_up("one").as_deref(), Some("c"));
        assert_eq!((owners.count("one"), owners.keeps_out("c", "one")), (2, true));
        assert_eq!(owners.give_one_up("one").as_deref(), Some("a"));
        assert_eq!(owners.give_one_up("one"), None, "somebody uses it");
        drop(used);
        assert_eq!(owners.give_one_up("one").as_deref(), Some("b"));
        ["a", "b", "c"].into_iter().for_each(|session| owners.ended(session));
        assert_eq!((owners.count("one"), owners.count("two"), lock(&owners.0).len()), (0, 1, 1));
    }
}
