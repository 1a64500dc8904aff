//! What a command pattern of a grant has to fulfil: it matches the part that was shown, and does not give away more than
//! a person can see in it.

use std::path::Path;

use helve_shell::analysis::Run;
use helve_shell::quote;

/// The longest pattern that is kept.
const MAX_BYTES: usize = 4096;

/// The argv of a run as a pattern that matches nothing else; none if a part of it shows only when it runs.
pub(crate) fn exact(run: &Run) -> Option<String> {
    let words: Option<Vec<_>> = run.argv.iter().map(|arg| arg.text().map(quote)).collect();
    let text = words?.join(" ");
    let fits = !text.is_empty() && text.len() <= MAX_BYTES && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// Whether a pattern covers a run; the error says why not.
pub(crate) fn covers(pattern: &str, run: &Run, _workspace: &Path) -> Result<(), String> {
    match exact(run) {
        Some(text) if text == pattern => Ok(()),
        _ => Err("it does not match the command that is shown".to_owned()),
    }
}
