//! `powershell` and `cmd`, and what starts commands of theirs.

use crate::analysis::{Arg, ArgPart, DepartureKind, Input, OpaqueReason};
use crate::programs::meaning::joined;
use crate::programs::options::{Place, tail};
use crate::programs::{Inner, Invocation, Meaning, On};

/// What such a shell does, if the program is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let (name, end) = invocation.program.split_once('.').unwrap_or((invocation.program, "exe"));
    let is = |other: &str| name.eq_ignore_ascii_case(other) && end.eq_ignore_ascii_case("exe");
    let meaning = if is("powershell") || is("pwsh") {
        powershell(invocation)
    } else if is("cmd") {
        cmd(invocation)
    } else if is("start") {
        start(invocation)
    } else if is("forfiles") {
        forfiles(invocation)
    } else {
        return None;
    };
    // Their options look like paths.
    Some(meaning.whole())
}

/// Parameters of `powershell` that take a value, in lower case.
const VALUES: &[&str] = &[
    "executionpolicy",
    "ex",
    "ep",
    "outputformat",
    "of",
    "inputformat",
    "if",
    "windowstyle",
    "w",
    "psconsolefile",
    "version",
    "v",
    "configurationname",
    "config",
    "workingdirectory",
    "wd",
    "custompipename",
    "settingsfile",
];

/// `-Command TEXT`, `-EncodedCommand BASE64`, `-File PATH`; names may be cut short and have any case.
fn powershell(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let lower = arg.prefix().to_ascii_lowercase();
        let Some(name) = lower.strip_prefix(['-', '/']) else {
            // Without a parameter, Windows PowerShell takes commands, its successor a file.
            if invocation.program.to_ascii_lowercase().starts_with("pwsh") {
                meaning.runs_script(On::Arg(at), at);
            } else {
                text(&mut meaning, joined(invocation.from(at)), at);
            }
            return meaning;
        };
        let name = name.trim_start_matches('-');
        let short_for = |whole: &str, least: usize| name.len() >= least && whole.starts_with(name);
        if short_for("command", 1) || short_for("commandwithargs", 9) || name == "cwa" {
            if invocation.text(at + 1) == Some("-") {
                stdin(&mut meaning, invocation);
            } else {
                text(&mut meaning, joined(invocation.from(at + 1)), at);
            }
            return meaning;
        }
        if short_for("encodedcommand", 1) || name == "ec" {
            let decoded = invocation.text(at + 1).and_then(decode);
            match (decoded, args.get(at + 1)) {
                (Some(decoded), Some(arg)) => text(&mut meaning, Some(Arg::known(decoded, arg.span)), at),
                _ => text(&mut meaning, None, at),
            }
            return meaning;
        }
        if short_for("file", 1) {
            if at + 1 < args.len() {
                meaning.runs_script(On::Arg(at + 1), at + 1);
            }
            return meaning;
        }
        at += if VALUES.contains(&name) { 2 } else { 1 };
    }
    stdin(&mut meaning, invocation);
    meaning
}

fn text(meaning: &mut Meaning, text: Option<Arg>, at: usize) {
    meaning.departs(DepartureKind::Code, at);
    match text {
        Some(text) => {
            let text = with_names(text);
            meaning.inner.push(Inner::Code { language: "powershell", text });
            meaning.hides(OpaqueReason::Code, None);
        }
        None => meaning.hides(OpaqueReason::UnknownText, Some(at)),
    }
}

/// The text with a variable in place of what is not known, so that the rest can be read.
fn with_names(text: Arg) -> Arg {
    if text.text().is_some() || !text.parts.iter().any(|part| matches!(part, ArgPart::Known(_))) {
        return text;
    }
    let part = |part: &ArgPart| match part {
        ArgPart::Known(text) | ArgPart::Glob(text) => text.clone(),
        ArgPart::Unknown => "$unknown".to_owned(),
    };
    Arg::known(text.parts.iter().map(part).collect::<String>(), text.span)
}

fn stdin(meaning: &mut Meaning, invocation: &Invocation<'_>) {
    match invocation.input {
        Input::Inherited => {}
        Input::Text(known) => text(meaning, Some(known.clone()), invocation.args.len()),
        Input::Pipe(_) | Input::File(_) => text(meaning, None, invocation.args.len()),
    }
}

/// Text from base64 of UTF-16, as `-EncodedCommand` takes it.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits: u32 = 0;
    let mut count = 0;
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    let (units, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit))).collect::<Result<String, _>>().ok()
}

/// `cmd /c TEXT`, `/k TEXT`, also attached: `/cdel`.
fn cmd(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    for (at, arg) in args.iter().enumerate() {
        let known = arg.prefix();
        // Shells that change paths want `//c`.
        let letters = known.trim_start_matches('/');
        if letters.len() == known.len() {
            continue;
        }
        if !letters.starts_with(['c', 'C', 'k', 'K', 'r', 'R']) {
            continue;
        }
        let place = Place { option: at, arg: at, skip: known.len() - letters.len() + 1 };
        let mut words: Vec<Arg> = Vec::new();
        if place.skip < known.len() || arg.text().is_none() {
            words.push(tail(arg, place.skip));
        }
        words.extend(invocation.from(at + 1).iter().cloned());
        meaning.departs(DepartureKind::Code, at);
        meaning.hides(OpaqueReason::Code, None);
        if let Some(text) = joined(&words) {
            meaning.inner.push(Inner::Code { language: "cmd", text });
        }
        return meaning;
    }
    meaning
}

/// `start /b COMMAND …`: a command of `cmd`.
fn start(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let first =
        invocation.args.iter().position(|arg| !arg.prefix().starts_with('/') && !arg.prefix().is_empty());
    let command = invocation.from(first.unwrap_or(invocation.args.len()));
    if let Some(text) = joined(command) {
        meaning.departs(DepartureKind::Code, first.unwrap_or_default());
        meaning.hides(OpaqueReason::Code, None);
        meaning.inner.push(Inner::Code { language: "cmd", text });
    }
    meaning
}

/// `forfiles /c COMMAND`: once for each file.
fn forfiles(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let is_command = |arg: &Arg| arg.text().is_some_and(|text| text.eq_ignore_ascii_case("/c"));
    if let Some(at) = invocation.args.iter().position(is_command)
        && let Some(text) = invocation.args.get(at + 1)
    {
        meaning.departs(DepartureKind::Code, at);
        meaning.hides(OpaqueReason::Code, None);
        meaning.inner.push(Inner::Code { language: "cmd", text: text.clone() });
    }
    meaning
}
