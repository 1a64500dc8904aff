//! Programs that list and describe files: `ls`, `stat`, `du`, `xxd`, checksums.

use super::table::{Does, Operands, Table};
use crate::analysis::DepartureKind;
use crate::programs::options::Grammar;

/// The tables of this module.
pub(super) const TABLES: &[Table] = &[
    Table {
        names: &["ls", "dir", "vdir", "gls", "ll"],
        grammar: Grammar {
            flags: "aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1@eO%W",
            values: "ITw",
            names: &[
                "all almost-all author escape block-size= ignore-backups color? colour? directory dired \
                classify? file-type format= full-time group-directories-first no-group human-readable si \
                dereference-command-line dereference-command-line-symlink-to-dir hide= hyperlink? \
                indicator-style= inode ignore= kibibytes dereference numeric-uid-gid literal \
                hide-control-chars show-control-chars quote-name quoting-style= reverse recursive size \
                sort= time= time-style= tabsize= width= context zero",
            ],
            ..Grammar::NONE
        },
        operands: Operands::PathsOrHere,
        ..Table::NONE
    },
    Table {
        names: &["stat"],
        grammar: Grammar {
            flags: "Lftxlnqrs",
            values: "cF",
            names: &["dereference file-system format= printf= terse cached="],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["file"],
        grammar: Grammar {
            flags: "bcCdEhiIkLlNnprsSvzZ0",
            values: "eFfmPM",
            names: &[
                "brief checking-printout compile dereference no-dereference mime mime-type mime-encoding \
                extension apple keep-going list no-pad no-buffer preserve-date raw special-files \
                uncompress uncompress-noreport print0 exclude= separator= files-from= magic-file= \
                parameter=",
            ],
            ..Grammar::NONE
        },
        values: &[
            ("f", Does::Read),
            ("files-from", Does::Read),
            ("m", Does::Read),
            ("magic-file", Does::Read),
        ],
        // It writes a compiled magic file beside the one that it reads.
        flags: &[("C", DepartureKind::Output), ("compile", DepartureKind::Output)],
        operands: Operands::Paths,
    },
    Table {
        names: &["du"],
        grammar: Grammar {
            flags: "0abcDhHklLmPsSxgn",
            values: "BdtXI",
            names: &[
                "null all apparent-size block-size= bytes total dereference-args max-depth= files0-from= \
                human-readable inodes dereference count-links no-dereference separate-dirs si summarize \
                threshold= time? time-style= exclude-from= exclude= one-file-system",
            ],
            ..Grammar::NONE
        },
        values: &[("X", Does::Read), ("exclude-from", Does::Read), ("files0-from", Does::Read)],
        operands: Operands::PathsOrHere,
        ..Table::NONE
    },
    Table {
        names: &["df"],
        grammar: Grammar {
            flags: "aHhiklmPTvgnYIb",
            values: "Btx",
            names: &[
                "all block-size= human-readable si inodes local no-sync output? portability sync total \
                type= print-type exclude-type=",
            ],
            ..Grammar::NONE
        },
        ..Table::NONE
    },
    TREE,
    Table {
        names: &["readlink", "realpath"],
        grammar: Grammar {
            flags: "emfnqsvzELP",
            names: &[
                "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose \
                zero logical physical strip no-symlinks relative-to= relative-base=",
            ],
            ..Grammar::NONE
        },
        ..Table::NONE
    },
    Table {
        names: &[
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "b2sum",
            "b3sum",
            "cksum",
            "sum",
            "shasum",
            "md5",
            "crc32",
        ],
        grammar: Grammar {
            flags: "bctwzqrsU",
            values: "al",
            names: &[
                "binary check tag text zero ignore-missing quiet status strict warn algorithm= length= \
                untagged base64 raw sysv",
            ],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["od", "hexdump", "hd", "strings", "hexyl"],
        grammar: Grammar {
            flags: "abcCdDfFhiIlLoOsvVwWxXB",
            values: "AejNnSTtUp",
            names: &["address-radix= endian= skip-bytes= read-bytes= format= strings? traditional width? \
                output-duplicates canonical length= skip= no-squeezing all data print-file-name bytes= \
                radix= target= encoding= unicode= output-separator= include-all-whitespace \
                one-byte-octal one-byte-char two-bytes-decimal two-bytes-octal two-bytes-hex color?"],
            numbers: true,
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["xxd"],
        grammar: Grammar {
            flags: "abCdEehiprtuv",
            values: "cglnosR",
            names: &["ps plain postscript revert include bits autoskip uppercase capitalize decimal cols= \
                groupsize= len= name= offset= seek= skip="],
            single_dash: true,
            ..Grammar::NONE
        },
        operands: Operands::InputThenOutput,
        ..Table::NONE
    },
    Table {
        names: &["bat", "batcat"],
        grammar: Grammar {
            flags: "AnpPSfulLrdhV",
            values: "lHm",
            names: &["show-all plain language= highlight-line= file-name= diff tabs= wrap= number color= \
                italic-text= decorations= paging= pager= map-syntax= theme= list-themes style= \
                line-range= list-languages no-config unbuffered"],
            ..Grammar::NONE
        },
        values: &[("pager", Does::Shell)],
        operands: Operands::Paths,
        ..Table::NONE
    },
];

const TREE: Table = Table {
    names: &["tree"],
    grammar: Grammar {
        flags: "adflxRACSnNqQpshDFrtcUviuJXgk",
        values: "LPIHTo",
        names: &["noreport charset= filelimit= dirsfirst filesfirst sort= ignore-case matchdirs metafirst \
            prune gitignore gitfile= info infofile= si du timefmt= inodes device nolinks fromfile \
            fromtabfile fflinks hintro= houtro= compress hyperlink scheme= authority= opt-toggle"],
        ..Grammar::NONE
    },
    values: &[
        ("o", Does::Write),
        ("gitfile", Does::Read),
        ("infofile", Does::Read),
        ("hintro", Does::Read),
        ("houtro", Does::Read),
    ],
    // It writes a page into each directory at the depth where it stops.
    flags: &[("R", DepartureKind::Output)],
    operands: Operands::PathsOrHere,
};
