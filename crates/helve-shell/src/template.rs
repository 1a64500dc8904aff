//! A command wrapper such as `bwrap … -- sh -c "{command}"`: parsed once, filled for every command.
//!
//! The template is read with the shell's own rules. Each placeholder is written back for the quotes in which it stands,
//! so that the shell that runs the line hands the command to the wrapper and runs nothing of it itself:
//!
//! | where it stands | what it becomes |
//! |---|---|
//! | `{command}` as a word of its own | `sh -c '…'` |
//! | `{command}` behind `-c`, or as in `--run={command}` | one quoted word, or the value of the option |
//! | `{cwd}` bare, also as in `--private={cwd}` | one quoted word, or a part of one |
//! | either as all of `"…"` or `'…'`, and `{cwd}` as a part of it | escaped for these quotes |
//! | `{command:raw}`, `{cwd:raw}` | the text as it is |
//!
//! A template in which a second shell would read a placeholder again, without its quotes, is refused (`reread`), and so
//! is one that bash and other shells read differently, since either may be `sh` (`parse`). A brace behind a backslash is
//! left alone. Not here: running anything, and which wrapper is a good one.

mod parse;
mod reread;
mod words;

use std::borrow::Cow;

use crate::quote::{quote, quote_double, quote_single_inner};
use crate::tree::FaultReason;

/// The shell that runs a command where the template does not name one.
const DEFAULT_SHELL: &str = "sh";

/// A parsed command wrapper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Slot { value: Value, style: Style },
}

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Command,
    Cwd,
}

/// How a value is written into the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Raw,
    InDouble,
    InSingle,
    Word,
    /// `sh -c` and the value as one word.
    ShellCall,
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The shell could not read the template.
    #[error("the wrapper template is not a complete shell command: {0}")]
    Unreadable(FaultReason),
    /// The command would never run.
    #[error(
        "the wrapper template has no {{command}}, so the command would never run; add {{command}} where it belongs"
    )]
    NoCommand,
    /// Another shell reads it differently from bash.
    #[error(
        "the wrapper template is run by sh, which need not be bash, and other shells read this one differently; write \
         it without [[, &>, <<<, $'…' and whatever else only bash knows, or call bash, as in bash -c '…' _ {{command}}"
    )]
    OnlyBash,
    /// A placeholder in a substitution, arithmetic or a here-document.
    #[error(
        "{placeholder} stands inside a substitution, arithmetic or a here-document, where it cannot be quoted safely; \
         move it out, or write {raw} to have it replaced as plain text"
    )]
    NotQuotable {
        /// The placeholder as it is written.
        placeholder: String,
        /// Its raw form.
        raw: String,
    },
    /// A placeholder in text that a second shell reads.
    #[error(
        "{placeholder} stands in text that a second shell may read, where no quotes keep it from running outside the \
         wrapper; make it a word of its own, with no other text, as in sh -c {{command}} or --chdir {{cwd}}, or write \
         {raw} to have it replaced as plain text"
    )]
    ReadAgain {
        /// The placeholder as it is written.
        placeholder: String,
        /// Its raw form.
        raw: String,
    },
    /// `${command}` or `${cwd}`.
    #[error(
        "${placeholder} is a shell variable, not a placeholder; write {placeholder} without the dollar sign"
    )]
    Variable {
        /// The placeholder that was probably meant.
        placeholder: String,
    },
    /// `$'…{command}…'`.
    #[error("{placeholder} stands inside $'…', which not every shell knows; use '…' or \"…\" instead")]
    InAnsiQuotes {
        /// The placeholder as it is written.
        placeholder: String,
    },
    /// A placeholder where the shell reads no word.
    #[error(
        "{placeholder} stands in a comment or names a here-document, where the shell takes no value; move it"
    )]
    NotInWord {
        /// The placeholder as it is written.
        placeholder: String,
    },
    /// A word in braces that looks like a placeholder but is none.
    #[error(
        "{found} is not a placeholder; did you mean {nearest}? (To keep the text as it is, write \\{found})"
    )]
    Misspelt {
        /// What the template says.
        found: String,
        /// The nearest placeholder.
        nearest: &'static str,
    },
}

/// Why a template cannot be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The command holds a NUL character.
    #[error("the command holds a NUL character, which no shell can take; remove it")]
    NulInCommand,
    /// The directory or the shell holds a NUL character.
    #[error(
        "the working directory or the shell holds a NUL character, which no system call can take; choose another"
    )]
    NulInPath,
}

impl Template {
    /// Parses a template.
    ///
    /// ```
    /// let template = helve_shell::Template::parse("firejail --private={cwd} -- {command}").unwrap();
    /// let line = template.render("make && make test", "/srv/my app").unwrap();
    /// assert_eq!(line, "firejail --private='/srv/my app' -- sh -c 'make && make test'");
    /// ```
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        parse::pieces(text).map(|pieces| Template { pieces })
    }

    /// The command line for `sh -c` that runs `command` in the wrapper.
    pub fn render(&self, command: &str, cwd: &str) -> Result<String, RenderError> {
        self.render_with_shell(command, cwd, DEFAULT_SHELL)
    }

    /// Like [`render`](Self::render), with another shell for a `{command}` that stands as a word of its own.
    pub fn render_with_shell(&self, command: &str, cwd: &str, shell: &str) -> Result<String, RenderError> {
        if command.contains('\0') {
            return Err(RenderError::NulInCommand);
        }
        if cwd.contains('\0') || shell.contains('\0') {
            return Err(RenderError::NulInPath);
        }
        let mut line = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => line.push_str(text),
                Piece::Slot { value, style } => {
                    let value = match value {
                        Value::Command => command,
                        Value::Cwd => cwd,
                    };
                    if *style == Style::ShellCall {
                        line.push_str(&quote(shell));
                        line.push_str(" -c ");
                    }
                    line.push_str(&style.write(value));
                }
            }
        }
        Ok(line)
    }
}

impl Style {
    fn write(self, value: &str) -> Cow<'_, str> {
        match self {
            Style::Raw => Cow::Borrowed(value),
            Style::InDouble => quote_double(value),
            Style::InSingle => quote_single_inner(value),
            Style::Word | Style::ShellCall => quote(value),
        }
    }
}
