//! `rg` and `fd`.

use super::table::{Does, Operands, Table, apply};
use crate::Span;
use crate::analysis::{Arg, ArgPart, DepartureKind, More};
use crate::programs::options::{Grammar, Item, Order, read, tail};
use crate::programs::{Invocation, Meaning, On};

/// `rg`.
pub(super) fn rg(invocation: &Invocation<'_>) -> Meaning {
    apply(&RG, invocation)
}

const RG: Table = Table {
    names: &["rg"],
    grammar: Grammar {
        flags: "abcFhHIilLnNopPqsSuUvVwxz0.",
        values: "ABCdEefgjmMrtT",
        names: &[RG_LONG],
        ..Grammar::NONE
    },
    values: &[
        ("f", Does::Read),
        ("file", Does::Read),
        ("ignore-file", Does::Read),
        ("pre", Does::Run),
        ("hostname-bin", Does::Run),
    ],
    // It runs the programs that decompress.
    flags: &[("z", DepartureKind::Program), ("search-zip", DepartureKind::Program)],
    operands: Operands::PatternThenPaths(&["e", "regexp", "f", "file", "files", "type-list"]),
};

const RG_LONG: &str = "after-context= auto-hybrid-regex no-auto-hybrid-regex before-context= binary no-binary \
    block-buffered no-block-buffered byte-offset no-byte-offset case-sensitive color= colors= column \
    no-column context= context-separator= no-context-separator count count-matches crlf no-crlf debug \
    dfa-size-limit= encoding= no-encoding engine= field-context-separator= field-match-separator= file= \
    files files-with-matches files-without-match fixed-strings no-fixed-strings follow no-follow \
    generate= glob= glob-case-insensitive no-glob-case-insensitive heading no-heading hidden no-hidden \
    hostname-bin= hyperlink-format= iglob= ignore ignore-case ignore-dot ignore-exclude ignore-file= \
    ignore-file-case-insensitive no-ignore-file-case-insensitive ignore-files ignore-global \
    ignore-messages ignore-parent ignore-vcs include-zero no-include-zero invert-match no-invert-match \
    json no-json line-buffered no-line-buffered line-number no-line-number line-regexp max-columns= \
    max-columns-preview no-max-columns-preview max-count= max-depth= maxdepth= max-filesize= messages \
    mmap no-mmap multiline no-multiline multiline-dotall no-multiline-dotall no-config no-filename \
    no-ignore no-ignore-dot no-ignore-exclude no-ignore-files no-ignore-global no-ignore-messages \
    no-ignore-parent no-ignore-vcs no-messages no-require-git require-git no-unicode unicode null \
    null-data one-file-system no-one-file-system only-matching passthru passthrough path-separator= \
    pcre2 no-pcre2 pcre2-version pre= no-pre pre-glob= pretty quiet regex-size-limit= regexp= replace= \
    search-zip no-search-zip smart-case sort= sortr= sort-files stats no-stats stop-on-nonmatch text \
    no-text threads= trace trim no-trim type= type-add= type-clear= type-list type-not= unrestricted \
    vimgrep with-filename word-regexp";

const FD: Grammar = Grammar {
    flags: "HIusigFapL0lq1hV",
    values: "dtecSEjxXo",
    names: &["hidden no-ignore no-ignore-vcs no-ignore-parent no-global-ignore-file no-require-git \
        unrestricted case-sensitive ignore-case glob regex fixed-strings and= absolute-path list-details \
        follow full-path print0 max-depth= min-depth= exact-depth= exclude= prune type= extension= size= \
        changed-within= changed-before= newer= older= owner= format= batch-size= ignore-file= color= \
        hyperlink? threads= max-results= quiet show-errors base-directory= path-separator= search-path= \
        strip-cwd-prefix? one-file-system mount exec= exec-batch="],
    order: Order::Mixed,
    ..Grammar::NONE
};

/// `fd`: its `-x` and `-X` take the rest of the arguments as a command.
pub(super) fn fd(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let args = invocation.args;
    let items = read(args, &FD);
    let executes = items.iter().find_map(|item| match item {
        Item::Value("x" | "X" | "exec" | "exec-batch", place) => Some(*place),
        _ => None,
    });
    let end = executes.map_or(args.len(), |place| place.option);
    for item in &items {
        match *item {
            Item::Unknown(at) if at < end => meaning.departs(DepartureKind::UnknownOption, at),
            Item::Maybe(at) | Item::Open(at) if at < end => {
                meaning.departs(DepartureKind::PossibleOption, at);
            }
            _ => {}
        }
    }
    let operands = items.iter().filter_map(|item| match *item {
        Item::Operand(at) | Item::Maybe(at) if at < end => Some(at),
        _ => None,
    });
    let paths: Vec<usize> = operands.skip(1).collect();
    paths.iter().for_each(|at| meaning.reads(On::Arg(*at)));
    if paths.is_empty() {
        meaning.reads(On::Path(".".to_owned(), None));
    }
    if let Some(place) = executes {
        let span = args.get(place.option).map_or(Span { start: 0, end: 0 }, |arg| arg.span);
        let parts = vec![ArgPart::Known("./".to_owned()), ArgPart::Unknown];
        let path = Arg { parts, span, splits: false };
        let mut command: Vec<Arg> =
            args.get(place.arg).map(|arg| tail(arg, place.skip)).into_iter().collect();
        command
            .extend(invocation.from(place.arg + 1).iter().take_while(|arg| arg.text() != Some(";")).cloned());
        let (command, named) = super::find::with_paths(&command, &[path]);
        let more = if named { More::Nothing } else { More::Paths };
        meaning.runs_detached(command, more);
    } else if invocation.more == More::Anything {
        meaning.departs(DepartureKind::PossibleOption, args.len());
    }
    meaning
}
