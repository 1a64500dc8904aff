//! Programs that change what is in files: they cut, fill, split, patch and rename them.

use super::super::options::Grammar;
use super::reading::{Reading, long};
use super::{Invocation, Meaning, On};
use crate::analysis::{DepartureKind, EffectKind};

const TRUNCATE: Grammar = Grammar {
    flags: "co",
    values: "rs",
    long: long!["no-create", "io-blocks", "reference" = Value, "size" = Value],
    ..Grammar::NONE
};
const TOUCH: Grammar = Grammar {
    flags: "acfhm",
    values: "drt",
    long: long!["no-create", "date" = Value, "no-dereference", "reference" = Value, "time" = Value],
    ..Grammar::NONE
};
const FALLOCATE: Grammar = Grammar {
    flags: "cdinpuvwxz",
    values: "lo",
    long: long![
        "collapse-range",
        "dig-holes",
        "insert-range",
        "keep-size",
        "length" = Value,
        "offset" = Value,
        "posix",
        "punch-hole",
        "verbose",
        "zero-range"
    ],
    ..Grammar::NONE
};
const SPLIT: Grammar = Grammar {
    flags: "deux",
    values: "abClnt",
    long: long![
        "suffix-length" = Value,
        "additional-suffix" = Value,
        "bytes" = Value,
        "line-bytes" = Value,
        "numeric-suffixes" = Optional,
        "hex-suffixes" = Optional,
        "elide-empty-files",
        "filter" = Value,
        "lines" = Value,
        "number" = Value,
        "separator" = Value,
        "unbuffered",
        "verbose"
    ],
    numbers: true,
    ..Grammar::NONE
};
const CSPLIT: Grammar = Grammar {
    flags: "ksqz",
    values: "bfn",
    long: long![
        "suffix-format" = Value,
        "prefix" = Value,
        "keep-files",
        "suppress-matched",
        "digits" = Value,
        "quiet",
        "silent",
        "elide-empty-files"
    ],
    ..Grammar::NONE
};
const PATCH: Grammar = Grammar {
    flags: "bcEeflnNRstTuvZ",
    values: "BDdFgioprVxYz",
    long: long![
        "backup",
        "prefix" = Value,
        "context",
        "directory" = Value,
        "ifdef" = Value,
        "dry-run",
        "ed",
        "remove-empty-files",
        "force",
        "fuzz" = Value,
        "get" = Value,
        "input" = Value,
        "ignore-whitespace",
        "merge" = Optional,
        "normal",
        "forward",
        "output" = Value,
        "strip" = Value,
        "posix",
        "quoting-style" = Value,
        "reject-file" = Value,
        "reject-format" = Value,
        "reverse",
        "silent",
        "quiet",
        "batch",
        "set-time",
        "set-utc",
        "unified",
        "verbose",
        "version-control" = Value,
        "backup-if-mismatch",
        "no-backup-if-mismatch",
        "binary",
        "follow-symlinks",
        "read-only" = Value,
        "suffix" = Value,
        "basename-prefix" = Value
    ],
    ..Grammar::NONE
};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    match program {
        "truncate" => reference(invocation, &TRUNCATE, &["r", "reference"]),
        "touch" => reference(invocation, &TOUCH, &["r", "reference"]),
        "fallocate" => reference(invocation, &FALLOCATE, &[]),
        "dd" | "dcfldd" | "dc3dd" | "gdd" => dd(invocation),
        "split" => split(invocation),
        "csplit" => csplit(invocation),
        "patch" => patch(invocation),
        "rename" | "prename" | "file-rename" => rename(invocation),
        _ => None,
    }
}

/// A program that writes its operands and may take a file as an example.
fn reference(invocation: &Invocation<'_>, grammar: &Grammar, names: &[&str]) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, grammar);
    if !reading.only_informs() {
        reading.each(EffectKind::Write, &reading.operands());
        reading.each_value(EffectKind::Read, names);
    }
    reading.done()
}

fn dd(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &Grammar { long: long![], ..Grammar::NONE });
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    for operand in reading.operands() {
        let prefix = reading.args[operand].prefix();
        if prefix.starts_with("of=") {
            reading.add(EffectKind::Write, On::Tail(operand, 3));
        } else if prefix.starts_with("if=") {
            reading.add(EffectKind::Read, On::Tail(operand, 3));
        } else if reading.text(operand).is_none() && !prefix.contains('=') {
            reading.add(EffectKind::Write, On::Unknown(Some(operand)));
        }
    }
    reading.done()
}

fn split(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &SPLIT);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let operands = reading.operands();
    if let Some(file) = operands.first().filter(|file| reading.text(**file) != Some("-")) {
        reading.add(EffectKind::Read, On::Arg(*file));
    }
    for filter in reading.values(&["filter"]) {
        reading.meaning.departures.push((DepartureKind::Program, filter.option));
        reading.meaning.inner.extend(super::shell_inner(filter.value(invocation.args)));
    }
    if !reading.has(&["filter"]) {
        let prefix = operands.get(1).map_or(On::Path("x".to_owned(), None), |prefix| On::Arg(*prefix));
        reading.add(EffectKind::Write, prefix);
    }
    reading.done()
}

fn csplit(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &CSPLIT);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let file = reading.operands().first().copied();
    reading.each(EffectKind::Read, file.as_slice());
    let prefix = reading.values(&["f", "prefix"]).pop();
    let prefix = prefix.map_or(On::Path("xx".to_owned(), None), |prefix| prefix.on(invocation.args));
    reading.add(EffectKind::Write, prefix);
    reading.done()
}

fn patch(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &PATCH);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let operands = reading.operands();
    reading.each_value(EffectKind::Read, &["i", "input"]);
    if let Some(file) = operands.get(1) {
        reading.add(EffectKind::Read, On::Arg(*file));
    }
    if reading.has(&["dry-run"]) {
        return reading.done();
    }
    reading.each_value(EffectKind::Write, &["o", "output", "r", "reject-file", "d", "directory"]);
    match operands.first() {
        Some(file) => reading.add(EffectKind::Write, On::Arg(*file)),
        // The patch itself names the files below the directory where it runs.
        None if !reading.has(&["d", "directory"]) => {
            reading.add(EffectKind::Write, On::Path(".".to_owned(), None))
        }
        None => {}
    }
    reading.done()
}

fn rename(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "aflnosvV0dN",
        values: "eE",
        long: long![
            "all",
            "force",
            "last",
            "no-act",
            "no-overwrite",
            "symlink",
            "verbose",
            "null",
            "filename",
            "path",
            "fullpath",
            "nofullpath",
            "expr" = Value
        ],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() || reading.has(&["n", "no-act"]) {
        return Some(Meaning::default());
    }
    let mut operands = reading.operands();
    reading.depart(DepartureKind::Code, &["e", "E", "expr"]);
    if !reading.has(&["e", "E", "expr"]) && !operands.is_empty() {
        let expression = operands.remove(0);
        // One of the programs of this name takes an expression of Perl, the other a plain text.
        if reading.text(expression).is_none_or(|text| text.contains(['/', '(', ';', '{', '|'])) {
            reading.meaning.departures.push((DepartureKind::Code, expression));
        }
    }
    reading.each(EffectKind::Write, &operands);
    reading.done()
}
