//! Programs that delete, move, copy and write files.

use super::super::options::{Grammar, Takes};
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
        "mv" | "gmv" => transfer(invocation, &MV, EffectKind::Delete),
        "cp" | "gcp" => transfer(invocation, &CP, EffectKind::Read),
        "ln" => transfer(invocation, &LN, EffectKind::Read),
        "install" | "ginstall" => install(invocation),
        "mkdir" | "mkfifo" => each(invocation, &MAKE, EffectKind::Write),
        "mknod" => make_node(invocation),
        "tee" | "sponge" => each(invocation, &TEE, EffectKind::Write),
        "mktemp" => make_temporary(invocation),
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
