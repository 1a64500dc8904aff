//! Words of a pattern among the arguments of a run, with options between them: how rules that ask or deny look.
//!
//! An option may take the next argument as its value. Where nobody knows, both readings are followed, so that
//! `npm --loglevel error publish` is still `npm publish`.

use helve_shell::analysis::Arg;

use super::WordPattern;

/// Options of a program as a whole that take the next argument as their value.
const VALUED: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--exec-path",
            "--config-env",
            "--attr-source",
        ],
    ),
    ("docker", &["-H", "--host", "-c", "--context", "-l", "--log-level", "--config"]),
    ("podman", &["-H", "--host", "-c", "--connection", "--url", "--log-level", "--root"]),
    ("kubectl", &["-n", "--namespace", "--context", "--kubeconfig", "-s", "--server", "--cluster", "--user"]),
    ("npm", &["--prefix", "-C", "-w", "--workspace", "--loglevel", "--registry"]),
    ("pnpm", &["--prefix", "-C", "--dir", "--filter", "-F", "--loglevel"]),
    ("yarn", &["--cwd"]),
    ("cargo", &["--config", "-Z", "-C", "--color"]),
    ("systemctl", &["-H", "--host", "-M", "--machine", "-t", "--type"]),
    ("make", &["-C", "-f", "-I"]),
];

/// Options that take none, whatever the program.
const FLAGS: &[&str] = &["--", "--silent", "--quiet", "--verbose", "--help", "--version", "--yes", "--debug"];

/// Options of git that take none.
const GIT_FLAGS: &[&str] = &["-p", "-P", "--paginate", "--bare"];

/// Whether the words stand in the arguments in this order, with nothing else but options before and between the first
/// ones that are spelled out, and nothing behind them unless `rest`. Linear in the arguments for a given pattern.
pub(super) fn stands_in(words: &[&WordPattern], rest: bool, program: &str, args: &[&Arg]) -> bool {
    let spelled = words.iter().take_while(|word| matches!(word, WordPattern::OneOf(_))).count();
    // How many words may have been found so far, and how many where this argument is the value of an option.
    let (mut found, mut behind_value) = (vec![0], Vec::new());
    for arg in args {
        if rest && found.contains(&words.len()) {
            return true;
        }
        let (mut next, mut skips) = (std::mem::take(&mut behind_value), Vec::new());
        for count in found {
            if words.get(count).is_some_and(|word| word.takes(arg)) {
                next.push(count + 1);
            }
            let value = if count < spelled { option(program, arg) } else { None };
            match value {
                Some(Value::None) => next.push(count),
                Some(Value::Next) => skips.push(count),
                Some(Value::Perhaps) => {
                    next.push(count);
                    skips.push(count);
                }
                None => {}
            }
        }
        next.sort_unstable();
        next.dedup();
        if next.is_empty() && skips.is_empty() {
            return false;
        }
        (found, behind_value) = (next, skips);
    }
    // A value that is missing is that of the last option.
    found.contains(&words.len())
}

/// Whether an option takes the next argument.
enum Value {
    None,
    Next,
    Perhaps,
}

/// What an argument is as an option; none if it is none.
fn option(program: &str, arg: &Arg) -> Option<Value> {
    let Some(text) = arg.text() else {
        // It may turn out to be any option, or several.
        return arg.may_be_option().then_some(Value::Perhaps);
    };
    let valued = VALUED.iter().find(|(name, _)| *name == program).map_or(&[] as &[&str], |(_, names)| names);
    if program == "cargo" && text.starts_with('+') {
        Some(Value::None)
    } else if !text.starts_with('-') || text == "-" {
        None
    } else if valued.contains(&text) {
        Some(Value::Next)
    } else if text.contains('=')
        || text.starts_with("--no-")
        || FLAGS.contains(&text)
        || program == "git" && GIT_FLAGS.contains(&text)
    {
        Some(Value::None)
    } else {
        Some(Value::Perhaps)
    }
}
