//! Runs the cases of `tests/cases`: a command line, and what the tables must say about it.
//!
//! A row has `run` and, where they are not empty, `departs`, `inner`, `opaque`; `deeds` is compared where it is given.
//! Words are split at blanks; `'…'` and `"…"` quote, `$x` is unknown, `*` and `?` outside quotes are patterns. `stdin` is
//! known input, `more` is what is added: `paths` or `anything`,
//! `outside` says that it runs outside the workspace, `depth` how many directories below it.

use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;

use super::{Deed, Inner, Invocation, Meaning, On, understand};
use crate::Span;
use crate::analysis::{Arg, ArgPart, Input, More};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    run: String,
    #[serde(default)]
    departs: Vec<String>,
    #[serde(default)]
    inner: Vec<String>,
    #[serde(default)]
    opaque: Vec<String>,
    deeds: Option<Vec<String>>,
    stdin: Option<String>,
    more: Option<String>,
    #[serde(default)]
    outside: bool,
    #[serde(default)]
    depth: usize,
}

/// The workspace of all cases.
pub(super) const WORKSPACE: &str = "/home/user/project";

/// Fails with all rows of a file that are not as they say.
pub(super) fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(file);
    let text = std::fs::read_to_string(&path).expect("the cases are there");
    let mut wrong = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let case: Case =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}:{}: {error}", index + 1));
        let words = split(&case.run);
        let program = words[0].text().expect("a known program").to_owned();
        let input = case.stdin.map_or(Input::Inherited, |text| Input::Text(Arg::known(text, NOWHERE)));
        let more = match case.more.as_deref() {
            None => More::Nothing,
            Some("paths") => More::Paths,
            Some("anything") => More::Anything,
            Some(other) => panic!("{file}:{}: no such more: {other}", index + 1),
        };
        let invocation = Invocation {
            program: &program,
            args: &words[1..],
            input: &input,
            more,
            outside: case.outside,
            depth: (!case.outside).then_some(case.depth),
            workspace: Path::new(WORKSPACE),
        };
        let meaning =
            understand(&invocation).unwrap_or_else(|| panic!("{file}:{}: no table knows it", index + 1));
        let found = Shown::of(&meaning, &words[1..]);
        let deeds = case.deeds.clone().unwrap_or_else(|| found.deeds.clone());
        let expected = Shown { departs: case.departs, inner: case.inner, opaque: case.opaque, deeds };
        if found != expected {
            wrong.push(format!(
                "{file}:{}: {}\n  expected {expected:?}\n  found    {found:?}",
                index + 1,
                case.run
            ));
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    departs: Vec<String>,
    inner: Vec<String>,
    opaque: Vec<String>,
    deeds: Vec<String>,
}

impl Shown {
    fn of(meaning: &Meaning, args: &[Arg]) -> Shown {
        let mut departs: Vec<String> = meaning.departures.iter().map(|(kind, _)| name(kind)).collect();
        departs.dedup();
        Shown {
            departs,
            inner: meaning.inner.iter().map(inner).collect(),
            opaque: meaning.opaque.iter().map(|(reason, _)| name(reason)).collect(),
            deeds: meaning.deeds.iter().map(|deed| shown_deed(deed, args)).collect(),
        }
    }
}

