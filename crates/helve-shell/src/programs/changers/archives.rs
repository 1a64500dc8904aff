//! Programs that pack and unpack. `tar` is among the readers.

use super::super::options::{Grammar, tail};
use super::reading::{Reading, asks_for_help, deeds, first_word, long};
use super::{Invocation, Meaning, On};
use crate::analysis::{Arg, DepartureKind, EffectKind};

const COMPRESS: Grammar = Grammar {
    flags: "acdefFhkHlLmnNqQrtvVzBCGXi0123456789",
    values: "SToMbD",
    long: long![
        "ascii",
        "stdout",
        "to-stdout",
        "decompress",
        "uncompress",
        "force",
        "keep",
        "list",
        "license",
        "no-name",
        "name",
        "quiet",
        "recursive",
        "rsyncable",
        "synchronous",
        "suffix" = Value,
        "test",
        "verbose",
        "fast",
        "best",
        "small",
        "compress",
        "format" = Value,
        "check" = Value,
        "extreme",
        "threads" = Value,
        "memlimit" = Value,
        "block-size" = Value,
        "rm",
        "ultra",
        "long" = Optional,
        "no-progress",
        "progress",
        "adapt",
        "train",
        "patch-from" = Value,
        "no-check",
        "single-stream",
        "robot",
        "files" = Optional,
        "files0" = Optional,
        "output-dir-flat" = Value,
        "output-dir-mirror" = Value
    ],
    numbers: true,
    ..Grammar::NONE
};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    match program {
        "gzip" | "gunzip" | "pigz" | "unpigz" | "bzip2" | "bunzip2" | "pbzip2" | "xz" | "unxz" | "lzma"
        | "unlzma" | "zstd" | "unzstd" | "lz4" | "unlz4" | "compress" | "uncompress" | "brotli" => {
            compress(invocation)
        }
        "unzip" => unzip(invocation),
        "zip" => zip(invocation),
        "7z" | "7za" | "7zr" | "7zz" | "rar" | "unrar" => seven_zip(invocation),
        "ar" => archiver(invocation),
        "cpio" => cpio(invocation),
        _ => None,
    }
}

fn compress(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut reading = Reading::new(invocation, &COMPRESS);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let only_reads = reading.has(&["c", "stdout", "to-stdout", "t", "test", "l", "list"]);
    let outputs = reading.values(&["o"]);
    let kind = if only_reads || !outputs.is_empty() { EffectKind::Read } else { EffectKind::Write };
    reading.each(kind, &reading.operands());
    reading.each_value(EffectKind::Write, &["o", "output-dir-flat", "output-dir-mirror"]);
    if reading.has(&["rm"]) {
        reading.each(EffectKind::Delete, &reading.operands());
    }
    reading.done()
}

fn unzip(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar =
        Grammar { flags: "abCDfjKLMnopqtTuUvVWXz:lZ^", values: "dPOIx", long: long![], ..Grammar::NONE };
    let mut reading = Reading::new(invocation, &grammar);
    let operands = reading.operands();
    let Some(archive) = operands.first() else { return reading.done() };
    reading.add(EffectKind::Read, On::Arg(*archive));
    if reading.only_informs() || reading.has(&["l", "t", "v", "Z", "p", "z"]) {
        return reading.done();
    }
    if reading.has(&["d"]) {
        reading.each_value(EffectKind::Write, &["d"]);
    } else {
        reading.add(EffectKind::Write, On::Path(".".to_owned(), Some(*archive)));
    }
    reading.done()
}

