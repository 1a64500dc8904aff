//! The workspace: an open directory, through which all file tools read and change files.
//!
//! In comes a [`helve_core::PathRules`] and a directory; out goes a [`helve_core::FilesBridge`]. Every path is resolved
//! once, by the kernel, beneath the open directory (`openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`, or part by
//! part without it), and
//! everything after that acts on the descriptor: no name is checked and then used again.
//!
//! | module | does |
//! |---|---|
//! | `names`, `rules` | what the text of a path says; what the policy says about it, compiled |
//! | `attributes` | extended attributes of what is open |
//! | `beneath` | opening a path below a directory without following a link |
//! | `host` | the workspace on this machine: resolving, listing, staging, exchanging |
//! | `inside` | the workspace as a sandboxed command sees it, through a helper in the sandbox |
//! | `memory` | the same in memory |
//! | `commit` | what a commit will do, worked out before anything is done |
//! | `layer` | what a command changed in a layer over the workspace |
//! | `page` | a window of a file as text |
//! | `seek` | walking and searching below a directory |
//!
//! Deliberately not here: the tools and their words (`helve-tools`), who may do what (`helve-policy`).

mod attributes;
mod beneath;
mod commit;
mod host;
mod inside;
mod layer;
mod memory;
mod names;
mod page;
mod refuse;
mod rules;
mod seek;
mod source;

pub use host::{Options, Workspace, open, open_with, recover};
pub use inside::{HELPER_WORD, Inside, answer_request, inside, serve_if_asked};
pub use layer::{KeepContent, LayerChange, LayerRead, read_layer};
pub use memory::memory;
