//! Which command patterns a grant may have: they match the run that was shown, and do not give away more than a person
//! can see in them.
//!
//! Two kinds. A pattern in the words of the owner's rules, for programs that are what their names say. And the exact
//! argv of a run that executes a script of the workspace: no pattern vouches for what a script does, but its content is
//! part of what the grant is bound to.

use std::path::Path;

use helve_policy::{CommandPattern, never_offered, propose};
use helve_shell::analysis::{Analysis, Input, More, Run};
use helve_shell::quote;

use super::binding::Bound;

/// The longest pattern that is kept.
const MAX_BYTES: usize = 4096;
/// So many words at the start of a pattern say what it allows, and so many spellings of them are looked at.
const DECIDING_WORDS: usize = 3;
const MAX_STARTS: usize = 256;
/// Programs that run the script that they are given, and nothing else where they are given no option.
const INTERPRETERS: &[&str] =
    &["bash", "dash", "ksh", "lua", "node", "perl", "php", "python", "python3", "ruby", "sh", "zsh"];

/// The argv of a run as a shell reads it back; none if a part of it shows only when it runs.
pub(crate) fn exact(run: &Run) -> Option<String> {
    let words: Option<Vec<_>> = run.argv.iter().map(|arg| arg.text().map(quote)).collect();
    let text = words?.join(" ");
    let fits = !text.is_empty() && text.len() <= MAX_BYTES && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// What a longer answer would allow; none if the run can be allowed only this once.
pub(crate) fn offer(analysis: &Analysis, bound: &Bound, workspace: &Path) -> Option<String> {
    propose(analysis, bound.run, workspace).or_else(|| bound.exact.clone())
}

/// A pattern that a grant may have; the error says what is wrong with it.
pub(crate) fn read(pattern: &str) -> Result<CommandPattern, String> {
    says_enough(pattern)?;
    CommandPattern::parse(pattern)
}

/// The exact argv of a run that executes a script, if nothing else reaches the script.
pub(super) fn exact_script(run: &Run) -> Option<String> {
    let (name, args) = run.argv.split_first()?;
    let direct = name.text().is_some_and(|name| name.contains('/'));
    let interpreter = run.program.as_deref().is_some_and(|program| INTERPRETERS.contains(&program));
    let interpreted = interpreter && args.first().is_some_and(|first| !first.may_be_option());
    let plain = run.departures.is_empty()
        && run.environment.is_empty()
        && run.input == Input::Inherited
        && run.more == More::Nothing;
    ((direct || interpreted) && plain).then(|| exact(run)).flatten()
}

/// Whether a pattern starts with words that say what it allows. Only words that are written out count, each of those in
/// `{a,b}` by itself.
fn says_enough(pattern: &str) -> Result<(), String> {
    if pattern.chars().any(char::is_control) {
        return Err("a pattern is one line without control characters".to_owned());
    }
    // No more words than these decide what is never offered.
    let words: Vec<Vec<String>> =
        pattern.split_whitespace().map_while(choices).take(DECIDING_WORDS).collect();
    let mut starts: Vec<Vec<&str>> = vec![Vec::new()];
    for choices in &words {
        let mut longer = Vec::new();
        for start in &starts {
            longer.extend(choices.iter().map(|word| [start.as_slice(), &[word.as_str()]].concat()));
        }
        starts = longer;
        if starts.len() > MAX_STARTS {
            return Err("it has too many choices; write several patterns".to_owned());
        }
    }
    match starts.iter().find(|start| never_offered(start)) {
        Some(start) if start.is_empty() => Err("it does not start with the name of a program".to_owned()),
        Some(start) => Err(format!("a longer yes to `{}` would allow everything", start.join(" "))),
        None => Ok(()),
    }
}

/// The words that a plain word or one with a plain `{a,b}` stands for; none for any other.
fn choices(word: &str) -> Option<Vec<String>> {
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./:@%+=".contains(&b));
    let Some((before, rest)) = word.split_once('{') else {
        return plain(word).then(|| vec![word.to_owned()]);
    };
    let (inside, after) = rest.split_once('}')?;
    let whole = plain(before) && plain(after) && inside.split(',').all(plain) && inside.len() <= MAX_BYTES;
    whole.then(|| inside.split(',').map(|choice| format!("{before}{choice}{after}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_away_everything_is_refused_however_it_is_written() {
        for bad in [
            "",
            " ",
            "*",
            "<any>",
            "sh *",
            "bash",
            "/bin/bash *",
            "git *",
            "git",
            "git {push,config} *",
            "sudo *",
            "rm *",
            "env *",
            "xargs *",
            "python3 *",
            "'git' push",
            "\"sh\" -c x",
            "g\\it push",
            "git -c x push",
            "git\npush",
            "{git,sh} push",
            "gi* push",
        ] {
            assert!(says_enough(bad).is_err(), "{bad}");
        }
        for good in [
            "git push *",
            "cargo test *",
            "npm run {test,build}",
            "npm run test:{unit,e2e} *",
            "git {push,fetch} *",
            "ls <path>",
            "git commit -m 'fix: it'",
        ] {
            assert_eq!(says_enough(good), Ok(()), "{good}");
        }
    }
}
