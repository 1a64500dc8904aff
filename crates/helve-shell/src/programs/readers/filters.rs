//! Filters of text: `cat`, `grep`, `sort`, `cut` and their kind.

use super::table::{Does, Operands, Table};
use crate::analysis::DepartureKind;
use crate::programs::options::Grammar;

/// The tables of this module.
pub(super) const TABLES: &[Table] = &[
    Table {
        names: &["cat", "zcat", "bzcat", "xzcat", "zstdcat", "gzcat"],
        grammar: Grammar {
            flags: "AbeEnstTuvfqklS",
            names: &[
                "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting force \
                quiet",
            ],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["head"],
        grammar: Grammar {
            flags: "qvz",
            values: "cn",
            names: &["bytes= lines= quiet silent verbose zero-terminated"],
            numbers: true,
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["tail"],
        grammar: Grammar {
            flags: "fFqvzrb",
            values: "cns",
            names: &["bytes= lines= follow? pid= quiet silent retry max-unchanged-stats= sleep-interval= \
                verbose zero-terminated"],
            numbers: true,
            ..Grammar::NONE
        },
        operands: Operands::PathsBut(is_line_number),
        ..Table::NONE
    },
    Table {
        names: &["wc"],
        grammar: Grammar {
            flags: "clLmw",
            names: &["bytes chars lines words max-line-length files0-from= total="],
            ..Grammar::NONE
        },
        values: &[("files0-from", Does::Read)],
        operands: Operands::Paths,
        ..Table::NONE
    },
    GREP,
    SORT,
    Table {
        names: &["uniq"],
        grammar: Grammar {
            flags: "cdDiuz",
            values: "fsw",
            names: &["count repeated all-repeated? group? ignore-case unique zero-terminated skip-fields= \
                skip-chars= check-chars="],
            numbers: true,
            ..Grammar::NONE
        },
        operands: Operands::InputThenOutput,
        ..Table::NONE
    },
    Table {
        names: &["cut"],
        grammar: Grammar {
            flags: "nswz",
            values: "bcdfO",
            names: &["bytes= characters= delimiter= fields= only-delimited complement output-delimiter= \
                whitespace-delimited zero-terminated"],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["tr"],
        grammar: Grammar {
            flags: "cCdstu",
            names: &["complement delete squeeze-repeats truncate-set1"],
            ..Grammar::NONE
        },
        ..Table::NONE
    },
    Table {
        names: &["nl"],
        grammar: Grammar {
            flags: "p",
            values: "bdfhilnsvw",
            names: &[
                "body-numbering= section-delimiter= footer-numbering= header-numbering= line-increment= \
                join-blank-lines= number-format= no-renumber number-separator= starting-line-number= \
                number-width=",
            ],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["tac"],
        grammar: Grammar { flags: "br", values: "s", names: &["before regex separator="], ..Grammar::NONE },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["rev"],
        grammar: Grammar { flags: "0hV", names: &["zero"], ..Grammar::NONE },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["column"],
        grammar: Grammar {
            flags: "deJLmtx",
            values: "CcEHilNnOopRrSsTW",
            names: &["table table-name= table-order= table-columns= table-column= table-columns-limit= \
                table-noextreme= table-noheadings table-maxout table-header-repeat table-hide= \
                table-right= table-truncate= table-wrap= keep-empty-lines json tree= tree-id= \
                tree-parent= output-width= output-separator= separator= fillrows"],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["paste"],
        grammar: Grammar {
            flags: "sz",
            values: "d",
            names: &["delimiters= serial zero-terminated"],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["join"],
        grammar: Grammar {
            flags: "iz",
            values: "12aejotv",
            names: &["ignore-case check-order nocheck-order header zero-terminated"],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["fold", "fmt", "expand", "unexpand"],
        grammar: Grammar {
            flags: "bscuai",
            values: "wgpt",
            names: &[
                "bytes characters spaces width= goal= prefix= crown-margin split-only tagged-paragraph \
                uniform-spacing initial all first-only tabs=",
            ],
            numbers: true,
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["comm"],
        grammar: Grammar {
            flags: "123iz",
            names: &["check-order nocheck-order output-delimiter= total zero-terminated"],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["cmp"],
        grammar: Grammar {
            flags: "blszhx",
            values: "in",
            names: &["print-bytes ignore-initial= verbose bytes= quiet silent"],
            ..Grammar::NONE
        },
        operands: Operands::SomePaths(2),
        ..Table::NONE
    },
    DIFF,
    Table {
        names: &["shuf"],
        grammar: Grammar {
            flags: "erz",
            values: "ino",
            names: &["echo input-range= head-count= output= random-source= repeat zero-terminated"],
            ..Grammar::NONE
        },
        values: &[("o", Does::Write), ("output", Does::Write), ("random-source", Does::Read)],
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["iconv"],
        grammar: Grammar {
            flags: "clsV",
            values: "fto",
            names: &["from-code= to-code= list output= silent verbose"],
            ..Grammar::NONE
        },
        values: &[("o", Does::Write), ("output", Does::Write)],
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["base64", "base32", "basenc"],
        grammar: Grammar {
            flags: "dDi",
            values: "wbo",
            names: &["decode ignore-garbage wrap= break= output= input= base64 base64url base32 base32hex \
                base16 base2msbf base2lsbf z85"],
            ..Grammar::NONE
        },
        values: &[("o", Does::Write), ("output", Does::Write), ("input", Does::Read)],
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["less", "more", "zless", "zmore", "most"],
        grammar: Grammar {
            flags: "aABcCdeEfFgGiIJKLmMnNqQrRsSuUvVwWX~l",
            values: "bDhjkoOpPtTxyz",
            names: &["quit-if-one-screen quit-at-eof QUIT-AT-EOF chop-long-lines raw-control-chars \
                RAW-CONTROL-CHARS no-init ignore-case IGNORE-CASE line-numbers LINE-NUMBERS \
                squeeze-blank-lines silent force pattern= tabs= tag= tag-file= prompt= log-file= \
                LOG-FILE= lesskey-file= lesskey-src= lesskey-content= lesskey-context= file-size \
                follow-name incsearch line-num-width= mouse no-keypad no-histdups rscroll= save-marks \
                status-col-width= use-backslash use-color wheel-lines="],
            numbers: true,
            ..Grammar::NONE
        },
        values: &[
            ("o", Does::Write),
            ("O", Does::Write),
            ("log-file", Does::Write),
            ("LOG-FILE", Does::Write),
            ("k", Does::Configure),
            ("lesskey-file", Does::Configure),
            ("lesskey-src", Does::Configure),
            ("lesskey-content", Does::Configure),
            ("lesskey-context", Does::Configure),
        ],
        operands: Operands::PathsBut(is_pager_command),
        ..Table::NONE
    },
];

const GREP: Table = Table {
    names: &[
        "grep", "egrep", "fgrep", "zgrep", "zegrep", "zfgrep", "bzgrep", "xzgrep", "zstdgrep", "rgrep",
        "ggrep",
    ],
    grammar: Grammar {
        flags: "EFGPiwxvysznHhoqrRLlcbaIUTZuVSOp",
        values: "efmABCDd",
        names: &["extended-regexp fixed-strings basic-regexp perl-regexp regexp= file= ignore-case \
            no-ignore-case word-regexp line-regexp null-data no-messages invert-match max-count= \
            byte-offset line-number line-buffered with-filename no-filename label= only-matching quiet \
            silent binary-files= binary text directories= devices= recursive dereference-recursive \
            include= include-dir= exclude= exclude-from= exclude-dir= files-without-match \
            files-with-matches count initial-tab null before-context= after-context= context= \
            group-separator= no-group-separator color? colour? unix-byte-offsets"],
        numbers: true,
        ..Grammar::NONE
    },
    values: &[("f", Does::Read), ("file", Does::Read), ("exclude-from", Does::Read)],
    operands: Operands::PatternThenPaths(&["e", "regexp", "f", "file"]),
    ..Table::NONE
};

const SORT: Table = Table {
    names: &["sort", "gsort"],
    grammar: Grammar {
        flags: "bdfghiMnRrVcCmsuz",
        values: "koSTt",
        // On some systems `-y` takes a number, and gives anything else back.
        optional: "y",
        names: &[
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting \
            month-sort human-numeric-sort numeric-sort random-sort random-source= reverse sort= \
            version-sort batch-size= check? compress-program= debug files0-from= key= merge output= \
            stable buffer-size= field-separator= temporary-directory= parallel= unique zero-terminated",
        ],
        numbers: true,
        ..Grammar::NONE
    },
    values: &[
        ("o", Does::Write),
        ("output", Does::Write),
        ("compress-program", Does::Run),
        ("files0-from", Does::Read),
        ("random-source", Does::Read),
    ],
    operands: Operands::Paths,
    ..Table::NONE
};

const DIFF: Table = Table {
    names: &["diff", "colordiff"],
    grammar: Grammar {
        flags: "abBcdeEfiHlnNpPqrstTuvwyZ",
        values: "CUFIWxXDLS",
        names: &[
            "normal brief report-identical-files context? unified? ed rcs side-by-side width= left-column \
            suppress-common-lines show-c-function show-function-line= label= expand-tabs initial-tab \
            tabsize= suppress-blank-empty paginate recursive no-dereference new-file \
            unidirectional-new-file ignore-file-name-case no-ignore-file-name-case exclude= \
            exclude-from= starting-file= from-file= to-file= ignore-case ignore-tab-expansion \
            ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines \
            ignore-matching-lines= text strip-trailing-cr ifdef= old-group-format= new-group-format= \
            changed-group-format= unchanged-group-format= line-format= old-line-format= new-line-format= \
            unchanged-line-format= minimal horizon-lines= speed-large-files color? palette=",
        ],
        numbers: true,
        ..Grammar::NONE
    },
    values: &[
        ("X", Does::Read),
        ("exclude-from", Does::Read),
        ("from-file", Does::Read),
        ("to-file", Does::Read),
    ],
    operands: Operands::Paths,
    ..Table::NONE
};

/// `tail +5`.
fn is_line_number(operand: &str) -> bool {
    operand.strip_prefix('+').is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}

/// `less +G`.
fn is_pager_command(operand: &str) -> bool {
    operand.starts_with('+')
}

/// Where a pager is told to run a command, save a log or take options at its start, as in `less +!sh`.
pub(super) fn pager_command(text: &str) -> Option<DepartureKind> {
    let command = text.strip_prefix('+')?;
    let command = command.strip_prefix('+').unwrap_or(command);
    let moves = command.starts_with(|first: char| first.is_ascii_digit() || "GgF/?".contains(first));
    (!moves && !command.is_empty()).then_some(DepartureKind::Code)
}