fn zip(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "AcdDeEfFgjklLmoqrRSTuvVwXyz@!$0123456789",
        values: "bnPstxiOZ",
        long: long![
            "recurse-paths",
            "move",
            "delete",
            "update",
            "freshen",
            "test",
            "unzip-command" = Value,
            "quiet",
            "verbose",
            "junk-paths",
            "symlinks",
            "exclude" = Value,
            "include" = Value,
            "output-file" = Value,
            "password" = Value,
            "encrypt",
            "temp-path" = Value,
            "compression-method" = Value,
            "filesync"
        ],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    let operands = reading.operands();
    let Some((archive, files)) = operands.split_first() else { return reading.done() };
    if reading.text(*archive) != Some("-") {
        reading.add(EffectKind::Write, On::Arg(*archive));
    }
    // `-m` moves into the archive; with `-d` the operands are names inside of it.
    if reading.has(&["m", "move"]) {
        reading.each(EffectKind::Delete, files);
    } else if !reading.has(&["d", "delete"]) {
        reading.each(EffectKind::Read, files);
    }
    reading.each_value(EffectKind::Write, &["O", "output-file"]);
    reading.depart(DepartureKind::Program, &["unzip-command"]);
    // `-TT command` reads as two `T` to a grammar of letters.
    let test = invocation.args.iter().position(|arg| arg.prefix().starts_with("-TT"));
    reading.meaning.departures.extend(test.map(|at| (DepartureKind::Program, at)));
    let attached = |at: usize| invocation.args[at].prefix().len() > "-TT".len();
    let text = test.and_then(|at| match attached(at) {
        true => Some(tail(&invocation.args[at], "-TT".len())),
        false => invocation.args.get(at + 1).cloned(),
    });
    let named = reading.values(&["unzip-command"]).first().and_then(|place| place.value(invocation.args));
    reading.meaning.inner.extend(super::shell_inner(text.or(named)));
    reading.done()
}

fn seven_zip(invocation: &Invocation<'_>) -> Option<Meaning> {
    if asks_for_help(invocation.args) {
        return Some(Meaning::default());
    }
    let (at, verb) = first_word(invocation.args)?;
    let is_file = |arg: &&Arg| !arg.prefix().starts_with('-');
    let archive =
        invocation.args.iter().skip(at + 1).position(|arg| is_file(&arg)).map(|found| found + at + 1)?;
    Some(match verb {
        "a" | "u" | "d" | "rn" | "m" => deeds([(EffectKind::Write, On::Arg(archive))]),
        "x" | "e" => {
            let into = invocation.args.iter().position(|arg| arg.prefix().starts_with("-o"));
            let into = into.map_or(On::Path(".".to_owned(), Some(archive)), |at| On::Tail(at, 2));
            deeds([(EffectKind::Read, On::Arg(archive)), (EffectKind::Write, into)])
        }
        _ => deeds([(EffectKind::Read, On::Arg(archive))]),
    })
}

fn archiver(invocation: &Invocation<'_>) -> Option<Meaning> {
    if asks_for_help(invocation.args) || invocation.args.len() < 2 {
        return Some(Meaning::default());
    }
    let operation = invocation.args[0].prefix().trim_start_matches('-');
    Some(if operation.starts_with('x') {
        deeds([(EffectKind::Read, On::Arg(1)), (EffectKind::Write, On::Path(".".to_owned(), Some(1)))])
    } else if operation.starts_with(['t', 'p']) {
        deeds([(EffectKind::Read, On::Arg(1))])
    } else {
        deeds([(EffectKind::Write, On::Arg(1))])
    })
}

fn cpio(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "0aAbBcdfikLlmnoprsStuvV",
        values: "CDEFHIMOR",
        long: long![
            "extract",
            "create",
            "pass-through",
            "list",
            "make-directories",
            "unconditional",
            "verbose",
            "null",
            "file" = Value,
            "directory" = Value,
            "rsh-command" = Value,
            "format" = Value,
            "quiet",
            "no-absolute-filenames",
            "preserve-modification-time",
            "to-stdout",
            "dereference",
            "link",
            "owner" = Value,
            "pattern-file" = Value
        ],
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    reading.depart(DepartureKind::Program, &["rsh-command"]);
    if reading.has(&["i", "extract"]) && !reading.has(&["t", "list", "to-stdout"]) {
        let into = reading.values(&["D", "directory"]).pop();
        let into = into.map_or(On::Path(".".to_owned(), None), |place| place.on(invocation.args));
        reading.add(EffectKind::Write, into);
    }
    if reading.has(&["p", "pass-through"]) {
        reading.each(EffectKind::Write, &reading.operands());
    }
    let archive = if reading.has(&["o", "create"]) { EffectKind::Write } else { EffectKind::Read };
    reading.each_value(archive, &["F", "file", "O", "I"]);
    reading.done()
}
