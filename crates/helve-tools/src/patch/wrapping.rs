//! What models put around a patch: a shell's here-document, a fence of Markdown, empty lines.

use super::Source;

/// The lines of the patch itself, with their numbers in the text.
pub(super) fn unwrapped(text: &str) -> Vec<Source<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines: Vec<Source<'_>> =
        text.split('\n').enumerate().map(|(at, text)| Source { number: at + 1, text }).collect();
    trim_empty(&mut lines);
    while let Some(inner) = without_wrapper(&lines) {
        lines = inner;
        trim_empty(&mut lines);
    }
    lines
}

fn trim_empty(lines: &mut Vec<Source<'_>>) {
    while lines.last().is_some_and(|line| line.text.trim().is_empty()) {
        lines.pop();
    }
    let empty = lines.iter().take_while(|line| line.text.trim().is_empty()).count();
    lines.drain(..empty);
}

/// What is inside, if there is a wrapper.
fn without_wrapper<'p>(lines: &[Source<'p>]) -> Option<Vec<Source<'p>>> {
    let [first, inner @ .., last] = lines else { return None };
    let (first, last) = (first.text.trim(), last.text.trim());
    let is_fence = first.starts_with("```") && last == "```";
    let is_here_document = here_document_word(first).is_some_and(|word| word == last);
    (is_fence || is_here_document).then(|| inner.to_vec())
}

/// The word that ends the here-document that this line starts, as in `apply_patch <<'EOF'`.
fn here_document_word(line: &str) -> Option<&str> {
    let command =
        line.strip_prefix("apply_patch").or_else(|| line.strip_prefix("applypatch")).unwrap_or(line);
    let word = command.trim_start().strip_prefix("<<")?;
    let word = word.strip_prefix('-').unwrap_or(word).trim();
    let unquoted = ['\'', '"']
        .into_iter()
        .find_map(|quote| word.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(word);
    let is_word = !unquoted.is_empty() && unquoted.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word.then_some(unquoted)
}
