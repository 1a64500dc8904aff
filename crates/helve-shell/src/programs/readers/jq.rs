//! `jq`: a filter, then files. Filters start no programs and write no files.

use crate::analysis::DepartureKind;
use crate::programs::options::{Grammar, Item, read};
use crate::programs::{Invocation, Meaning, On};

const JQ: Grammar = Grammar {
    flags: "nrRcsCMaSejhVb",
    values: "fL",
    names: &["null-input raw-input raw-output raw-output0 join-output ascii-output compact-output slurp \
        color-output monochrome-output sort-keys exit-status tab indent= unbuffered stream stream-errors \
        seq binary args jsonargs build-configuration from-file= library-path= arg= argjson= slurpfile= \
        rawfile= argfile="],
    ..Grammar::NONE
};

/// What `jq` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let mut filter_given = false;
    let mut rest_is_text = false;
    // The second value of `--arg NAME VALUE` looks like an operand to the grammar.
    let mut second: Option<(usize, bool)> = None;
    for item in read(invocation.args, &JQ) {
        match item {
            Item::Unknown(at) => meaning.departs(DepartureKind::UnknownOption, at),
            Item::Value("f" | "from-file", place) => {
                meaning.reads(place.on(invocation.args));
                filter_given = true;
            }
            Item::Value("arg" | "argjson", place) => second = Some((place.arg + 1, false)),
            Item::Value("slurpfile" | "rawfile" | "argfile", place) => second = Some((place.arg + 1, true)),
            Item::Flag("args" | "jsonargs", _) => rest_is_text = true,
            Item::Operand(at) | Item::Maybe(at) => match second {
                Some((value, is_file)) if value == at => {
                    if is_file {
                        meaning.reads(On::Arg(at));
                    }
                }
                _ if !filter_given => filter_given = true,
                _ if rest_is_text => {}
                _ => meaning.reads(On::Arg(at)),
            },
            _ => {}
        }
    }
    meaning
}
