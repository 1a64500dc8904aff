//! The owner's allow list: what a command has to be so that the list speaks for all of it.
//!
//! The list sees text. So a command is held against it only if its text is what runs: words that are written out or
//! plain `$NAME`, no substitution, no arithmetic (whose variables are read as expressions, which may hold commands), no
//! file that is opened behind the list's back, and nothing that reading cannot follow. What a command starts in turn,
//! as `find -exec` does, has to be on the list too.
//!
//! Not here: what an allowed program does with its arguments.

use helve_core::Decision;
use helve_shell::Span;
use helve_shell::analysis::{OpaqueReason, Run};
use helve_shell::tree::{
    AssignedValue, Assignment, Command, CommandKind, Operation, Piece, PieceKind, Redirect, RedirectOperator,
    RedirectTarget, Simple, Statement, Word,
};

use super::judgement::{Mark, bytes};
use super::pattern::Pattern;
use super::{Case, assignment};
use crate::config::keys::EXEC_ALLOW;

/// What keeps a command from being on the list.
pub(super) fn judge(patterns: &[Pattern], case: &Case<'_>) -> Vec<Mark> {
    let script = helve_shell::parse(case.text, case.setting.dialect);
    if let Some(fault) = script.fault {
        return vec![refusal(
            format!("the command cannot be read to its end: {}", fault.reason),
            fault.span,
            None,
        )];
    }
    if script.statements.is_empty() {
        let whole = Span { start: 0, end: case.text.len() };
        return vec![refusal("there is no command that the allow list could hold".into(), whole, None)];
    }
    let mut list = List::default();
    if let Err((reason, span)) = list.statements(&script.statements) {
        return vec![refusal(reason.to_owned(), span, None)];
    }
    // A script that is named in full is as good as any other program.
    let hidden = case.analysis.opaque.iter().find(|opaque| opaque.reason != OpaqueReason::Script);
    if let Some(opaque) = hidden {
        let reason = format!("the allow list cannot see all that runs: {}", opaque.reason);
        return vec![refusal(reason, opaque.span, None)];
    }
    let matched = |text: &str| patterns.iter().any(|pattern| pattern.is_match(text));
    let mut misses: Vec<(Span, Option<usize>, String)> = Vec::new();
    for span in list.commands {
        let text = case.text.get(span.range()).unwrap_or_default();
        if !matched(text) {
            misses.push((span, None, text.to_owned()));
        }
    }
    for (index, run) in case.analysis.runs.iter().enumerate().filter(|(_, run)| !run.via.is_empty()) {
        match started(run) {
            Some(text) if matched(&text) => {}
            Some(text) => misses.push((run.span, Some(index), text)),
            None => {
                let reason = "it starts a command whose words the allow list does not see";
                return vec![refusal(reason.into(), run.span, Some(index))];
            }
        }
    }
    let mut added: Vec<String> = misses.iter().map(|(.., text)| regex::escape(text)).collect();
    added.dedup();
    let all: Vec<&str> =
        patterns.iter().map(Pattern::source).chain(added.iter().map(String::as_str)).collect();
    let grant = assignment(EXEC_ALLOW, &all);
    let reason = "the command is not on the owner's allow list";
    let mark = |(span, run, _): (Span, Option<usize>, String)| {
        let run = run.or_else(|| case.analysis.runs.iter().position(|run| run.span == span));
        Mark::new(Decision::deny(EXEC_ALLOW, reason).at(bytes(span)).grant(grant.clone()), run)
    };
    misses.into_iter().map(mark).collect()
}

fn refusal(reason: String, span: Span, run: Option<usize>) -> Mark {
    Mark::new(Decision::deny(EXEC_ALLOW, reason).at(bytes(span)), run)
}

/// A command that another starts, as one would write it; none if a word of it is not known.
fn started(run: &Run) -> Option<String> {
    let words: Option<Vec<&str>> = run.argv.iter().map(|arg| arg.text()).collect();
    Some(words?.join(" "))
}

