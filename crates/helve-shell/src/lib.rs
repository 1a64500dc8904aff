//! What a shell command says and does, without any opinion on whether it may run.
//!
//! ```text
//! text ─ parse ─ tree ─ analyze ─ runs, effects, opaque parts
//! ```
//!
//! Five things live here, each useful alone:
//!
//! - [`parse`] turns text into the [`tree`] of a shell's grammar, in the dialect of bash or of a POSIX shell.
//! - [`analyze`] follows the tree as the shell would: it expands words as far as they are known, looks inside wrappers and
//!   the text that is given to other shells, and says what runs, what that reads, writes, deletes and connects to, and
//!   which parts are opaque ([`analysis`]). What a program does with its arguments is in the tables of `programs`.
//! - [`quote()`], [`quote_double`] and [`quote_single_inner`] write text so that a shell reads it back unchanged.
//! - [`Template`] is a command wrapper such as `firejail -- {command}`: parsed once, then filled so that no part of
//!   the command runs outside the wrapper.
//! - [`spelling`] finds the paths that an argument may name where nothing says what the argument is.
//!
//! In comes text, out goes data. Parsing and analysis never fail and never run anything: what cannot be read with
//! confidence is a fault of the tree and opaque to the analysis. Time is linear in the length of the text, which
//! [`MAX_TEXT`] bounds; depth is bounded by [`MAX_NESTING`].
//!
//! Deliberately not here: verdicts, rules, the file system, environment variables, processes.

pub mod analysis;
mod expand;
mod parse;
mod programs;
mod quote;
mod span;
pub mod spelling;
mod template;
pub mod tree;
mod walk;

/// The longest text that is parsed, in bytes. Linux hands no longer argument to a shell.
pub const MAX_TEXT: usize = 128 << 10;

/// How deep commands and substitutions may be nested.
pub const MAX_NESTING: usize = 40;

pub use parse::parse;
pub use programs::{is_plain_setting, text_arguments};
pub use quote::{quote, quote_double, quote_single_inner};
pub use span::Span;
pub use template::{RenderError, Template, TemplateError};
pub use walk::{analyze, normal};
