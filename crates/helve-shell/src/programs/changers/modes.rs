//! Programs that change modes, owners and attributes of files.

use super::reading::{asks_for_help, deeds};
use super::{Invocation, Meaning, On};
use crate::analysis::{Arg, EffectKind};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    if !matches!(
        program,
        "chmod" | "gchmod" | "chown" | "chgrp" | "chattr" | "chflags" | "chcon" | "setfacl" | "setfattr"
    ) {
        return None;
    }
    if asks_for_help(invocation.args) {
        return Some(Meaning::default());
    }
    let mut rest = Vec::new();
    let mut only_operands = false;
    let mut has_example = false;
    let mut arguments = invocation.args.iter().enumerate();
    while let Some((at, arg)) = arguments.next() {
        let text = arg.prefix();
        if !only_operands && arg.text() == Some("--") {
            only_operands = true;
        } else if only_operands || !is_option(program, text) {
            rest.push(at);
        } else if text.starts_with("--reference") {
            has_example = true;
        } else if takes_value(program, text) {
            has_example = true;
            arguments.next();
        }
    }
    // The first operand is the mode or the owner, unless an option says it.
    let says_what = usize::from(!has_example && program != "setfattr");
    let files = rest.get(says_what..).unwrap_or_default();
    let privileged = matches!(program, "chmod" | "gchmod")
        && rest
            .first()
            .and_then(|mode| invocation.args.get(*mode))
            .and_then(Arg::text)
            .is_some_and(gives_privilege);
    let on_files = |kind| files.iter().map(move |file| (kind, On::Arg(*file)));
    let mut meaning = deeds(on_files(EffectKind::Write));
    if invocation.more != crate::analysis::More::Nothing {
        meaning.deeds.extend(deeds([(EffectKind::Write, On::Unknown(None))]).deeds);
    }
    if privileged {
        meaning.deeds.extend(deeds(on_files(EffectKind::Privilege)).deeds);
    }
    Some(meaning)
}

/// Whether an argument is an option and not a mode such as `-x`, `-w` or `+i`.
fn is_option(program: &str, text: &str) -> bool {
    let Some(letters) = text.strip_prefix('-') else { return false };
    match program {
        "chmod" | "gchmod" | "chattr" => {
            letters.starts_with('-')
                || (!letters.is_empty() && letters.chars().all(|letter| "cfvRhHLP".contains(letter)))
        }
        _ => !letters.is_empty(),
    }
}

fn takes_value(program: &str, text: &str) -> bool {
    match program {
        "setfacl" => {
            matches!(text, "-m" | "-x" | "-M" | "-X" | "--modify" | "--remove" | "--set" | "--restore")
                || (text.starts_with('-') && !text.starts_with("--") && text.ends_with(['m', 'x']))
        }
        "setfattr" => matches!(text, "-n" | "-v" | "-x" | "--name" | "--value" | "--remove" | "--restore"),
        "chcon" => matches!(text, "-u" | "-r" | "-t" | "-l"),
        _ => false,
    }
}

/// Whether a mode lets whoever runs the file act as its owner. The same for the group alone is everyday for directories.
pub(super) fn gives_privilege(mode: &str) -> bool {
    let digits = mode.trim_start_matches(['=', '+']);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return u32::from_str_radix(digits, 8).is_ok_and(|value| value & 0o4000 != 0);
    }
    mode.split(',').any(|clause| {
        let operator = clause.find(['+', '=']);
        operator.is_some_and(|at| {
            let (who, what) = clause.split_at(at);
            let is_owner = who.is_empty() || who.contains(['u', 'a']);
            what.contains('s') && is_owner && who.chars().all(|letter| "ugoa".contains(letter))
        })
    })
}