/// What the list does not see, and where.
type Beyond = (&'static str, Span);

/// The commands whose text the list is held against.
#[derive(Default)]
struct List {
    commands: Vec<Span>,
}

impl List {
    fn statements(&mut self, statements: &[Statement]) -> Result<(), Beyond> {
        for (_, pipeline) in statements.iter().flat_map(|statement| &statement.pipelines) {
            for (index, command) in pipeline.commands.iter().enumerate() {
                // `!` and `time` count as words of the first command.
                let start = if index == 0 { pipeline.span.start } else { command.span.start };
                self.command(command, Span { start, end: command.span.end })?;
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &Command, span: Span) -> Result<(), Beyond> {
        match &command.kind {
            CommandKind::Simple(simple) => simple_command(simple)?,
            CommandKind::Test(words) => words.iter().try_for_each(|word| whole_word(word, true))?,
            CommandKind::Subshell(statements) => {
                self.statements(statements)?;
                return command.redirects.iter().try_for_each(plain_redirect);
            }
            CommandKind::Function { .. } => {
                return Err(("a function can take the name of an allowed command", span));
            }
            CommandKind::Arithmetic(_) | CommandKind::ArithmeticFor { .. } => {
                return Err(("an arithmetic command can run what its variables hold", span));
            }
            // Its text as a whole would have to be on the list, which cannot say what runs how often.
            CommandKind::Group(_)
            | CommandKind::If { .. }
            | CommandKind::Loop { .. }
            | CommandKind::For { .. }
            | CommandKind::Case { .. }
            | CommandKind::Coproc(_) => {
                return Err(("the allow list holds plain commands, not groups and control structures", span));
            }
        }
        command.redirects.iter().try_for_each(plain_redirect)?;
        self.commands.push(span);
        Ok(())
    }
}

fn plain_redirect(redirect: &Redirect) -> Result<(), Beyond> {
    let word = match &redirect.target {
        RedirectTarget::HereDocument { quoted: true, .. } => return Ok(()),
        RedirectTarget::HereDocument { body, quoted: false } if body.pieces.iter().all(is_literal) => {
            return Ok(());
        }
        RedirectTarget::HereDocument { .. } => {
            let reason =
                "the here-document is expanded, which the allow list does not see; quote its delimiter";
            return Err((reason, redirect.span));
        }
        RedirectTarget::Word(word) => word,
    };
    whole_word(word, false)?;
    if opens_file(redirect.operator, literal(word).as_deref()) {
        let reason = "a redirection writes a file or opens a connection, which the allow list does not see";
        return Err((reason, redirect.span));
    }
    Ok(())
}

/// Builtins that read an argument as the name of a variable or as arithmetic: a subscript in it is evaluated, even
/// where it is quoted.
const EVALUATING: &[&str] = &[
    "[",
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

fn simple_command(simple: &Simple) -> Result<(), Beyond> {
    simple.assignments.iter().try_for_each(assigned)?;
    let name = simple.words.first().and_then(literal);
    let name = name.as_deref().unwrap_or_default();
    let evaluates = EVALUATING.contains(&name);
    // With it printf puts together a value that is nowhere written as a whole.
    let first = simple.words.get(1).filter(|_| name == "printf");
    if let Some(word) = first.filter(|word| literal(word).is_some_and(|text| text.starts_with("-v"))) {
        return Err(("printf -v sets a variable, which the allow list does not see", word.span));
    }
    simple.words.iter().try_for_each(|word| whole_word(word, evaluates))
}

fn assigned(assignment: &Assignment) -> Result<(), Beyond> {
    if assignment.subscript.is_some() {
        return Err(("a subscript is evaluated, which can run what a variable holds", assignment.span));
    }
    match &assignment.value {
        AssignedValue::Word(word) => whole_word(word, false),
        AssignedValue::Array(words) => words.iter().try_for_each(|word| whole_word(word, true)),
    }
}

/// Whether a word is what it says.
fn whole_word(word: &Word, evaluates: bool) -> Result<(), Beyond> {
    if let Some(reason) = word.pieces.iter().find_map(beyond) {
        return Err((reason, word.span));
    }
    if has_braces(word) {
        return Err(("{a,b} makes words that the allow list does not see; write them out", word.span));
    }
    let text = written(&word.pieces);
    if evaluates && text.contains('[') && ["$(", "${", "`"].iter().any(|start| text.contains(start)) {
        return Err(("the builtin evaluates a subscript in this word, which can run a command", word.span));
    }
    Ok(())
}

/// Why a piece is more than its text.
fn beyond(piece: &Piece) -> Option<&'static str> {
    match &piece.kind {
        PieceKind::Text(_) | PieceKind::Escaped(_) | PieceKind::Single(_) => None,
        PieceKind::Double(pieces) => pieces.iter().find_map(beyond),
        PieceKind::Parameter(parameter) => {
            let is_name = parameter.name.starts_with(|ch: char| ch.is_ascii_alphabetic() || ch == '_');
            let plain = is_name
                && !parameter.indirect
                && parameter.subscript.is_none()
                && parameter.operation == Operation::Value;
            (!plain).then_some("an expansion other than $NAME or ${NAME} can run what a variable holds")
        }
        PieceKind::Arithmetic(_) => {
            Some("an expansion other than $NAME or ${NAME} can run what a variable holds")
        }
        PieceKind::Command(_) | PieceKind::ProcessIn(_) | PieceKind::ProcessOut(_) => {
            Some("a substitution runs a command that the allow list does not see")
        }
    }
}

/// Whether unquoted braces make several words: `{a,b}`, `{1..3}`.
fn has_braces(word: &Word) -> bool {
    // For each open brace, whether a comma or two dots stand in it.
    let mut open: Vec<bool> = Vec::new();
    for piece in &word.pieces {
        let PieceKind::Text(text) = &piece.kind else { continue };
        let mut before = ' ';
        for ch in text.chars() {
            match ch {
                '{' => open.push(false),
                '}' if open.pop() == Some(true) => return true,
                ',' => open.last_mut().into_iter().for_each(|separated| *separated = true),
                '.' if before == '.' => open.last_mut().into_iter().for_each(|separated| *separated = true),
                _ => {}
            }
            before = ch;
        }
    }
    false
}

fn is_literal(piece: &Piece) -> bool {
    match &piece.kind {
        PieceKind::Text(_) | PieceKind::Escaped(_) | PieceKind::Single(_) => true,
        PieceKind::Double(pieces) => pieces.iter().all(is_literal),
        _ => false,
    }
}

/// The text of a word, if it is written out.
fn literal(word: &Word) -> Option<String> {
    word.pieces.iter().all(is_literal).then(|| written(&word.pieces))
}

/// What is written out of the pieces.
fn written(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        match &piece.kind {
            PieceKind::Text(part) | PieceKind::Single(part) => text.push_str(part),
            PieceKind::Escaped(ch) => text.push(*ch),
            PieceKind::Double(inner) => text.push_str(&written(inner)),
            _ => {}
        }
    }
    text
}

/// Whether a redirection does more than to read a file or to join descriptors. `target` is none if it is not certain.
fn opens_file(operator: RedirectOperator, target: Option<&str>) -> bool {
    let descriptor =
        target.is_some_and(|text| text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit()));
    let harmless = matches!(target, Some("/dev/null" | "/dev/stdout" | "/dev/stderr"));
    match operator {
        RedirectOperator::HereString | RedirectOperator::HereDocument => false,
        // bash opens a connection under these names.
        RedirectOperator::Read | RedirectOperator::DuplicateIn => {
            target.is_none_or(|text| text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/"))
        }
        RedirectOperator::DuplicateOut => !descriptor && !harmless,
        RedirectOperator::Write
        | RedirectOperator::Clobber
        | RedirectOperator::Append
        | RedirectOperator::ReadWrite
        | RedirectOperator::WriteBoth
        | RedirectOperator::AppendBoth => !harmless,
    }
}
