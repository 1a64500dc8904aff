//! `tar`: one function, an archive, members, and options that start programs.

use super::MAX_JOINED;
use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, Place, brings_option, read_from};
use crate::programs::{Invocation, Meaning, On};

const FLAGS: &str = "AcdrtuxGnSkUWOpsBiMajJzZhlmoPRvwyq01234567?";
const VALUES: &str = "bCfFgHIKLNTVX";

const TAR: Grammar = Grammar {
    flags: FLAGS,
    values: VALUES,
    names: &["catenate concatenate create delete diff compare append list test-label update extract get \
        check-device no-check-device listed-incremental= incremental ignore-failed-read level= seek \
        no-seek occurrence? sparse sparse-version= hole-detection= keep-old-files keep-newer-files \
        keep-directory-symlink no-overwrite-dir one-top-level? overwrite overwrite-dir recursive-unlink \
        remove-files skip-old-files unlink-first verify ignore-command-error no-ignore-command-error \
        to-stdout to-command= atime-preserve? delay-directory-restore no-delay-directory-restore group= \
        group-map= mode= mtime= clamp-mtime touch owner= owner-map= numeric-owner same-owner \
        no-same-owner same-permissions preserve-permissions no-same-permissions preserve-order \
        same-order sort= acls no-acls selinux no-selinux xattrs no-xattrs xattrs-include= \
        xattrs-exclude= force-local file= info-script= new-volume-script= tape-length= multi-volume \
        rmt-command= rsh-command= volno-file= blocking-factor= record-size= ignore-zeros \
        read-full-records format= old-archive portability posix pax-option= label= auto-compress \
        no-auto-compress use-compress-program= bzip2 xz lzip lzma lzop zstd gzip gunzip ungzip compress \
        uncompress add-file= backup? suffix= directory= exclude= exclude-backups exclude-caches \
        exclude-caches-all exclude-caches-under exclude-from= exclude-ignore= exclude-ignore-recursive= \
        exclude-tag= exclude-tag-all= exclude-tag-under= exclude-vcs exclude-vcs-ignores dereference \
        hard-dereference starting-file= newer= after-date= newer-mtime= null no-null one-file-system \
        absolute-names recursion no-recursion files-from= unquote no-unquote verbatim-files-from \
        no-verbatim-files-from anchored no-anchored ignore-case no-ignore-case wildcards no-wildcards \
        wildcards-match-slash no-wildcards-match-slash strip-components= transform= xform= checkpoint? \
        checkpoint-action= full-time? index-file= check-links block-number totals? utc? verbose warning= \
        interactive confirmation quote-chars= no-quote-chars= quoting-style= show-defaults show-omitted-dirs \
        show-snapshot-field-ranges show-transformed-names show-stored-names restrict usage fast-read"],
    ..Grammar::NONE
};

/// What an argv of `tar` asks for.
#[derive(Default)]
struct Request {
    /// Whether the archive is written, and where that is said.
    writes: Option<usize>,
    /// Whether members are written to the file system, and where that is said.
    extracts: Option<usize>,
    to_stdout: bool,
    absolute: bool,
    local: bool,
    /// A volume each.
    archives: Vec<Place>,
    directories: Vec<Place>,
    members: Vec<usize>,
}

/// What `tar` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let mut request = Request::default();
    let first = old_style(invocation, &mut meaning, &mut request);
    let items = read_from(args, first, &TAR);
    meaning.notes_doubts(&items, invocation);
    for item in items {
        match item {
            Item::Flag(name, at) => function(&mut meaning, &mut request, name, at),
            Item::Value(name, place) => value(&mut meaning, &mut request, args, name, place),
            Item::Operand(at) | Item::Maybe(at) => request.members.push(at),
            Item::End(_) | Item::Unknown(_) | Item::Open(_) | Item::Stray(_) => {}
        }
    }
    finish(&mut meaning, &request, invocation);
    meaning
}

