//! Programs that delete, move, copy and write files.

use super::super::options::{Grammar, Order, Takes};
use super::reading::{Reading, base_name, long};
use super::{Invocation, Meaning, On};
use crate::analysis::{DepartureKind, EffectKind};

const RM: Grammar = Grammar {
    flags: "dfiIPrRvWx",
    long: long![
        "recursive",
        "force",
        "interactive" = Optional,
        "one-file-system",
        "no-preserve-root",
        "preserve-root" = Optional,
        "dir",
        "verbose"
    ],
    ..Grammar::NONE
};
const RMDIR: Grammar =
    Grammar { flags: "pv", long: long!["ignore-fail-on-non-empty", "parents", "verbose"], ..Grammar::NONE };
const SHRED: Grammar = Grammar {
    flags: "fuvxz",
    values: "ns",
    long: long![
        "force",
        "iterations" = Value,
        "random-source" = Value,
        "size" = Value,
        "remove" = Optional,
        "verbose",
        "exact",
        "zero"
    ],
    ..Grammar::NONE
};
const TRUNCATE: Grammar = Grammar {
    flags: "co",
    values: "rs",
    long: long!["no-create", "io-blocks", "reference" = Value, "size" = Value],
    ..Grammar::NONE
};
const MV: Grammar = Grammar {
    flags: "bfhinuvTZ",
    values: "St",
    long: long![
        "backup" = Optional,
        "force",
        "interactive",
        "no-clobber",
        "no-copy",
        "strip-trailing-slashes",
        "suffix" = Value,
        "target-directory" = Value,
        "no-target-directory",
        "update" = Optional,
        "verbose",
        "context",
        "debug",
        "exchange"
    ],
    ..Grammar::NONE
};
const CP: Grammar = Grammar {
    flags: "abcdfiHlLnPpRrsTuvxXZ",
    values: "St",
    long: long![
        "archive",
        "attributes-only",
        "backup" = Optional,
        "copy-contents",
        "debug",
        "force",
        "interactive",
        "link",
        "dereference",
        "no-clobber",
        "no-dereference",
        "preserve" = Optional,
        "no-preserve" = Value,
        "parents",
        "recursive",
        "reflink" = Optional,
        "remove-destination",
        "sparse" = Value,
        "strip-trailing-slashes",
        "symbolic-link",
        "suffix" = Value,
        "target-directory" = Value,
        "no-target-directory",
        "update" = Optional,
        "verbose",
        "one-file-system",
        "context" = Optional,
        "keep-directory-symlink"
    ],
    ..Grammar::NONE
};
const LN: Grammar = Grammar {
    flags: "bdFfihLnPrsTvw",
    values: "St",
    long: long![
        "backup" = Optional,
        "directory",
        "force",
        "interactive",
        "logical",
        "no-dereference",
        "physical",
        "relative",
        "symbolic",
        "suffix" = Value,
        "target-directory" = Value,
        "no-target-directory",
        "verbose"
    ],
    ..Grammar::NONE
};
const INSTALL: Grammar = Grammar {
    flags: "bcCdDpsTvZ",
    values: "gmoSt",
    long: long![
        "backup" = Optional,
        "compare",
        "directory",
        "group" = Value,
        "mode" = Value,
        "owner" = Value,
        "preserve-timestamps",
        "strip",
        "strip-program" = Value,
        "suffix" = Value,
        "target-directory" = Value,
        "no-target-directory",
        "verbose",
        "preserve-context",
        "context" = Optional,
        "debug"
    ],
    ..Grammar::NONE
};
const MAKE: Grammar = Grammar {
    flags: "pvZ",
    values: "m",
    long: long!["mode" = Value, "parents", "verbose", "context" = Optional],
    ..Grammar::NONE
};
const TOUCH: Grammar = Grammar {
    flags: "acfhm",
    values: "drt",
    long: long!["no-create", "date" = Value, "no-dereference", "reference" = Value, "time" = Value],
    ..Grammar::NONE
};
const TEE: Grammar = Grammar {
    flags: "aip",
    long: long!["append", "ignore-interrupts", "output-error" = Optional],
    ..Grammar::NONE
};
const MKTEMP: Grammar = Grammar {
    flags: "dqtuV",
    optional: "p",
    long: long!["directory", "dry-run", "quiet", "suffix" = Value, "tmpdir" = Optional],
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
        "rm" | "grm" | "srm" | "wipe" => remove(invocation),
        "rmdir" | "unlink" | "trash" | "trash-put" => each(invocation, &RMDIR, EffectKind::Delete),
        "rimraf" | "del-cli" => each(
            invocation,
            &Grammar { long: long!["glob", "no-glob"], ..Grammar::NONE },
            EffectKind::DeleteTree,
        ),
        "shred" => shred(invocation),
        "truncate" => reference(invocation, &TRUNCATE, &["r", "reference"]),
        "touch" => reference(invocation, &TOUCH, &["r", "reference"]),
        "mv" | "gmv" => transfer(invocation, &MV, EffectKind::Delete),
        "cp" | "gcp" => transfer(invocation, &CP, EffectKind::Read),
        "ln" => transfer(invocation, &LN, EffectKind::Read),
        "install" | "ginstall" => install(invocation),
        "mkdir" | "mkfifo" => each(invocation, &MAKE, EffectKind::Write),
        "mknod" => make_node(invocation),
        "tee" | "sponge" => each(invocation, &TEE, EffectKind::Write),
        "dd" | "dcfldd" | "gdd" => dd(invocation),
        "mktemp" => make_temporary(invocation),
        "fallocate" => each(invocation, &FALLOCATE, EffectKind::Write),
        "split" => split(invocation),
        "csplit" => csplit(invocation),
        "patch" => patch(invocation),
        "ed" | "red" => editor(invocation),
        "rename" | "prename" | "file-rename" => rename(invocation),
        "gio" => gio(invocation),
        _ => None,
    }
}

