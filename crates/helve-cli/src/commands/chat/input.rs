//! What a person or a program says: lines from a terminal that can be edited, with a history, or plain lines from a pipe.
//!
//! A line that ends in `\` goes on in the next; what stands between lines of `"""` is one message.

use std::io::{self, BufRead, IsTerminal as _, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::Editor;
use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;

use crate::commands::agent::text_of;
use crate::failure::Failure;
use crate::ui;

/// No message is longer.
const MESSAGE_BYTES: usize = 4 << 20;
/// So many messages can be had again with the arrow keys.
const HISTORY: usize = 1_000;

const PROMPT: &str = "> ";
const PROMPT_MORE: &str = ". ";
/// What begins and ends a message of many lines.
const FENCE: &str = "\"\"\"";

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A message.
    Message(String),
    /// Ctrl-C at the prompt: the line is given up.
    GivenUp,
    /// A key that is not UTF-8: the line is given up too.
    NotText,
    /// The end.
    End,
}

/// One line, or why there is none.
enum Line {
    Text(String),
    GivenUp,
    NotText,
    End,
}

/// Where lines come from.
#[derive(Clone)]
pub(super) struct Input(Arc<Mutex<Source>>);

enum Source {
    /// A terminal on which a line can be edited.
    Edited(Box<Editor<(), MemHistory>>),
    /// A terminal that can only print, or a pipe.
    Plain {
        /// Whether somebody sees a prompt.
        prompts: bool,
    },
}

impl Input {
    /// Lines from standard input, with these messages in the history.
    pub(super) fn new(before: impl Iterator<Item = String>) -> Input {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let editor = (terminal && ui::has_status()).then(|| editor(before)).flatten();
        let source = match editor {
            Some(editor) => Source::Edited(editor),
            None => Source::Plain { prompts: terminal },
        };
        Input(Arc::new(Mutex::new(source)))
    }

    /// The next message. Waits on a thread of its own, so that everything else goes on.
    pub(super) async fn next(&self) -> Result<Said, Failure> {
        let source = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            let said = message(|prompt| source.line(prompt))?;
            if let (Said::Message(text), Source::Edited(editor)) = (&said, &mut *source) {
                let _ = editor.add_history_entry(text.as_str());
            }
            Ok(said)
        });
        match read.await {
            Ok(said) => said,
            Err(error) => Err(Failure::internal(format!("standard input cannot be read: {error}"))),
        }
    }
}

fn editor(before: impl Iterator<Item = String>) -> Option<Box<Editor<(), MemHistory>>> {
    let config = Config::builder().max_history_size(HISTORY).ok()?.history_ignore_space(true).build();
    let mut editor = Editor::with_history(config.clone(), MemHistory::with_config(&config)).ok()?;
    for text in before {
        let _ = editor.add_history_entry(text);
    }
    Some(Box::new(editor))
}

impl Source {
    fn line(&mut self, prompt: &str) -> Result<Line, Failure> {
        let wrong =
            |error: &dyn std::fmt::Display| Failure::usage(format!("standard input cannot be read: {error}"));
        match self {
            Source::Edited(editor) => match editor.readline(prompt) {
                Ok(line) => Ok(Line::Text(line)),
                Err(ReadlineError::Interrupted) => Ok(Line::GivenUp),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    Ok(Line::NotText)
                }
                Err(error) => Err(wrong(&error)),
            },
            Source::Plain { prompts } => {
                if *prompts {
                    let mut out = io::stdout().lock();
                    out.write_all(prompt.as_bytes()).and_then(|()| out.flush()).map_err(ui::cannot_print)?;
                }
                let mut line = Vec::new();
                let mut input = io::stdin().lock().take(MESSAGE_BYTES as u64 + 1);
                match input.read_until(b'\n', &mut line) {
                    Ok(0) => Ok(Line::End),
                    Ok(_) => Ok(Line::Text(text_of(line).trim_end_matches(['\n', '\r']).to_owned())),
                    Err(error) => Err(wrong(&error)),
                }
            }
        }
    }
}

/// One message from as many lines as it takes.
fn message(mut line: impl FnMut(&str) -> Result<Line, Failure>) -> Result<Said, Failure> {
    let mut text = String::new();
    let (mut fenced, mut begun) = (false, false);
    loop {
        let prompt = if begun { PROMPT_MORE } else { PROMPT };
        let next = match line(prompt)? {
            Line::Text(next) => next,
            Line::GivenUp => return Ok(Said::GivenUp),
            Line::NotText => return Ok(Said::NotText),
            // What was begun is said; the end comes again.
            Line::End if begun && !text.trim().is_empty() => return Ok(Said::Message(text)),
            Line::End => return Ok(Said::End),
        };
        if text.len() + next.len() > MESSAGE_BYTES {
            return Err(Failure::usage(format!(
                "a message is longer than {MESSAGE_BYTES} bytes; put it into a file and name that"
            )));
        }
        match (fenced, next.trim()) {
            (true, FENCE) => return Ok(Said::Message(text)),
            (true, _) => {
                text.push_str(&next);
                text.push('\n');
            }
            (false, FENCE) if !begun => (fenced, begun) = (true, true),
            (false, _) => match next.strip_suffix('\\') {
                Some(part) => {
                    begun = true;
                    text.push_str(part);
                    text.push('\n');
                }
                None => {
                    text.push_str(&next);
                    return Ok(Said::Message(text));
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn all(lines: &[&str]) -> Vec<Said> {
        let mut lines = lines.iter();
        let mut said = Vec::new();
        loop {
            let next = message(|_| {
                Ok(match lines.next() {
                    Some(&"^C") => Line::GivenUp,
                    Some(line) => Line::Text((*line).to_owned()),
                    None => Line::End,
                })
            })
            .unwrap();
            let ended = next == Said::End;
            said.push(next);
            if ended {
                return said;
            }
        }
    }

    #[test]
    fn a_message_has_as_many_lines_as_it_takes() {
        let message = |text: &str| Said::Message(text.to_owned());
        assert_eq!(all(&["one", "two"]), [message("one"), message("two"), Said::End]);
        assert_eq!(all(&["one\\", "two", "three"]), [message("one\ntwo"), message("three"), Said::End]);
        let fenced = ["\"\"\"", "a\\", "", "  b", "\"\"\"", "c"];
        assert_eq!(all(&fenced), [message("a\\\n\n  b\n"), message("c"), Said::End]);
        assert_eq!(all(&["one\\"]), [message("one\n"), Said::End]);
        assert_eq!(all(&["\"\"\""]), [Said::End]);
        assert_eq!(all(&["a\\", "^C", "b"]), [Said::GivenUp, message("b"), Said::End]);
        assert_eq!(all(&["say \"\"\" now"]), [message("say \"\"\" now"), Said::End]);
    }
}