/// The name that a variant has in JSON.
fn name(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value).expect("it serializes") {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

fn shown_deed(deed: &Deed, args: &[Arg]) -> String {
    let on = match &deed.on {
        On::Arg(at) => shown(&args[*at]),
        On::Tail(at, skip) => shown(&super::options::tail(&args[*at], *skip)),
        On::Path(path, _) => path.clone(),
        On::Matching(before, pattern, _) => format!("{before}{pattern}"),
        On::Host(host, _) => host.clone(),
        On::Unknown(_) => "?".to_owned(),
        On::Machine => "machine".to_owned(),
    };
    format!("{} {on}", name(&deed.kind))
}

fn inner(inner: &Inner) -> String {
    match inner {
        Inner::Argv { argv, more, environment, directory, elsewhere, .. } => {
            let mut words: Vec<String> =
                environment.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
            words.extend(argv.iter().map(shown));
            match more {
                More::Nothing => {}
                More::Paths => words.push("+paths".to_owned()),
                More::Anything => words.push("+anything".to_owned()),
            }
            words.extend(directory.iter().map(|directory| format!("@{}", shown(directory))));
            words.extend(elsewhere.then(|| "@elsewhere".to_owned()));
            words.join(" ")
        }
        Inner::Shell { text, shell, parameters, elsewhere } => {
            let mut words = vec![format!("{shell}: {}", shown(text))];
            words.extend(parameters.iter().map(|parameter| format!("[{}]", shown(parameter))));
            words.extend(elsewhere.then(|| "@elsewhere".to_owned()));
            words.join(" ")
        }
        Inner::Code { language, text } => format!("{language}: {}", shown(text)),
    }
}

fn shown(arg: &Arg) -> String {
    let part = |part: &ArgPart| match part {
        ArgPart::Known(text) | ArgPart::Glob(text) => text.clone(),
        ArgPart::Unknown => "?".to_owned(),
    };
    arg.parts.iter().map(part).collect()
}

const NOWHERE: Span = Span { start: 0, end: 0 };

/// The words of a command line, as described above.
pub(super) fn split(text: &str) -> Vec<Arg> {
    let mut words: Vec<Arg> = Vec::new();
    let mut open = false;
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        if quote.is_none() && next == ' ' {
            open = false;
            continue;
        }
        if !open {
            open = true;
            words.push(Arg { parts: Vec::new(), span: NOWHERE, splits: false });
        }
        let word = words.last_mut().expect("just pushed");
        match (quote, next) {
            (None, '\'' | '"') => quote = Some(next),
            (Some(mark), _) if mark == next => quote = None,
            (None, '\\') => push(word, &chars.next().expect("an escaped character").to_string()),
            (None | Some('"'), '$') if chars.next_if_eq(&'x').is_some() => {
                word.parts.push(ArgPart::Unknown);
                word.splits |= quote.is_none();
            }
            (None, '*' | '?') => {
                word.parts.push(ArgPart::Glob(next.to_string()));
                word.splits = true;
            }
            _ => push(word, &next.to_string()),
        }
    }
    words
}

fn push(word: &mut Arg, text: &str) {
    match word.parts.last_mut() {
        Some(ArgPart::Known(last)) => last.push_str(text),
        _ => word.parts.push(ArgPart::Known(text.to_owned())),
    }
}

/// Arguments that look like what programs take, with parts that are not known.
pub(super) fn any_args() -> impl Strategy<Value = Vec<Arg>> {
    let words = proptest::sample::select(vec![
        "-c",
        "-e",
        "-S",
        "-exec",
        "-o",
        "--",
        "-",
        "--output=x",
        "-C",
        "status",
        "diff",
        "config",
        "clone",
        "-name",
        ";",
        "+",
        "{}",
        "run",
        "exec",
        "-lne",
        "czf",
        "-I{}",
        ":::",
        "A=b",
        "ext::sh -c x",
        "-i",
        "-f",
        "-x",
        "é",
    ]);
    let part = prop_oneof![
        3 => words.prop_map(|word| ArgPart::Known(word.to_owned())),
        2 => "[-+a-zé=/{}*'\"$ ;|!@:.,0-9\n\\\\]{0,8}".prop_map(ArgPart::Known),
        1 => "[-a-z*?=é/]{0,5}".prop_map(ArgPart::Glob),
        1 => Just(ArgPart::Unknown),
    ];
    let arg = (proptest::collection::vec(part, 0..3), any::<bool>()).prop_map(|(parts, splits)| Arg {
        parts,
        span: NOWHERE,
        splits,
    });
    proptest::collection::vec(arg, 0..7)
}

/// Asks the tables about an argv with every kind of input and addition, and checks that what they say points into it.
pub(super) fn understands(program: &str, args: &[Arg]) -> Result<(), TestCaseError> {
    let text = Arg::known("id", NOWHERE);
    let inputs = [Input::Inherited, Input::Pipe(None), Input::Text(text.clone()), Input::File(text)];
    for (input, more) in inputs.iter().zip([More::Nothing, More::Paths, More::Anything, More::Nothing]) {
        let Some(meaning) = understand(&Invocation {
            program,
            args,
            input,
            more,
            outside: more == More::Paths,
            depth: (more == More::Nothing).then_some(2),
            workspace: Path::new(WORKSPACE),
        }) else {
            continue;
        };
        for deed in &meaning.deeds {
            match &deed.on {
                On::Arg(at) => prop_assert!(*at < args.len(), "{deed:?}"),
                On::Tail(at, skip) => {
                    prop_assert!(*at < args.len() && args[*at].parts.len() + skip > 0, "{deed:?}")
                }
                _ => {}
            }
        }
        for (kind, at) in &meaning.departures {
            prop_assert!(*at <= args.len(), "{kind:?} at {at}");
        }
        for (reason, at) in &meaning.opaque {
            prop_assert!(at.is_none_or(|at| at <= args.len()), "{reason:?} at {at:?}");
        }
    }
    Ok(())
}
