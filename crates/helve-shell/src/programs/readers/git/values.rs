//! The arguments behind a subcommand that changes something: options, with what may be their values, and operands.
//!
//! Only options that have a value stand in a table here: any other option is a flag and takes no argument along. What a
//! value is follows from the table; what the option does is said elsewhere, by its letter or its name.

use super::Call;
use super::views::{DIFF, LOG};
use crate::analysis::Arg;
use crate::programs::options::Place;

/// What stands behind a subcommand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item<'a> {
    /// An option.
    Option(Given<'a>),
    /// An argument that is none.
    Operand(usize),
    /// `--`.
    End(usize),
}

/// An option as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) name: Name<'a>,
    /// What the table says of its value.
    pub(super) takes: Takes,
    /// Where its value stands if it has one.
    pub(super) place: Place,
}

impl Given<'_> {
    /// Whether it is this option, by its letter or by what may be short for its name.
    pub(super) fn is(&self, letter: char, name: &str) -> bool {
        match self.name {
            Name::Letter(given) => given == letter,
            Name::Long(_) => self.is_long(name),
        }
    }

    /// Whether it is this option, by what may be short for its name.
    pub(super) fn is_long(&self, name: &str) -> bool {
        matches!(self.name, Name::Long(given) if is_short_for(given, name, 1))
    }
}

/// How an option is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// By a letter, alone or among others.
    Letter(char),
    /// By a name, without its dashes, or what is short for it.
    Long(&'a str),
}

/// Whether an option has a value, and what that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// None.
    Nothing,
    /// Only one that is attached to it.
    Attached,
    /// Text, or a name that only the repository knows.
    Text,
    /// A file that is read, or one of a commit.
    File,
    /// A file or directory that is written.
    Written,
    /// Another repository.
    Remote,
}

/// Whether what is given is a long option or at least so many of its first letters.
pub(super) fn is_short_for(given: &str, name: &str, least: usize) -> bool {
    given.len() >= least && name.starts_with(given)
}

/// The options of subcommands that have values.
struct Table {
    subcommands: &'static [&'static str],
    /// Letters, each with a sign behind it, as behind names.
    letters: &'static str,
    /// Names, divided by blanks, with a sign behind each: `=` text, `<` a file that is read, `>` one that is written,
    /// `@` another repository, `?` only attached. One without a sign is a flag that is also the start of another name.
    names: &'static [&'static str],
}

const fn table(
    subcommands: &'static [&'static str],
    letters: &'static str,
    names: &'static [&'static str],
) -> Table {
    Table { subcommands, letters, names }
}

/// Options of what shows commits and differences whose values may be paths.
const SHOWN: &str = "skip-to< rotate-to< relative? output>";