/// `tar czf ARCHIVE`: letters without a dash, their values behind; gives the index of the first argument after them.
fn old_style(invocation: &Invocation<'_>, meaning: &mut Meaning, request: &mut Request) -> usize {
    let args = invocation.args;
    let Some(letters) = invocation.text(0).filter(|text| !text.is_empty() && !text.starts_with('-')) else {
        return 0;
    };
    let mut next = 1;
    // A letter counts once, so that a long word costs no more than a short one.
    let mut seen = [false; 128];
    for letter in letters.chars() {
        let index = letter as usize;
        let repeated = seen.get(index).copied().unwrap_or(true);
        if let Some(slot) = seen.get_mut(index) {
            *slot = true;
        }
        if let Some(start) = FLAGS.find(letter) {
            if !repeated {
                function(meaning, request, &FLAGS[start..=start], 0);
            }
        } else if let Some(start) = VALUES.find(letter) {
            value(meaning, request, args, &VALUES[start..=start], Place { option: 0, arg: next, skip: 0 });
            if args.get(next).is_some_and(brings_option) {
                meaning.departs(DepartureKind::PossibleOption, next);
            }
            next += 1;
        } else {
            meaning.departs(DepartureKind::UnknownOption, 0);
        }
    }
    next.min(args.len())
}

fn function(meaning: &mut Meaning, request: &mut Request, name: &'static str, at: usize) {
    match name {
        "A" | "catenate" | "concatenate" | "c" | "create" | "r" | "append" | "u" | "update" | "delete" => {
            request.writes = Some(at);
        }
        "x" | "extract" | "get" => request.extracts = Some(at),
        "O" | "to-stdout" => request.to_stdout = true,
        "P" | "absolute-names" => request.absolute = true,
        "force-local" => request.local = true,
        "remove-files" | "recursive-unlink" => meaning.departs(DepartureKind::Change, at),
        _ => {}
    }
    if name == "remove-files" {
        meaning.does(EffectKind::Delete, On::Unknown(Some(at)));
    }
}

fn value(meaning: &mut Meaning, request: &mut Request, args: &[Arg], name: &'static str, place: Place) {
    match name {
        "f" | "file" => request.archives.push(place),
        "C" | "directory" => request.directories.push(place),
        "T" | "files-from" => {
            meaning.reads(place.on(args));
            // Lines that start with a dash are options.
            meaning.departs(DepartureKind::Configuration, place.option);
        }
        "X" | "exclude-from" | "owner-map" | "group-map" | "add-file" => meaning.reads(place.on(args)),
        "g" | "listed-incremental" | "index-file" | "volno-file" => meaning.writes_option(args, place),
        "I" | "use-compress-program" | "F" | "info-script" | "new-volume-script" | "to-command" => {
            meaning.runs_option_text(args, place);
        }
        "rsh-command" | "rmt-command" => meaning.runs_program(args, place),
        "checkpoint-action" => checkpoint(meaning, args, place),
        _ => {}
    }
}

/// `--checkpoint-action=exec=COMMAND`; others print or wait.
fn checkpoint(meaning: &mut Meaning, args: &[Arg], place: Place) {
    let known = place.prefix(args);
    if let Some(behind) = known.strip_prefix("exec=") {
        let skip = place.skip + (known.len() - behind.len());
        meaning.runs_option_text(args, Place { skip, ..place });
        return;
    }
    let names = ["bell", "dot", ".", "echo", "echo=", "ttyout=", "sleep=", "totals", "wait="];
    let harmless = match place.text(args) {
        Some(text) => {
            names.iter().any(|name| text == *name || (name.ends_with('=') && text.starts_with(name)))
        }
        None => false,
    };
    if !harmless {
        meaning.departs(DepartureKind::Program, place.option);
        meaning.hides(OpaqueReason::UnknownText, Some(place.option));
    }
}

