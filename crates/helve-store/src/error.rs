//! What can go wrong with stored state, said so that the reader knows what to change.

use std::io;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused a file operation.
    #[error("{doing} ({name}): {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file, session or blob it was done to.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The state directory cannot be used.
    #[error("the state directory {path} cannot be used: {reason}")]
    Home {
        /// The directory.
        path: String,
        /// Why, and what to change.
        reason: String,
    },
    /// A session name that could not be a plain directory name.
    #[error(
        "the session name {0:?} is not valid: use 1 to 100 letters, digits, '.', '_' or '-', not starting with '.'"
    )]
    BadSession(String),
    /// No journal exists under this session name.
    #[error("there is no session named {0:?}; the `verify` command lists the sessions that exist")]
    NoSuchSession(String),
    /// A call identifier that does not fit into a journal line.
    #[error("the call id {0:?} is not valid: use 1 to 128 letters, digits, '_', '-', '.' or ':'")]
    BadCall(String),
    /// A value has no form in JSON.
    #[error("this cannot be written as JSON: {0}")]
    NotJson(String),
    /// A path that a list of paths cannot hold.
    #[error(
        "the path {0} is not UTF-8, and trusted files are kept by their paths as text. Rename the directory that is \
         not, or work in another"
    )]
    NotText(String),
    /// A JSON value nested deeper than a journal line may be.
    #[error("the JSON value is nested deeper than {0} levels; flatten it")]
    TooDeep(usize),
    /// An entry longer than a journal line may be.
    #[error("the entry takes {bytes} bytes, a journal line holds at most {limit}; keep the data as a blob")]
    TooLarge {
        /// Size of the refused line.
        bytes: usize,
        /// The largest size accepted.
        limit: usize,
    },
    /// A session that is too large to be read as a whole.
    #[error(
        "the session {session:?} is larger than {limit} bytes and is not read as a whole; begin a new one"
    )]
    SessionTooLarge {
        /// Its name.
        session: String,
        /// The largest size that is read.
        limit: u64,
    },
    /// The journal does not match its own record of itself, so nothing may be added to it.
    #[error(
        "the journal of session {session:?} is damaged: {reason}. Nothing was written. \
         Run `helve verify` to see what happened, and use another session name to go on working"
    )]
    Damaged {
        /// The session.
        session: String,
        /// What does not match.
        reason: String,
    },
    /// The journal is gone although its witness has seen entries in it.
    #[error(
        "the journal of session {session:?} is gone, although it had {entries} entries. Nothing was written. \
         Use another session name (--session); or, if it was removed on purpose, remove {witness} too"
    )]
    Gone {
        /// The session.
        session: String,
        /// How many entries the witness has seen.
        entries: u64,
        /// The file that remembers them.
        witness: String,
    },
    /// A blob id that is not `b3:` and 64 hexadecimal digits.
    #[error("{0:?} is not a blob id: expected \"b3:\" and 64 lower-case hexadecimal digits")]
    BadBlobId(String),
    /// The blob is not stored (any more).
    #[error("the blob {0} is not stored; it may have been removed to keep the blob budget")]
    NoSuchBlob(String),
    /// The blob's content is not what was kept.
    #[error(
        "the blob {0} was changed on disk: its content does not have the hash in its name, so it is not shown. \
         Run the call again to get its output"
    )]
    BlobChanged(String),
    /// An expected head that is not a hash.
    #[error("{0:?} is not a journal head: expected 64 hexadecimal digits")]
    BadHead(String),
    /// The index database failed in a way that rebuilding does not mend.
    #[error("the call index failed: {0}")]
    Index(#[from] rusqlite::Error),
    /// The file of approvals cannot be read or written.
    #[error(
        "the approvals cannot be read or written: {0}. If it stays so, remove approvals.sqlite from the state \
         directory: all approvals are forgotten then, and asked for again"
    )]
    Approvals(rusqlite::Error),
    /// A newer version has written the file of approvals.
    #[error("the approvals were written by a newer version of Helve; use that version")]
    NewerApprovals,
    /// A name that no MCP server can have.
    #[error("{0:?} is not the name of an MCP server: use 1 to 64 letters, digits, '_' or '-'")]
    BadServer(String),
    /// The pins of a server cannot be read.
    #[error(
        "what you agreed to of the MCP server {server} cannot be read: {reason}. None of its tools is offered. \
         `helve mcp trust {server} --anew` shows its tools and begins from nothing"
    )]
    Pins {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// The file of tokens makes no sense.
    #[error("mcp/tokens.json in the state directory is damaged; remove it and sign in again")]
    Tokens,
    /// There is no room for another approval.
    #[error(
        "there are already {limit} approvals; revoke some (`helve approvals list`, `helve approvals revoke`)"
    )]
    TooManyApprovals {
        /// The most that may hold at once.
        limit: u64,
    },
}

impl StoreError {
    /// Wraps a system error with what was being done to which file.
    pub(crate) fn io(doing: &'static str, name: impl Into<String>, source: impl Into<io::Error>) -> Self {
        StoreError::Io { doing, name: name.into(), source: source.into() }
    }
}
