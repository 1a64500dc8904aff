//! Where a second shell would read a placeholder again.
//!
//! Quotes hold for one reading. In `sh -c "/jail {command}"` the inner shell reads the text a second time, finds the
//! command without quotes, and runs what follows its first `;` outside of the jail. The only text that may be read again is
//! the command alone, because then that shell runs nothing else. So a `{command}` must be a whole word, or the whole value
//! of an option, and a `{cwd}` must not stand in what is a script.
//!
//! In: the words of the template. Out: for each word, what stands before it ([`Context`]), and the verdict. What a script
//! in the template does with its own parameters (`eval "$1"`) is not judged here.

use super::Value;
use super::words::{Call, Reading, Role, Word};

/// Programs that join their arguments and have a shell read the result: they take the command as one word.
const JOINING: [&str; 4] = ["eval", "parallel", "ssh", "watch"];

/// Programs whose output may be a script of another shell.
const PRINTING: [&str; 2] = ["echo", "printf"];

/// Programs that run the argument of `-c` as a script.
const SHELLS: [&str; 11] =
    ["ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "runuser", "sh", "su", "zsh"];

/// Builtins that put their words into variables.
const STORING: [&str; 6] = ["declare", "export", "local", "readonly", "set", "typeset"];

/// Builtins that put what they read into variables.
const READING: [&str; 3] = ["mapfile", "read", "readarray"];

/// Characters that a path or an option seldom has and a script nearly always.
const SCRIPT: [char; 11] = [' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', '`'];

/// What stands before a word in its command.
#[derive(Clone, Copy, Default)]
pub(super) struct Context {
    /// The word before is `-c` or the like.
    pub(super) behind_c: bool,
    /// Its text is joined with its neighbours and read again.
    pub(super) joined: bool,
    /// Of what is joined, it is all.
    alone: bool,
    /// Its text is printed.
    printed: bool,
    behind_shell: bool,
    /// Its text goes into a variable.
    stored: bool,
}

/// Each word of a command with its context.
pub(super) fn contexts(call: &Call) -> impl Iterator<Item = (&Word, Context)> {
    let arguments = &call.arguments;
    let is_one_of = |index: usize, word: &Word, names: &[&str]| {
        let is_name = index == 0;
        let name = word.text.rsplit('/').next().filter(|_| is_name).unwrap_or(&word.text);
        names.contains(&name)
    };
    let position =
        |names: &[&str]| (0..).zip(arguments).position(|(index, word)| is_one_of(index, word, names));
    let joiner = [position(&JOINING), position(&PRINTING)].into_iter().flatten().min();
    let shell = position(&SHELLS);
    let stored = uses(call, &STORING);
    let argument = move |index: usize| {
        let mut context = Context { stored, ..Context::default() };
        context.behind_c = index.checked_sub(1).and_then(|at| arguments.get(at)).is_some_and(takes_script);
        if let Some(at) = joiner.filter(|at| *at < index) {
            let program = arguments.get(at).map_or("", |word| word.text.rsplit('/').next().unwrap_or(""));
            context.joined = true;
            context.printed = PRINTING.contains(&program);
            context.alone = index + 1 == arguments.len()
                && operands(program, arguments.get(at + 1..index).unwrap_or_default())
                    == usize::from(program == "ssh");
        }
        context.behind_shell = shell.is_some_and(|at| at < index);
        context
    };
    let other = |word: &Word| Context { stored: word.role == Role::Stored, ..Context::default() };
    let arguments = arguments.iter().enumerate().map(move |(index, word)| (word, argument(index)));
    arguments.chain(call.others.iter().map(move |word| (word, other(word))))
}

/// Whether one of the builtins stands in the command.
fn uses(call: &Call, builtins: &[&str]) -> bool {
    call.arguments.iter().any(|word| builtins.contains(&word.text.as_str()) && word.is_bare())
}

/// Whether the argument after this one is a script for a shell, as after `-c`, `-lc` or `--command`.
fn takes_script(word: &Word) -> bool {
    let letters = word.text.strip_prefix('-').and_then(|letters| letters.strip_suffix('c'));
    word.text == "--command" || letters.is_some_and(|all| all.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// How many words are no options of a joining program, nor values of options.
fn operands(program: &str, words: &[Word]) -> usize {
    let takes_value = |option: &str| match program {
        "ssh" => option.len() == 2 && option.ends_with(|last| "BbcDEeFIiJLlmOopQRSWw".contains(last)),
        "watch" => matches!(option, "-n" | "--interval" | "-q" | "--equexit"),
        _ => false,
    };
    let mut count = 0;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.text.starts_with('-') {
            count += 1;
        } else if takes_value(&word.text) {
            words.next();
        }
    }
    count
}

/// Whether a placeholder in this word stays in the quotes that it is given.
pub(super) fn is_safe(word: &Word, context: Context, braced: &str, value: Value, pipes: bool) -> bool {
    let here_string = word.role == Role::HereString;
    if word.role == Role::File {
        return true;
    }
    let whole = word.is_all(braced);
    let option = word.text.strip_suffix(braced).and_then(|option| option.strip_suffix('='));
    let option = option.filter(|option| {
        !option.is_empty() && option.chars().all(|ch| ch.is_ascii_alphanumeric() || "-_.".contains(ch))
    });
    match value {
        Value::Command if whole => !context.joined || context.alone,
        Value::Command => option.is_some() && !context.joined && !context.behind_c && !here_string,
        Value::Cwd => {
            let read = context.joined && (pipes || !context.printed);
            let script = if whole { context.behind_c && context.behind_shell } else { context.behind_c };
            let glued = word.text.starts_with("-c") && option.is_none();
            let command = word.text.starts_with("--command=");
            !(read || script || glued || command || here_string || looks_like_script(word, context))
        }
    }
}

/// Whether the literal text of a word has what scripts have. What is only printed may have it.
fn looks_like_script(word: &Word, context: Context) -> bool {
    let mut texts = word.parts.iter().filter(|part| part.kind.is_literal());
    !context.printed
        && texts.any(|part| word.text.get(part.text.clone()).is_some_and(|text| text.contains(SCRIPT)))
}

/// Whether a variable that may hold a placeholder's value is written into a script.
pub(super) fn stored_and_read_again(reading: &Reading, at: &[usize]) -> bool {
    let words = || reading.calls.iter().flat_map(contexts);
    let holds = |word: &Word| {
        let first = at.partition_point(|at| *at < word.span.start);
        at.get(first).is_some_and(|at| *at < word.span.end)
    };
    // What a function is called with, and what `read` is given, is not followed.
    let anything = reading.defines || reading.calls.iter().any(|call| uses(call, &READING));
    if !anything && !words().any(|(word, context)| context.stored && holds(word)) {
        return false;
    }
    words().any(|(word, context)| {
        let lone = word.parts.len() == 1 && (context.alone || !context.joined);
        (context.behind_c || context.joined) && !word.is_literal() && !lone
    })
}
