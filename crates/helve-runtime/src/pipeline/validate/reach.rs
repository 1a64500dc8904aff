//! How far a schema reaches when its references are followed, so that judging by it takes neither for ever nor all of the stack.
//!
//! A few definitions that each refer to the next one twice unfold to more parts than can be counted, and a chain of
//! references nests as deep as it is long. Schemas come from elsewhere, so both are measured before one is used.

use std::cell::OnceCell;
use std::collections::HashMap;

use serde_json::Value;

/// So many parts may a schema unfold to.
const MOST_PARTS: u64 = 100_000;
/// So deep may they nest.
const MOST_LEVELS: usize = 128;
/// So deep may a schema that refers to itself and a value nest together.
const MOST_LEVELS_TOGETHER: usize = 1_024;
/// So many parts may be looked at to say everything that is wrong with a value.
const MOST_LOOKS: u64 = 1_000_000;
/// Schemas that are known without being fetched.
const KNOWN: [&str; 2] = ["https://json-schema.org/", "http://json-schema.org/"];

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
        let mut walk = Walk { root: schema, seen: HashMap::new(), names: OnceCell::new(), is_cyclic: false };
        let (parts, levels) = walk.node(schema, 0)?;
        Ok(Reach { parts, levels, is_cyclic: walk.is_cyclic })
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

/// A target of references: being measured, or measured.
#[derive(Clone, Copy)]
enum Seen {
    Begun,
    Done(u64, usize),
}

struct Walk<'s> {
    root: &'s Value,
    seen: HashMap<*const Value, Seen>,
    /// The parts that bear a name.
    names: OnceCell<HashMap<&'s str, &'s Value>>,
    is_cyclic: bool,
}

impl<'s> Walk<'s> {
    /// Parts and levels below a node, which is itself so deep.
    fn node(&mut self, node: &'s Value, deep: usize) -> Result<(u64, usize), String> {
        if deep > MOST_LEVELS {
            return Err(format!(
                "it nests more than {MOST_LEVELS} levels deep when its references are followed"
            ));
        }
        let (mut parts, mut levels) = (1u64, 1);
        let mut add = |(more, below): (u64, usize)| {
            parts = parts.saturating_add(more);
            levels = levels.max(below + 1);
        };
        match node {
            Value::Array(items) => {
                for item in items {
                    add(self.node(item, deep + 1)?);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    match (key.as_str(), member.as_str()) {
                        ("$ref", Some(to)) => add(self.reference(to, deep + 1)?),
                        ("$dynamicRef" | "$recursiveRef", Some(_)) => self.is_cyclic = true,
                        _ => add(self.node(member, deep + 1)?),
                    }
                }
            }
            _ => {}
        }
        if parts > MOST_PARTS {
            return Err(format!(
                "it unfolds to more than {MOST_PARTS} parts when its references are followed"
            ));
        }
        Ok((parts, levels))
    }

    fn reference(&mut self, to: &str, deep: usize) -> Result<(u64, usize), String> {
        let Some(target) = self.target(to) else {
            if KNOWN.iter().any(|known| to.starts_with(known)) {
                self.is_cyclic = true;
                return Ok((1, 1));
            }
            return Err(format!(
                "it refers to {}, which is not in it",
                to.chars().take(80).collect::<String>()
            ));
        };
        let key: *const Value = target;
        match self.seen.get(&key) {
            Some(Seen::Begun) => {
                self.is_cyclic = true;
                Ok((1, 1))
            }
            Some(Seen::Done(parts, levels)) if deep + levels <= MOST_LEVELS => Ok((*parts, *levels)),
            _ => {
                self.seen.insert(key, Seen::Begun);
                let (parts, levels) = self.node(target, deep)?;
                self.seen.insert(key, Seen::Done(parts, levels));
                Ok((parts, levels))
            }
        }
    }

    /// What a reference means: a pointer into the schema, or a name in it.
    fn target(&self, to: &str) -> Option<&'s Value> {
        let own = self.root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        let to = own.and_then(|own| to.strip_prefix(own)).unwrap_or(to);
        let fragment = match to {
            "" => "",
            _ => to.strip_prefix('#')?,
        };
        match fragment {
            "" => Some(self.root),
            pointer if pointer.starts_with('/') => {
                self.root.pointer(pointer).or_else(|| self.root.pointer(&percent_decoded(pointer)))
            }
            name => {
                let names = self.names.get_or_init(|| {
                    let mut names = HashMap::new();
                    named(self.root, &mut names);
                    names
                });
                names.get(name).copied()
            }
        }
    }
}

/// Every part that bears a name; the first one where several bear the same.
fn named<'s>(node: &'s Value, names: &mut HashMap<&'s str, &'s Value>) {
    match node {
        Value::Object(members) => {
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = members.get(key).and_then(Value::as_str) {
                    names.entry(name).or_insert(node);
                }
            }
            members.values().for_each(|member| named(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, names)),
        _ => {}
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let code =
            more.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    /// Definitions of which each holds the next one so often.
    fn chain(length: usize, times: usize, keyword: &str) -> Value {
        let mut defs = serde_json::Map::new();
        for n in 0..length {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            defs.insert(format!("d{n}"), json!({keyword: vec![next; times]}));
        }
        defs.insert(format!("d{length}"), json!({"type": "string"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    }

    #[test]
    fn plain_schemas_reach_as_far_as_they_are_long() {
        let schema = json!({"type": "object", "$defs": {"s": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/s"}, "b%c": {"$ref": "#/$defs/s"}, "d": {"$ref": "#/properties/b%25c"}}});
        let reach = Reach::of(&schema).unwrap();
        assert!(!reach.is_cyclic && reach.parts < 30 && reach.levels < 8, "{reach:?}");
        assert_eq!(reach.effort(&json!({"a": 1})), Effort::Everything);
        assert!(Reach::of(&chain(10, 1, "allOf")).is_ok());
    }

    #[test]
    fn what_unfolds_without_end_or_nests_without_end_is_refused() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            assert!(Reach::of(&chain(40, 2, keyword)).unwrap_err().contains("unfolds"));
        }
        assert!(Reach::of(&chain(5_000, 1, "allOf")).unwrap_err().contains("levels deep"));
        let named = json!({"$defs": {"a": {"$anchor": "x", "allOf": [{"$ref": "#y"}, {"$ref": "#y"}]},
            "b": {"$anchor": "y", "type": "string"}}, "$ref": "#x"});
        assert!(!Reach::of(&named).unwrap().is_cyclic);
        for elsewhere in ["http://127.0.0.1/x", "file:///etc/passwd", "other.json", "#/not/there", "#nobody"]
        {
            assert!(Reach::of(&json!({"$ref": elsewhere})).unwrap_err().contains("not in it"), "{elsewhere}");
        }
    }

    #[test]
    fn what_refers_to_itself_is_judged_as_far_as_that_goes() {
        let tree = json!({"$id": "https://example.com/tree", "type": "object",
            "properties": {"left": {"$ref": "#"}, "right": {"$ref": "https://example.com/tree#"}}});
        let reach = Reach::of(&tree).unwrap();
        assert!(reach.is_cyclic);
        let nested = |levels: usize| (0..levels).fold(json!(7), |inner, _| json!({"left": inner}));
        assert_eq!(reach.effort(&nested(3)), Effort::Everything);
        assert_eq!(reach.effort(&nested(60)), Effort::Verdict);
        assert_eq!(reach.effort(&nested(400)), Effort::Nothing);
    }
}
