//! What the runtime adds to the files lane: a call's changes can be undone, and a session knows what it has seen.
//!
//! A call that changes files gets a [`CallUndo`]: before anything changes it takes what is there into the store. All calls of a
//! session share a [`SessionSeen`]. `records` looks at what calls changed, `put_back` undoes one,
//! `cut` finds out what became of those whose process died. `layer` takes what a command changed in a layer over the workspace,
//! `pending` commits or discards it.
//!
//! Deliberately not here: reading and changing files, which is the workspace's (`helve-workspace`), and keeping bytes, which is
//! the store's (`helve-store`).

mod cut;
mod git_index;
mod layer;
pub(crate) mod pending;
pub(crate) mod put_back;
mod records;
mod seen;
mod undo;

pub(crate) use cut::settle;
pub(crate) use layer::Over;
pub use layer::hold_layer;
pub use records::{Contents, UndoEntry};
pub(crate) use records::{contents, entries, entry};
pub(crate) use seen::SessionSeen;
pub(crate) use undo::{CallUndo, FileChanged, OfCall};
