//! How far a schema reaches when its references are followed, so that judging by it takes neither for ever nor all of the stack.
//!
//! A few definitions that each refer to the next one twice unfold to more parts than can be counted, and a chain of
//! references nests as deep as it is long. Schemas come from elsewhere, so both are measured before one is used: over
//! everything that is written in it, and over what is asked of one value at once. [`names`] says what a reference means.

mod names;

use std::collections::HashMap;

use serde_json::Value;

use names::{Meaning, Names};

/// So many parts may a schema unfold to.
const MOST_PARTS: u64 = 100_000;
/// So deep may they nest.
const MOST_LEVELS: usize = 128;
/// So deep may a schema that refers to itself and a value nest together.
const MOST_LEVELS_TOGETHER: usize = 1_024;
/// So many parts may be looked at to say everything that is wrong with a value.
const MOST_LOOKS: u64 = 1_000_000;
/// So often may a part be looked at while a schema is measured.
const MOST_STEPS: u64 = 1_000_000;
/// Parts and levels that a schema counts for which is known without being fetched.
const STANDARD: Extent = (200, 16);
/// A part that asks what others have left over asks those again, and they what they ask.
const TIMES_FOR_LEFT_OVER: u64 = 4;

/// Parts and levels.
type Extent = (u64, usize);

/// How far a schema reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    parts: u64,
    levels: usize,
    is_cyclic: bool,
}

/// What may be asked of a value under a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Everything that is wrong with it.
    Everything,
    /// Whether it fits.
    Verdict,
    /// Nothing: it nests too deep.
    Nothing,
}

impl Reach {
    /// Measures a schema; says why it reaches too far.
    pub(super) fn of(schema: &Value) -> Result<Reach, String> {
        let mut walk = Walk {
            names: Names::of(schema)?,
            seen: HashMap::new(),
            at_once: HashMap::new(),
            most_at_once: (1, 1),
            steps: 0,
            is_cyclic: false,
        };
        let (parts, levels) = walk.node(schema, 0)?;
        let (at_once, chain) = walk.most_at_once;
        Ok(Reach { parts: parts.max(at_once), levels: levels.max(chain), is_cyclic: walk.is_cyclic })
    }

