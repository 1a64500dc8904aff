//! Which command patterns a grant may have: they match the run that was shown, and do not give away more than a person
//! can see in them.

use std::path::Path;

use helve_shell::analysis::{Analysis, Input, More, OpaqueReason, Run};
use helve_shell::quote;

/// The longest pattern that is kept.
const MAX_BYTES: usize = 4096;

/// The argv of a run as a shell reads it back; none if a part of it shows only when it runs.
pub(crate) fn exact(run: &Run) -> Option<String> {
    let words: Option<Vec<_>> = run.argv.iter().map(|arg| arg.text().map(quote)).collect();
    let text = words?.join(" ");
    let fits = !text.is_empty() && text.len() <= MAX_BYTES && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// Whether `exact` says all that there is to say about a run: nothing reaches it but its argv and the content of the
/// scripts that it names.
pub(crate) fn is_plain(analysis: &Analysis, run: &Run) -> bool {
    let touches = |start: usize, end: usize| start <= run.span.end && run.span.start <= end;
    let mut opaque = analysis.opaque.iter().filter(|part| touches(part.span.start, part.span.end));
    run.departures.is_empty()
        && run.environment.is_empty()
        && run.input == Input::Inherited
        && run.more == More::Nothing
        && opaque.all(|part| part.reason == OpaqueReason::Script)
}

/// What a longer answer would allow.
pub(crate) fn offer(analysis: &Analysis, run: usize) -> Option<String> {
    let run = analysis.runs.get(run)?;
    is_plain(analysis, run).then(|| exact(run)).flatten()
}

/// Whether a pattern covers a run; the error says why not.
pub(crate) fn covers(
    pattern: &str,
    analysis: &Analysis,
    run: usize,
    _workspace: &Path,
) -> Result<(), String> {
    let Some(found) = analysis.runs.get(run) else { return Err("there is no such part".to_owned()) };
    if is_plain(analysis, found) && exact(found).as_deref() == Some(pattern) {
        return Ok(());
    }
    Err("it does not match the command that is shown".to_owned())
}