const TABLES: &[Table] = &[
    table(&["add", "stage"], "", &["chmod= pathspec-from-file<"]),
    table(
        &["am"],
        "C=p=S?",
        &["resolvemsg= quoted-cr= whitespace= directory< exclude= include= patch-format= empty="],
    ),
    table(&["apply"], "C=p=", &["exclude= include= build-fake-ancestor> whitespace= directory<"]),
    table(&["bisect"], "", &["term-new= term-bad= term-old= term-good="]),
    table(
        &["branch"],
        "u=t?",
        &["set-upstream-to= contains= no-contains= merged= no-merged= sort= points-at= format="],
    ),
    table(&["bundle"], "", &["version=", LOG]),
    table(&["checkout"], "b=B=t?", &["conflict= orphan= pathspec-from-file<"]),
    table(&["checkout-index"], "", &["prefix> stage="]),
    table(&["cherry-pick", "revert"], "X=m=S?", &["cleanup= mainline= strategy= strategy-option= empty="]),
    table(&["clean"], "e=", &["exclude="]),
    table(
        &["clone"],
        "b=c=j=o=u=",
        &[
            "jobs= template< reference< reference-if-able< origin= branch= upload-pack= depth= shallow-since= \
            shallow-exclude= separate-git-dir> ref-format= config= server-option= filter= bundle-uri@ revision=",
        ],
    ),
    table(
        &["commit"],
        "F<t<C=c=m=S?u?",
        &["file< author= date= message= reedit-message= reuse-message= fixup= squash= trailer= template< \
            cleanup= pathspec-from-file<"],
    ),
    table(
        &["commit-graph", "multi-pack-index"],
        "",
        &["object-dir< max-commits= size-multiple= expire-time= max-new-filters= refs-snapshot< \
            preferred-pack= batch-size="],
    ),
    table(&["commit-tree"], "F<m=p=S?", &[]),
    table(&["config"], "f<t=", &["file< blob< type= default= comment= value= url="]),
    table(&["difftool"], "t=x=O<", &["tool= extcmd=", SHOWN, DIFF]),
    table(
        &["fetch"],
        "j=o=",
        &["upload-pack= jobs= depth= shallow-since= shallow-exclude= deepen= refmap= server-option= \
            negotiation-tip= filter= submodule-prefix= recurse-submodules-default="],
    ),
    table(
        &["format-patch"],
        "o>v=O<S=G=l=I=U?M?C?B?X?",
        &[
            "suffix= start-number= reroll-count= filename-max-length= cover-from-description= \
            description-file< subject-prefix= output-directory> add-header= to= cc= in-reply-to= signature= \
            base= signature-file< interdiff= range-diff= creation-factor=",
            SHOWN,
            DIFF,
            LOG,
        ],
    ),
    table(&["gc"], "", &["max-cruft-size= expire-to>"]),
    table(&["hash-object"], "t=", &["path="]),
    table(&["init"], "b=", &["template< separate-git-dir> initial-branch= object-format= ref-format="]),
    table(&["index-pack"], "o>", &[]),
    table(&["maintenance"], "", &["schedule= scheduler= task= config-file>"]),
    table(&["merge"], "F<X=m=s=S?", &["cleanup= strategy= strategy-option= message= file< into-name="]),
    table(&["merge-file"], "L=", &["diff-algorithm= marker-size="]),
    table(&["merge-tree"], "X=", &["merge-base= strategy-option="]),
    table(&["notes"], "F<C<c<m=s=", &["message= file< reedit-message< reuse-message< ref= strategy="]),
    table(
        &["pack-objects"],
        "",
        &["cruft unpacked index-version= max-pack-size= window= window-memory= depth= threads= keep-pack= \
            compression= filter= missing= uri-protocol= cruft-expiration? unpack-unreachable?"],
    ),
    table(
        &["repack"],
        "g=",
        &["cruft index-version= max-pack-size= max-cruft-size= window= window-memory= depth= threads= \
            keep-pack= compression= filter= missing= uri-protocol= cruft-expiration= unpack-unreachable= \
            geometric= expire-to> filter-to>"],
    ),
    table(&["pack-refs"], "", &["include= exclude="]),
    table(&["prune"], "", &["expire="]),
    table(
        &["pull"],
        "X=o=s=S?r?j=",
        &[
            "jobs= cleanup= strategy= strategy-option= upload-pack= depth= shallow-since= shallow-exclude= deepen= \
            refmap= server-option= negotiation-tip= filter=",
        ],
    ),
    table(&["push"], "o=", &["repo@ receive-pack= exec= push-option= recurse-submodules="]),
    table(&["quiltimport"], "", &["author= patches< series<"]),
    table(&["read-tree"], "", &["index-output> prefix> exclude-per-directory="]),
    table(&["rebase"], "C=X=s=x=S?r?", &["onto= whitespace= empty= exec= strategy= strategy-option="]),
    table(&["reflog"], "n=O<S=G=l=I=U?M?C?B?X?", &["expire= expire-unreachable=", SHOWN, DIFF, LOG]),
    table(&["remote"], "t=m=", &["track= master="]),
    table(&["replace"], "", &["format="]),
    table(&["reset", "rm"], "", &["pathspec-from-file<"]),
    table(&["restore"], "s=", &["source= conflict= pathspec-from-file<"]),
    table(&["send-email"], "", &["to= cc= bcc= from= subject= in-reply-to= identity="]),
    table(&["send-pack"], "", &["receive-pack= exec= remote= push-option="]),
    table(&["sparse-checkout"], "", &["rules-file<"]),
    table(&["stash"], "m=", &["message= pathspec-from-file<"]),
    table(
        &["submodule"],
        "b=j=n=",
        &["branch= name= reference< ref-format= depth= jobs= filter= summary-limit="],
    ),
    table(&["switch"], "c=C=t?", &["force create= force-create= conflict= orphan="]),
    table(&["symbolic-ref", "update-ref"], "m=", &[]),
    table(
        &["tag"],
        "F<m=u=n?",
        &["message= file< trailer= cleanup= local-user= contains= no-contains= merged= no-merged= sort= \
            points-at= format="],
    ),
    table(&["update-index"], "", &["cacheinfo= chmod= index-version="]),
    table(&["worktree"], "b=B=", &["reason= expire="]),
    table(&["write-tree"], "", &["prefix="]),
];