/// A program that does the same to each operand.
fn each(invocation: &Invocation<'_>, grammar: &Grammar, kind: EffectKind) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, grammar);
    if !reading.only_informs() {
        reading.each(kind, &reading.operands());
    }
    reading.done()
}

fn remove(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &RM);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let recursive = reading.has(&["r", "R", "recursive"]);
    reading.each(if recursive { EffectKind::DeleteTree } else { EffectKind::Delete }, &reading.operands());
    if !recursive {
        reading.doubt();
    }
    reading.done()
}

fn shred(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &SHRED);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    reading.each(EffectKind::Write, &reading.operands());
    if reading.has(&["u", "remove"]) {
        reading.each(EffectKind::Delete, &reading.operands());
    }
    reading.each_value(EffectKind::Read, &["random-source"]);
    reading.done()
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

/// `mv`, `cp` and `ln`: sources, and a target that is the last operand or the value of `-t`.
fn transfer(invocation: &Invocation<'_>, grammar: &Grammar, source: EffectKind) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, grammar);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    sources_and_target(&mut reading, source);
    reading.done()
}

fn sources_and_target(reading: &mut Reading<'_>, source: EffectKind) {
    let mut operands = reading.operands();
    if let Some(place) = reading.values(&["t", "target-directory"]).pop() {
        reading.each(source, &operands);
        reading.add(EffectKind::Write, place.on(reading.args));
        let directory = place.text(reading.args);
        inside_directory(reading, directory, &operands, place.arg);
        return;
    }
    let Some(target) = operands.pop() else { return };
    if operands.is_empty() && !reading.has_more() {
        // Only `ln` takes a single operand: the link lands in the directory where it runs.
        if source == EffectKind::Read {
            reading.add(source, On::Arg(target));
            if let Some(text) = reading.text(target) {
                reading.add(EffectKind::Write, On::Path(base_name(text).to_owned(), Some(target)));
            }
        }
        return;
    }
    reading.each(source, &operands);
    if reading.text(target) == Some("/dev/null") {
        return;
    }
    reading.add(EffectKind::Write, On::Arg(target));
    let directory = reading.text(target).filter(|text| operands.len() > 1 || text.ends_with('/'));
    inside_directory(reading, directory, &operands, target);
}

/// The files that appear inside a directory under the names of their sources.
fn inside_directory(reading: &mut Reading<'_>, directory: Option<&str>, sources: &[usize], at: usize) {
    let Some(directory) = directory else { return };
    for source in sources {
        let name = reading.text(*source).map(base_name).filter(|name| !matches!(*name, "" | "." | ".."));
        if let Some(name) = name {
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            reading.add(EffectKind::Write, On::Path(path, Some(at)));
        }
    }
}

fn install(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &INSTALL);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    if reading.has(&["d", "directory"]) {
        reading.each(EffectKind::Write, &reading.operands());
    } else {
        sources_and_target(&mut reading, EffectKind::Read);
    }
    let sets_id = |place: &super::super::options::Place| {
        place.text(invocation.args).is_some_and(super::modes::gives_privilege)
    };
    if reading.values(&["m", "mode"]).iter().any(sets_id)
        && let Some(target) = reading.operands().last()
    {
        reading.add(EffectKind::Privilege, On::Arg(*target));
    }
    reading.depart(DepartureKind::Program, &["strip-program"]);
    reading.done()
}

fn make_node(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &MAKE);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let operands = reading.operands();
    if let Some(node) = operands.first() {
        reading.add(EffectKind::Write, On::Arg(*node));
        // A block device gives the disk behind it a new name.
        if operands.get(1).is_some_and(|kind| reading.text(*kind) == Some("b")) {
            reading.add(EffectKind::Device, On::Arg(*node));
        }
    }
    reading.done()
}

fn dd(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading =
        Reading::new(invocation, &Grammar { long: long![], order: Order::Mixed, ..Grammar::NONE });
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

fn make_temporary(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &MKTEMP);
    if reading.only_informs() || reading.has(&["u", "dry-run", "t"]) {
        return Some(Meaning::default());
    }
    let directories = reading.values(&["p", "tmpdir"]);
    if directories.is_empty() {
        reading.each(EffectKind::Write, &reading.operands());
    }
    reading.each_value(EffectKind::Write, &["p", "tmpdir"]);
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

fn editor(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "GlErsvz",
        values: "p",
        long: long![
            "extended-regexp",
            "traditional",
            "loose-exit-status",
            "prompt" = Value,
            "restricted",
            "quiet",
            "silent",
            "verbose",
            "strip-trailing-cr"
        ],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    reading.each(EffectKind::Write, &reading.operands());
    // Its standard input can start programs by `!`.
    reading.meaning.opaque.push((crate::analysis::OpaqueReason::Code, None));
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

fn gio(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "fp",
        long: &[("force", Takes::Nothing), ("empty", Takes::Nothing)],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    let operands = reading.operands();
    let (verb, files) = operands.split_first()?;
    match reading.text(*verb) {
        Some("trash" | "remove") => reading.each(EffectKind::Delete, files),
        Some("copy" | "move" | "save" | "mkdir" | "rename" | "set") => reading.each(EffectKind::Write, files),
        _ => {}
    }
    reading.done()
}
