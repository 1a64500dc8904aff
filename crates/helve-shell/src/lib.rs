//! What a shell command says, without any opinion on whether it may run.
//!
//! Three things live here, each useful alone:
//!
//! - [`read`] turns the text of a command into a [`Command`]: its simple commands, their words with quotes removed,
//!   redirections, here-documents, and the commands inside substitutions. [`path_words`] picks out of it what looks
//!   like a file path.
//! - [`quote()`], [`quote_double`] and [`quote_single_inner`] write text so that a shell reads it back unchanged.
//! - [`Template`] is a command wrapper such as `firejail -- {command}`: parsed once, then filled so that no part of
//!   the command runs outside the wrapper.
//!
//! In comes text, out goes data. Reading never fails and never runs anything; a text that cannot be read with
//! confidence is marked [`Opaque`]. Time is linear in the length of the text, memory is bounded by [`MAX_LENGTH`].
//!
//! Deliberately not here: verdicts, rules, the file system, environment variables, processes.

pub mod analysis;
mod command;
mod expand;
mod parse;
mod paths;
mod programs;
mod quote;
mod read;
mod span;
mod template;
pub mod tree;
mod walk;

/// The longest text that is parsed, in bytes. Linux hands no longer argument to a shell.
pub const MAX_TEXT: usize = 128 << 10;

/// How deep commands and substitutions may be nested.
pub const MAX_NESTING: usize = 40;

pub use command::{
    Command, HereDocument, Joint, Opaque, OpaqueReason, Part, PartKind, Position, Redirect, Segment, Word,
};
pub use parse::parse;
pub use paths::{Directory, PathRole, PathWord, PathWords, path_words};
pub use quote::{quote, quote_double, quote_single_inner};
pub use read::{MAX_DEPTH, MAX_LENGTH, read};
pub use span::Span;
pub use template::{RenderError, Template, TemplateError};
pub use walk::analyze;
