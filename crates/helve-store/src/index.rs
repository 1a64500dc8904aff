//! Asking about calls without reading whole journals.
//!
//! In: the journals. Out: one row a call, and the full story of one call. [`Index::sync`] reads each journal from
//! where it stopped last time; if the line it stopped at is no longer the same, that session is read anew. Everything
//! in the database can be rebuilt, so a damaged or foreign file is set aside and made again without a word to the user,
//! and where the file cannot be written a temporary database stands in for it.
//!
//! | module | does |
//! |---|---|
//! | `schema` | the database file: open, migrate, set aside, do without |
//! | `sync` | journals to rows |
//! | `query` | rows to answers |

mod query;
mod schema;
mod sync;

use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use crate::{Home, StoreError};

/// The table of calls.
pub struct Index {
    home: Home,
    database: Connection,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It has an outcome.
    Done,
    /// It has none, and no process is left that could write it.
    Cut,
    /// It has none yet, and a process has the session open.
    Running,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRow {
    /// The call's id.
    pub call: String,
    /// The session it belongs to.
    pub session: String,
    /// Number of its first entry.
    pub seq: u64,
    /// When it was planned, in microseconds since 1970 UTC.
    pub at_us: u64,
    /// The tool's name.
    pub tool: Option<String>,
    /// Who called.
    pub caller: Option<String>,
    /// Whether it succeeded; absent without an outcome.
    pub ok: Option<bool>,
    /// The kind of its error.
    pub error_kind: Option<String>,
    /// How long it took.
    pub duration_us: Option<u64>,
    /// What the policy said.
    pub verdict: Option<String>,
    /// Where the whole output is kept.
    pub blob: Option<String>,
    /// How long the whole output was, when it was shortened.
    pub truncated_bytes: Option<u64>,
    /// The beginning of its arguments, as JSON.
    pub args: Option<String>,
    /// How far it has come.
    pub state: CallState,
}

/// Which calls to list. Empty fields do not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this session.
    pub session: Option<String>,
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only those that succeeded, or that failed.
    pub ok: Option<bool>,
    /// Only with this kind of error.
    pub kind: Option<String>,
    /// Only calls whose id starts like this.
    pub call: Option<String>,
    /// Only calls whose whole output is kept under this id.
    pub blob: Option<String>,
    /// Only from this moment on.
    pub since_us: Option<u64>,
    /// Only before this moment: with `since_us` it makes a window, for programs that page through a day or an hour.
    pub until_us: Option<u64>,
    /// At most this many.
    pub limit: Option<u64>,
    /// The newest first instead of last; the limit then keeps the newest.
    pub newest_first: bool,
}

/// Everything that the journal tells about one call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallStory {
    /// The session it belongs to.
    pub session: String,
    /// The body of its plan; null when only an outcome was journalled.
    pub planned: Value,
    /// The body of its outcome.
    pub outcome: Option<Value>,
}

/// Finds one call by its exact id, in any session.
pub fn read_call(home: &Home, call: &str) -> Result<Option<CallStory>, StoreError> {
    let mut index = Index::open(home)?;
    index.sync()?;
    index.story(call)
}

impl Index {
    /// Opens the index, making it when there is none or when what is there is no index. It knows only what the last
    /// [`Index::sync`] saw. In a home that cannot be written it is a temporary one, read from the journals anew.
    pub fn open(home: &Home) -> Result<Index, StoreError> {
        Ok(Index { home: home.clone(), database: schema::open(home)? })
    }

    /// Brings the index up to date with the journals. A session that cannot be read is passed over and keeps the rows that it
    /// has; returns why, for each.
    pub fn sync(&mut self) -> Result<Vec<StoreError>, StoreError> {
        self.mending(|index| sync::sync(&index.home, &mut index.database))
    }

    /// The calls that a filter lets through, as of the last sync.
    pub fn query(&mut self, filter: &Filter) -> Result<Vec<CallRow>, StoreError> {
        self.mending(|index| query::query(&index.home, &index.database, filter))
    }

    /// The whole story of one call by its exact id, as of the last sync; the newest when several sessions have it.
    pub fn story(&mut self, call: &str) -> Result<Option<CallStory>, StoreError> {
        self.mending(|index| query::story(&index.home, &index.database, call))
    }

    /// Does the work; when the database turns out to be damaged or cannot be written, makes another one from the
    /// journals and does it again.
    fn mending<T>(&mut self, work: impl Fn(&mut Index) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.database = match work(self) {
            Err(StoreError::Index(error)) if schema::is_damage(&error) => schema::open_anew(&self.home)?,
            Err(StoreError::Index(error)) if schema::is_unwritable(&error) => schema::open_temporary()?,
            done => return done,
        };
        sync::sync(&self.home, &mut self.database)?;
        work(self)
    }
}

#[cfg(test)]
mod tests;
