//! What the owner does by hand about a call, so that it takes the same way as one.

/// An act of the owner's own on what a call did or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnAct {
    /// Takes the call back; `layered` says whether a command had changed files in a layer, `is_undone` whether the call was
    /// taken back already.
    Undo { call: String, layered: bool, is_undone: bool },
    /// Puts what the call would change into the workspace.
    Commit { call: String },
    /// Drops what the call would change.
    Discard { call: String },
}

impl OwnAct {
    /// The call that it is about.
    pub(crate) fn call(&self) -> &str {
        match self {
            OwnAct::Undo { call, .. } | OwnAct::Commit { call } | OwnAct::Discard { call } => call,
        }
    }
}