/// What each argument behind the subcommand is.
pub(super) fn read<'a>(call: &Call<'a>) -> Vec<Item<'a>> {
    let args = call.invocation.args;
    let name = match (call.name, call.text(call.at + 1)) {
        // These show commits, as `reflog` does.
        ("stash", Some("list" | "show")) => "reflog",
        (name, _) => name,
    };
    let table = TABLES.iter().find(|table| table.subcommands.contains(&name));
    let mut reader = Reader {
        args,
        letters: table.map_or("", |table| table.letters),
        names: table.map(names).unwrap_or_default(),
        items: Vec::with_capacity(args.len().saturating_sub(call.at)),
        next: call.at + 1,
    };
    reader.run();
    reader.items
}

/// All names of a table.
fn names(table: &Table) -> Vec<(&'static str, Takes)> {
    let words = table.names.iter().flat_map(|list| list.split_ascii_whitespace());
    words
        .map(|word| {
            let name = word.trim_end_matches(['=', '<', '>', '@', '?']);
            (name, word.chars().last().map_or(Takes::Nothing, sign))
        })
        .collect()
}

/// What a sign in a table says.
fn sign(sign: char) -> Takes {
    match sign {
        '=' => Takes::Text,
        '<' => Takes::File,
        '>' => Takes::Written,
        '@' => Takes::Remote,
        '?' => Takes::Attached,
        _ => Takes::Nothing,
    }
}

struct Reader<'a> {
    args: &'a [Arg],
    letters: &'static str,
    names: Vec<(&'static str, Takes)>,
    items: Vec<Item<'a>>,
    next: usize,
}

impl<'a> Reader<'a> {
    fn run(&mut self) {
        while let Some(arg) = self.args.get(self.next) {
            let at = self.next;
            self.next += 1;
            let (known, complete) = (arg.prefix(), arg.text().is_some());
            match known.strip_prefix('-') {
                Some("") if complete => self.items.push(Item::Operand(at)),
                Some("-") if complete => {
                    self.items.push(Item::End(at));
                    self.items.extend((self.next..self.args.len()).map(Item::Operand));
                    return;
                }
                Some(letters) => match letters.strip_prefix('-') {
                    Some(long) => self.long(at, long, complete),
                    None => self.cluster(at, letters, complete),
                },
                None => self.items.push(Item::Operand(at)),
            }
        }
    }

    /// `--name`, `--name=value`, `--name value`.
    fn long(&mut self, at: usize, long: &'a str, complete: bool) {
        let name = long.split('=').next().unwrap_or(long);
        let exact = self.names.iter().find(|(known, _)| *known == name);
        let short =
            |(known, takes): &&(&str, Takes)| *takes != Takes::Nothing && is_short_for(name, known, 1);
        let takes = exact.or_else(|| self.names.iter().find(short)).map_or(Takes::Nothing, |found| found.1);
        let attached = match name.len() < long.len() {
            true => Some("--=".len() + name.len()),
            false => (!complete).then_some("--".len() + long.len()),
        };
        self.given(at, Name::Long(name), takes, attached);
    }

    /// `-rfv`, `-n5`, `-n 5`. A letter counts once, so that a long cluster makes no long list.
    fn cluster(&mut self, at: usize, letters: &'a str, complete: bool) {
        let first = self.items.len();
        for (index, letter) in letters.char_indices() {
            if !letter.is_ascii_alphabetic() {
                continue;
            }
            let behind = index + 1;
            let found = self.letters.find(letter).and_then(|found| self.letters.get(found + 1..));
            let takes = found.and_then(|rest| rest.chars().next()).map_or(Takes::Nothing, sign);
            let attached = (behind < letters.len() || !complete).then_some("-".len() + behind);
            let is_seen = |item: &Item<'_>| matches!(item, Item::Option(Given { name: Name::Letter(seen), .. }) if *seen == letter);
            if !self.items.get(first..).unwrap_or_default().iter().any(is_seen) {
                self.given(at, Name::Letter(letter), takes, attached);
            }
            if takes != Takes::Nothing {
                return;
            }
        }
    }

    /// Notes an option, and passes over the argument that is its value.
    fn given(&mut self, at: usize, name: Name<'a>, takes: Takes, attached: Option<usize>) {
        let place = match attached {
            Some(skip) => Place { option: at, arg: at, skip },
            None => Place { option: at, arg: at + 1, skip: 0 },
        };
        if place.arg > at && !matches!(takes, Takes::Nothing | Takes::Attached) {
            self.next = self.next.max(at + 2);
        }
        self.items.push(Item::Option(Given { name, takes, place }));
    }
}
