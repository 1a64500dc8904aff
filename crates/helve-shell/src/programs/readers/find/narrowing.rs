//! What the tests of a `find` expression say about what an action behind them is done to.
//!
//! Tests that stand side by side narrow together, alternatives only if each of them does, and a negation does not: it
//! leaves all but a few. Tests behind an action come too late for it.

/// Tests that narrow down what an action is done to. `-type f` and `-type d` do not: a tree is made of them.
const NARROWING: &[&str] = &[
    "-empty",
    "-executable",
    "-nogroup",
    "-nouser",
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-ctime",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-path",
    "-perm",
    "-regex",
    "-samefile",
    "-size",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-Bmin",
    "-Btime",
];

/// Those of them that stand alone.
const ALONE: &[&str] = &["-empty", "-executable", "-nogroup", "-nouser"];

/// How deep brackets are followed; what is deeper narrows nothing.
const MAX_DEPTH: usize = 64;

/// What is known of what passes some tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Passed {
    /// Whether it is a part of what is there.
    narrowed: bool,
    /// Whether there are no directories among it.
    flat: bool,
}

impl Passed {
    fn and(self, other: Passed) -> Passed {
        Passed { narrowed: self.narrowed || other.narrowed, flat: self.flat || other.flat }
    }

    fn or(self, other: Passed) -> Passed {
        Passed { narrowed: self.narrowed && other.narrowed, flat: self.flat && other.flat }
    }
}

/// An expression between brackets, as far as it was read.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    /// What passes the alternatives before this one.
    before: Option<Passed>,
    /// What passes the tests of this alternative.
    here: Passed,
    /// Whether the next test is negated.
    negated: bool,
}

impl Group {
    fn add(&mut self, passed: Passed) {
        if !std::mem::take(&mut self.negated) {
            self.here = self.here.and(passed);
        }
    }

    fn whole(self) -> Passed {
        self.before.map_or(self.here, |before| before.or(self.here))
    }
}

/// The tests that were read so far.
#[derive(Debug, Default)]
pub(super) struct Tests {
    /// Whether an option narrows down everything.
    pub(super) everywhere: bool,
    /// The brackets that are open, outermost first.
    open: Vec<Group>,
    group: Group,
    /// How many brackets are open that are too deep.
    too_deep: usize,
}

impl Tests {
    /// Takes in the next word of the expression, with the argument that it may have.
    pub(super) fn note(&mut self, word: &str, value: Option<&str>, has_value: bool) {
        match word {
            "(" if self.open.len() < MAX_DEPTH => self.open.push(std::mem::take(&mut self.group)),
            "(" => self.too_deep += 1,
            ")" if self.too_deep > 0 => self.too_deep -= 1,
            ")" => {
                let passed = self.group.whole();
                self.group = self.open.pop().unwrap_or_default();
                self.group.add(passed);
            }
            _ if self.too_deep > 0 => {}
            "!" | "-not" => self.group.negated = !self.group.negated,
            "-o" | "-or" => {
                self.group = Group { before: Some(self.group.whole()), ..Group::default() };
            }
            "," => self.group = Group::default(),
            "-type" | "-xtype" => {
                let kinds = value.unwrap_or("d");
                // Links, pipes and sockets hold nothing.
                let narrowed = has_value && !kinds.contains(['d', 'f']);
                self.group.add(Passed { narrowed, flat: !kinds.contains('d') });
            }
            _ if ALONE.contains(&word) => self.group.add(Passed { narrowed: true, flat: false }),
            _ if NARROWING.contains(&word) || super::is_newer_than(word) => {
                // A pattern that everything matches narrows nothing.
                let narrowed = value.is_none_or(|text| text.is_empty() || text.chars().any(|ch| ch != '*'));
                self.group.add(Passed { narrowed, flat: false });
            }
            _ => self.group.negated = false,
        }
    }

    /// Whether what is before an action here narrows down what it is done to.
    pub(super) fn narrows(&self) -> bool {
        self.everywhere || self.all(|passed| passed.narrowed)
    }

    /// Whether an action here meets no directories.
    pub(super) fn is_flat(&self) -> bool {
        self.all(|passed| passed.flat)
    }

    fn all(&self, holds: impl Fn(Passed) -> bool) -> bool {
        self.too_deep == 0 && (holds(self.group.here) || self.open.iter().any(|group| holds(group.here)))
    }
}