fn finish(meaning: &mut Meaning, request: &Request, invocation: &Invocation<'_>) {
    let args = invocation.args;
    for archive in request.archives.iter().copied() {
        let host = archive.text(args).and_then(|text| text.split_once(':')).map(|(host, _)| host);
        if let Some(host) = host.filter(|host| !request.local && !host.contains('/')) {
            meaning.departs(DepartureKind::Network, archive.option);
            meaning.does(EffectKind::Connect, On::Host(host.to_owned(), Some(archive.option)));
            continue;
        }
        if !request.local && may_name_host(archive, args) {
            meaning.departs(DepartureKind::Network, archive.option);
            meaning.does(EffectKind::Connect, On::Unknown(Some(archive.option)));
        }
        if request.writes.is_some() {
            meaning.writes_option(args, archive);
        } else if archive.text(args) != Some("-") {
            meaning.reads(archive.on(args));
        }
    }
    let Some(entered) = entered(request, args) else {
        return meaning.hides(OpaqueReason::TooComplex, None);
    };
    if request.writes.is_some() {
        entered.iter().for_each(|directory| meaning.reads(directory.on.clone()));
        members(meaning, request, &entered, invocation);
        if invocation.more != More::Nothing {
            meaning.reads(On::Unknown(None));
        }
    }
    if let Some(at) = request.extracts.filter(|_| !request.to_stdout) {
        meaning.departs(DepartureKind::Output, at);
        if request.absolute {
            meaning.writes(On::Unknown(Some(at)));
        }
        entered.iter().for_each(|directory| meaning.writes(directory.on.clone()));
        if request.directories.is_empty() {
            meaning.writes(On::Path(".".to_owned(), Some(at)));
        }
    }
}

/// Whether an archive of which not even the start is known may turn out to be `host:file`.
fn may_name_host(archive: Place, args: &[Arg]) -> bool {
    archive.value(args).is_some_and(|value| matches!(value.parts.first(), Some(ArgPart::Unknown)))
}

/// A directory that `tar` goes into.
struct Entered {
    /// Where that is said.
    option: usize,
    on: On,
    /// Its path, if it is certain.
    path: Option<String>,
}

/// The directories of `-C`, each seen from the one before it; none if their paths take too much.
fn entered(request: &Request, args: &[Arg]) -> Option<Vec<Entered>> {
    let mut joined = 0;
    let mut entered: Vec<Entered> = Vec::with_capacity(request.directories.len());
    for place in &request.directories {
        let (text, option) = (place.text(args), place.option);
        let before = entered.last().filter(|_| !place.prefix(args).starts_with('/'));
        let (on, path) = match (before.map(|before| before.path.as_deref()), text) {
            (None, text) => (place.on(args), text.map(str::to_owned)),
            (Some(Some(before)), Some(text)) => {
                joined += before.len() + text.len();
                let path = below(before, text);
                (On::Path(path.clone(), Some(place.arg)), Some(path))
            }
            (Some(_), _) => (On::Unknown(Some(place.arg)), None),
        };
        if joined > MAX_JOINED {
            return None;
        }
        entered.push(Entered { option, on, path });
    }
    Some(entered)
}

/// The members of an archive that is written: each is taken from the directory that stands before it.
fn members(meaning: &mut Meaning, request: &Request, entered: &[Entered], invocation: &Invocation<'_>) {
    let mut joined = 0;
    for at in request.members.iter().copied() {
        let directory = entered.partition_point(|directory| directory.option < at).checked_sub(1);
        let directory = directory.and_then(|index| entered.get(index));
        match (directory, invocation.text(at)) {
            (None, _) => meaning.reads(On::Arg(at)),
            (Some(_), Some(name)) if name.starts_with('/') => meaning.reads(On::Arg(at)),
            (Some(Entered { path: Some(directory), .. }), Some(name)) => {
                joined += directory.len() + name.len();
                if joined > MAX_JOINED {
                    return meaning.hides(OpaqueReason::TooComplex, Some(at));
                }
                meaning.perhaps.push(On::Path(below(directory, name), Some(at)));
            }
            _ => meaning.perhaps.push(On::Unknown(Some(at))),
        }
    }
}

fn below(directory: &str, path: &str) -> String {
    format!("{}/{path}", directory.trim_end_matches('/'))
}
