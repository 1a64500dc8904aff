//! Tokens, until there is a better place for them: a file that the owner alone can read.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use super::{DIR, alone, find, read, replace};
use crate::{Home, StoreError, files};

const FILE: &str = "tokens.json";
/// More than this is not read, and not written.
const MAX_BYTES: u64 = 1 << 20;

/// The tokens of one state directory, by keys that their user chooses. It prints nothing of itself.
#[derive(Clone)]
pub struct Tokens {
    home: Home,
}

impl Tokens {
    /// The tokens of this state directory. Opens nothing yet.
    pub fn new(home: &Home) -> Tokens {
        Tokens { home: home.clone() }
    }

    /// What is kept under a key.
    pub fn get(&self, key: &str) -> Result<Option<String>, StoreError> {
        match find(&self.home).map_err(failed)? {
            Some(dir) => Ok(load(&dir)?.remove(key)),
            None => Ok(None),
        }
    }

    /// Keeps a value under a key, in place of any that was there.
    pub fn set(&self, key: &str, value: &str) -> Result<(), StoreError> {
        let dir = files::make_dir(self.home.dir(), DIR).map_err(failed)?;
        alone(&dir, || {
            let mut tokens = load(&dir)?;
            tokens.insert(key.to_owned(), value.to_owned());
            store(&dir, &tokens)
        })
    }

    /// Forgets a key; false where nothing was kept under it.
    pub fn remove(&self, key: &str) -> Result<bool, StoreError> {
        self.forget(|known| known == key)
    }

    /// Forgets every key that `which` says; false where there was none.
    pub fn forget(&self, which: impl Fn(&str) -> bool) -> Result<bool, StoreError> {
        let Some(dir) = find(&self.home).map_err(failed)? else { return Ok(false) };
        alone(&dir, || {
            let mut tokens = load(&dir)?;
            let before = tokens.len();
            tokens.retain(|key, _| !which(key));
            if tokens.len() == before {
                return Ok(false);
            }
            store(&dir, &tokens).map(|()| true)
        })
    }

    /// The keys, sorted.
    pub fn keys(&self) -> Result<Vec<String>, StoreError> {
        match find(&self.home).map_err(failed)? {
            Some(dir) => Ok(load(&dir)?.into_keys().collect()),
            None => Ok(Vec::new()),
        }
    }
}

fn load(dir: &OwnedFd) -> Result<BTreeMap<String, String>, StoreError> {
    let Some(bytes) = read(dir, FILE, MAX_BYTES).map_err(failed)? else { return Ok(BTreeMap::new()) };
    // What stands in the file is not repeated in a message.
    serde_json::from_slice(&bytes).map_err(|_| StoreError::Tokens)
}

fn store(dir: &OwnedFd, tokens: &BTreeMap<String, String>) -> Result<(), StoreError> {
    let text = serde_json::to_vec(tokens).map_err(|error| StoreError::NotJson(error.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
        return Err(StoreError::TooLarge { bytes: text.len(), limit });
    }
    replace(dir, FILE, &text).map_err(failed)
}

fn failed(error: io::Error) -> StoreError {
    StoreError::io("cannot read or write the tokens of MCP servers", FILE, error)
}