    /// What may be asked of this value.
    pub(super) fn effort(&self, value: &Value) -> Effort {
        if !self.is_cyclic {
            return Effort::Everything;
        }
        let depth = depth(value);
        let looks = u32::try_from(depth).ok().and_then(|depth| self.parts.checked_pow(depth));
        match () {
            () if self.levels.saturating_mul(depth) > MOST_LEVELS_TOGETHER => Effort::Nothing,
            () if looks.is_some_and(|looks| looks <= MOST_LOOKS) => Effort::Everything,
            () => Effort::Verdict,
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

/// A part that was come to: being measured, or measured.
#[derive(Clone, Copy)]
enum Seen {
    Begun,
    Done(Extent),
}

struct Walk<'s> {
    names: Names<'s>,
    /// The targets of references, by everything that is written in them.
    seen: HashMap<*const Value, Seen>,
    /// Parts, by what they ask of one value.
    at_once: HashMap<*const Value, Seen>,
    most_at_once: Extent,
    steps: u64,
    is_cyclic: bool,
}

impl<'s> Walk<'s> {
    /// Parts and levels below a node, which is itself so deep.
    fn node(&mut self, node: &'s Value, deep: usize) -> Result<Extent, String> {
        self.step(deep)?;
        let mut sum = Sum::default();
        match node {
            Value::Array(items) => {
                for item in items {
                    sum.add(self.node(item, deep + 1)?, 1);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    sum.add(
                        match self.refers(key, member)? {
                            Some(to) => self.reference(to, deep + 1)?,
                            None => self.node(member, deep + 1)?,
                        },
                        1,
                    );
                }
                let at_once = self.at_once(node, 0)?;
                if asks_for_left_over(node) {
                    sum.add((at_once.0, 0), 0);
                }
            }
            _ => {}
        }
        sum.within_bounds()
    }

    /// What a member refers to, if it is a reference.
    fn refers(&self, key: &str, member: &Value) -> Result<Option<Meaning<'s>>, String> {
        match (key, member.as_str()) {
            ("$ref" | "$dynamicRef", Some(to)) => self.names.meaning(to).map(Some),
            ("$recursiveRef", Some("#")) => Ok(Some(self.names.whole())),
            ("$recursiveRef", Some(_)) => Err("a \"$recursiveRef\" of it is not \"#\"".to_owned()),
            _ => Ok(None),
        }
    }

    /// The worst of what a reference can mean.
    fn reference(&mut self, to: Meaning<'s>, deep: usize) -> Result<Extent, String> {
        let Meaning::Parts(targets) = to else {
            self.is_cyclic = true;
            return Ok(STANDARD);
        };
        let mut worst = (1, 1);
        for target in targets {
            worst = worse(worst, self.target(target, deep)?);
        }
        Ok(worst)
    }

    fn target(&mut self, target: &'s Value, deep: usize) -> Result<Extent, String> {
        let key: *const Value = target;
        match self.seen.get(&key) {
            Some(Seen::Begun) => {
                self.is_cyclic = true;
                Ok((1, 1))
            }
            Some(Seen::Done(extent)) if deep + extent.1 <= MOST_LEVELS => Ok(*extent),
            _ => {
                self.seen.insert(key, Seen::Begun);
                let extent = self.node(target, deep)?;
                self.seen.insert(key, Seen::Done(extent));
                Ok(extent)
            }
        }
    }

    /// Parts and levels that a part asks of the value that it is held against, without going into the value. There they
    /// must come to an end.
    fn at_once(&mut self, node: &'s Value, deep: usize) -> Result<Extent, String> {
        let Some(members) = node.as_object() else { return Ok((1, 1)) };
        self.step(deep)?;
        let key: *const Value = node;
        match self.at_once.get(&key) {
            Some(Seen::Begun) => {
                return Err("a part of it refers to itself without going into the value".to_owned());
            }
            Some(Seen::Done((_, levels))) if deep + levels > MOST_LEVELS => return Err(too_deep()),
            Some(Seen::Done(extent)) => return Ok(*extent),
            None => {}
        }
        self.at_once.insert(key, Seen::Begun);
        let mut sum = Sum::default();
        for (keyword, member) in members {
            match (keyword.as_str(), member) {
                ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                    for each in all {
                        sum.add(self.at_once(each, deep + 2)?, 2);
                    }
                }
                ("dependentSchemas" | "dependencies", Value::Object(all)) => {
                    for each in all.values() {
                        sum.add(self.at_once(each, deep + 2)?, 2);
                    }
                }
                ("not" | "if" | "then" | "else", _) => sum.add(self.at_once(member, deep + 1)?, 1),
                (_, Value::Array(more)) => sum.add((more.len() as u64 + 1, 1), 1),
                (_, Value::Object(more)) => sum.add((more.len() as u64 + 1, 1), 1),
                _ => match self.refers(keyword, member)? {
                    Some(Meaning::Parts(targets)) => {
                        let mut worst = (1, 1);
                        for target in targets {
                            worst = worse(worst, self.at_once(target, deep + 1)?);
                        }
                        sum.add(worst, 1);
                    }
                    Some(Meaning::Standard) => sum.add(STANDARD, 1),
                    None => sum.add((1, 1), 1),
                },
            }
        }
        if asks_for_left_over(node) {
            sum.parts = sum.parts.saturating_mul(TIMES_FOR_LEFT_OVER);
        }
        let extent = sum.within_bounds()?;
        self.most_at_once = worse(self.most_at_once, extent);
        self.at_once.insert(key, Seen::Done(extent));
        Ok(extent)
    }

    fn step(&mut self, deep: usize) -> Result<(), String> {
        self.steps += 1;
        match () {
            () if deep > MOST_LEVELS => Err(too_deep()),
            () if self.steps > MOST_STEPS => Err(too_many()),
            () => Ok(()),
        }
    }
}

fn worse(one: Extent, other: Extent) -> Extent {
    (one.0.max(other.0), one.1.max(other.1))
}

/// Whether a part asks what the parts beside it have not looked at.
fn asks_for_left_over(node: &Value) -> bool {
    ["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| node.get(keyword).is_some())
}

/// What is in a part, added up.
struct Sum {
    parts: u64,
    levels: usize,
}

impl Default for Sum {
    fn default() -> Self {
        Sum { parts: 1, levels: 1 }
    }
}

impl Sum {
    fn add(&mut self, (parts, levels): Extent, below: usize) {
        self.parts = self.parts.saturating_add(parts);
        self.levels = self.levels.max(levels + below);
    }

    fn within_bounds(self) -> Result<Extent, String> {
        if self.parts > MOST_PARTS { Err(too_many()) } else { Ok((self.parts, self.levels)) }
    }
}

fn too_deep() -> String {
    format!("it nests more than {MOST_LEVELS} levels deep when its references are followed")
}

fn too_many() -> String {
    format!("it unfolds to more than {MOST_PARTS} parts when its references are followed")
}

#[cfg(test)]
mod tests;
