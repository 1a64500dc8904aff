//! The owner's allow list: what a command has to be so that the list speaks for all of it.
//!
//! The list sees text. So a command is held against it only if its text is what runs: words that are written out or
//! plain `$NAME`, no substitution, no arithmetic (whose variables are read as expressions, which may hold commands), no
//! file that is opened behind the list's back.
//!
//! Not here: what an allowed program does with its arguments.

use helve_core::Decision;
use helve_shell::{Command, PartKind, Position, Redirect, Segment, Span, Word};

use super::expand;
use super::pattern::Pattern;
use super::{assignment, bytes};
use crate::config::keys::EXEC_ALLOW;

/// What keeps a command from being on the list.
pub(super) fn judge(patterns: &[Pattern], command: &Command) -> Option<Decision> {
    if let Some((reason, span)) = beyond_the_text(command) {
        return Some(Decision::deny(EXEC_ALLOW, reason).at(bytes(span)));
    }
    let text = |segment: &Segment| command.text.get(segment.span.range()).unwrap_or_default();
    let misses: Vec<&Segment> = command
        .segments
        .iter()
        .filter(|segment| !patterns.iter().any(|pattern| pattern.is_match(text(segment))))
        .collect();
    let first = misses.first()?;
    let added: Vec<String> = misses.iter().map(|segment| regex::escape(text(segment))).collect();
    let list: Vec<&str> =
        patterns.iter().map(Pattern::source).chain(added.iter().map(String::as_str)).collect();
    let reason = "the command is not on the owner's allow list";
    Some(Decision::deny(EXEC_ALLOW, reason).at(bytes(first.span)).grant(assignment(EXEC_ALLOW, &list)))
}

/// The first thing that would run or be opened without standing in the text as the list sees it.
fn beyond_the_text(command: &Command) -> Option<(String, Span)> {
    if let Some(opaque) = command.opaque {
        return Some((format!("the command cannot be read to its end: {}", opaque.reason), opaque.span));
    }
    if command.segments.is_empty() {
        let whole = Span { start: 0, end: command.text.len() };
        return Some(("there is no command that the allow list could hold".into(), whole));
    }
    if let Some(segment) = command.segments.iter().find(|segment| segment.substituted) {
        return Some(("a substitution runs a command that the allow list does not see".into(), segment.span));
    }
    for segment in &command.segments {
        for document in &segment.here_documents {
            if !document.quoted && document.body.contains(['$', '`']) {
                let reason =
                    "the here-document is expanded, which the allow list does not see; quote its delimiter";
                return Some((reason.into(), document.span));
            }
        }
        if let Some(word) = sets_variable(segment) {
            let reason = "printf -v sets a variable, which the allow list does not see";
            return Some((reason.into(), word.span));
        }
        let evaluates = segment.name().is_some_and(|name| EVALUATING.contains(&name.text.as_str()));
        for word in &segment.words {
            if let Some(reason) = wrong_word(word, evaluates) {
                return Some((reason.into(), word.span));
            }
        }
    }
    let span = arithmetic_command(command)?;
    Some(("an arithmetic command can run what its variables hold".into(), span))
}

/// The option with which `printf` puts together a value that is nowhere written as a whole.
fn sets_variable(segment: &Segment) -> Option<&Word> {
    let prints = segment.name().is_some_and(|name| name.text == "printf");
    segment.arguments().next().filter(|word| prints && word.text.starts_with("-v"))
}

/// Builtins that read an argument as the name of a variable or as arithmetic: a subscript in it is evaluated, even
/// where it is quoted.
const EVALUATING: &[&str] = &[
    "[",
    "[[",
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "test",
    "typeset",
    "unset",
    "wait",
];

fn wrong_word(word: &Word, evaluates: bool) -> Option<&'static str> {
    let is_expansion = word.parts.iter().any(|part| part.kind == PartKind::Expansion);
    if is_expansion {
        return Some("an expansion other than $NAME or ${NAME} can run what a variable holds");
    }
    if expand::has_braces(word) {
        return Some("{a,b} makes words that the allow list does not see; write them out");
    }
    if evaluates && word.text.contains('[') && ["$(", "${", "`"].iter().any(|start| word.text.contains(start))
    {
        return Some("the builtin evaluates a subscript in this word, which can run a command");
    }
    match word.position {
        Position::FunctionName => Some("a function can take the name of an allowed command"),
        Position::Assignment if is_subscripted(&word.text) => {
            Some("a subscript is evaluated, which can run what a variable holds")
        }
        Position::Redirect(operator) if opens_file(operator, word) => {
            Some("a redirection writes a file or opens a connection, which the allow list does not see")
        }
        _ => None,
    }
}

/// Whether an assignment is `NAME[…]=value`.
fn is_subscripted(text: &str) -> bool {
    text.split('=').next().is_some_and(|target| target.contains('['))
}

/// Whether a redirection does more than to read a file or to join descriptors.
fn opens_file(operator: Redirect, target: &Word) -> bool {
    let text = target.text.as_str();
    let descriptor = || target.known && text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    let harmless = target.known && matches!(text, "/dev/null" | "/dev/stdout" | "/dev/stderr");
    match operator {
        Redirect::HereString => false,
        // bash opens a connection under these names.
        Redirect::Read | Redirect::DuplicateIn => {
            !target.known || text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/")
        }
        Redirect::DuplicateOut => !descriptor() && !harmless,
        Redirect::Write
        | Redirect::Append
        | Redirect::ReadWrite
        | Redirect::WriteBoth
        | Redirect::AppendBoth => !harmless,
    }
}

/// Where `((` stands between words: to bash that is arithmetic, whatever the words inside look like.
fn arithmetic_command(command: &Command) -> Option<Span> {
    let words = command.words().map(|word| word.span);
    let bodies = command.segments.iter().flat_map(|segment| &segment.here_documents).map(|body| body.span);
    let mut taken: Vec<Span> = words.chain(bodies).collect();
    taken.sort_by_key(|span| span.start);
    let end = command.text.len();
    let mut from = 0;
    for span in taken.into_iter().chain([Span { start: end, end }]) {
        let gap = command.text.get(from..span.start).unwrap_or_default();
        if gap.replace("\\\n", "").contains("((") {
            return Some(Span { start: from, end: span.start });
        }
        from = from.max(span.end);
    }
    None
}
