//! Who goes on with a session holds it: a talk that two programs go on with at the same time could not be told afterwards.
//!
//! Single calls do not hold a session; any number of programs may record theirs in one.

use std::os::fd::OwnedFd;

use crate::files::Lock;
use crate::{Home, StoreError};

/// A session that nobody else goes on with as long as this lives.
#[derive(Debug)]
pub struct Held {
    _dir: OwnedFd,
}

/// Holds a session; none if somebody else does.
pub fn hold(home: &Home, session: &str) -> Result<Option<Held>, StoreError> {
    let dir = home.session_dir(session)?.ok_or_else(|| StoreError::NoSuchSession(session.to_owned()))?;
    let lock = Lock::try_exclusive(&dir);
    let Some(lock) = lock.map_err(|error| StoreError::io("cannot hold the session", session, error))? else {
        return Ok(None);
    };
    lock.keep();
    Ok(Some(Held { _dir: dir }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Journal, JournalOptions};

    #[test]
    fn a_session_is_held_once_and_recorded_in_by_many() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        assert!(matches!(hold(&home, "a"), Err(StoreError::NoSuchSession(_))));
        let _journals = ["a", "b"].map(|name| Journal::open(&home, name, JournalOptions::default()).unwrap());
        let held = hold(&home, "a").unwrap();
        assert!(held.is_some() && hold(&home, "a").unwrap().is_none() && hold(&home, "b").unwrap().is_some());
        Journal::open(&home, "a", JournalOptions::default()).unwrap();
        drop(held);
        assert!(hold(&home, "a").unwrap().is_some());
    }
}
