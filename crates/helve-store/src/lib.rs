//! The memory of deeds: what was asked, what was decided, what came out.
//!
//! **In:** entries from the pipeline's record stage, and the bytes of outputs too long to show.
//! **Out:** one hash-chained journal a session, content-addressed blobs, a table of calls that can be asked.
//!
//! ```text
//! $HELVE_HOME/                 0700, owned by the caller
//!   sessions/<name>/journal.jsonl   one entry a line, each naming the hash of the one before
//!   sessions/<name>/head            how many entries, how many bytes, the newest hash
//!   heads/<name>                    a head that was seen earlier: the witness against old copies and removal
//!   blobs/<2 hex>/<62 hex>          full outputs under their BLAKE3 hash; blobs/tmp while being written
//!   sessions/<name>/seen-<hash>     what the session last saw of the files of one workspace
//!   undo/                           what calls replaced in workspaces
//!   index.sqlite                    rows for `log`; rebuilt from the journals whenever in doubt
//!   approvals.sqlite                what the owner allowed for longer than one call
//!   mcp/                            definitions of tools of MCP servers that the owner agreed to, tokens, logs
//!   trust.jsonl                     which files of workspaces the owner trusts, with which content
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`home`](Home) | finds and guards the state directory |
//! | `canonical` | RFC 8785 JSON, the bytes that are hashed |
//! | `line` | one journal line: parse, hash |
//! | [`batch`](Batch) | lines that are written together, made by hand in room that is used again |
//! | `journal`, `recover` | append under a lock; put right what an interrupted writer left |
//! | `verify`, `chain` | find what was changed, removed, moved, cut or put back |
//! | `hold` | one program at a time goes on with a session |
//! | `tail` | follow a journal while it grows |
//! | `blobs`, `gc` | keep long outputs, within a budget |
//! | `body` | the few members of an entry's body that the store reads |
//! | `index` | ask about calls without reading whole journals |
//! | `approvals` | keep what the owner allowed, until it expires or is revoked |
//! | `undo` | keep what calls replaced, within a budget |
//! | `seen` | remember what a session saw of files |
//! | `servers` | remember what the owner agreed to of MCP servers, their tokens, and what happened to them |
//! | `trust` | remember which content of a workspace's file the owner trusts |
//!
//! **Not here:** what an entry means (the runtime), what may be shown or must be redacted (the govern stage; by the
//! time bytes arrive here they are clean), printing (the CLI). The journal is the truth; the index is a convenience
//! and nothing is lost when it is deleted.
//!
//! ```
//! use helve_store::{Entry, EntryKind, Home, Journal, JournalOptions, verify};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let home = Home::open(path)?;
//! let journal = Journal::open(&home, "monday", JournalOptions::default())?;
//! let body = serde_json::json!({"tool": "echo", "args": {"text": "hello"}});
//! let entry = Entry { kind: EntryKind::Planned, call: Some("c_1".to_owned()), at_us: 1, body };
//! let place = journal.append(&entry)?;
//! let report = verify(&home, "monday", Some(&place.hash))?;
//! assert!(report.is_ok());
//! assert_eq!(report.cut_calls, ["c_1"]);
//! # Ok(())
//! # }
//! ```

mod approvals;
mod batch;
mod blobs;
mod body;
mod canonical;
mod chain;
mod error;
mod files;
mod gc;
mod head;
mod hold;
mod home;
mod index;
mod journal;
mod line;
mod reader;
mod recover;
mod seen;
mod servers;
mod tail;
mod trust;
mod undo;
mod verify;

pub use approvals::{ApprovalScope, Approvals, BoundScript, NewApproval, StoredApproval, Within};
pub use batch::{Batch, Key, Members};
pub use blobs::{BlobRef, BlobWriter, Blobs};
pub use canonical::{MAX_DEPTH, canonical_json};
pub use error::StoreError;
pub use gc::{GcOptions, GcReport, Removed, gc};
pub use hold::{Held, hold};
pub use home::{Home, check_session};
pub use index::{CallRow, CallState, CallStory, Filter, Index, read_call};
pub use journal::{After, Appended, Journal, JournalOptions};
pub use line::{Entry, EntryKind, MAX_LINE_BYTES, Record};
pub use seen::{SeenLog, SeenState};
pub use servers::{NewPin, Pin, Pins, ServerEvent, ServerLogs, Tokens};
pub use tail::Tail;
pub use trust::{Trust, TrustedFile};
pub use undo::{
    Begun, FileState, SmallContents, Undo, UndoChange, UndoGcReport, UndoRecord, UndoStage, newest_undo,
    taken_back,
};
pub use verify::{Finding, FindingKind, HeadCheck, VerifyReport, verify, verify_entries};
