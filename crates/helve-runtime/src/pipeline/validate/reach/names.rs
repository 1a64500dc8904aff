//! What a reference in a schema means: the text of the reference comes in, the parts that it can mean go out.
//!
//! The judge has rules of its own for this, and what is measured must be what is judged. So only schemas go through in
//! which there is one way to read a reference: one document with one base. Where several parts bear a name, all of them are
//! given.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::draft_of;

/// Schemas that are known without being fetched.
const KNOWN: [&str; 2] = ["https://json-schema.org/", "http://json-schema.org/"];
/// Where they are at home.
const KNOWN_HOST: &str = "json-schema.org";
/// The drafts that a part may name, in which a reference means the same, without their scheme.
const DRAFTS: [&str; 4] = [
    "://json-schema.org/draft-06/schema",
    "://json-schema.org/draft-07/schema",
    "://json-schema.org/draft/2019-09/schema",
    "://json-schema.org/draft/2020-12/schema",
];

/// What a reference means.
pub(super) enum Meaning<'s> {
    /// One of these parts.
    Parts(Vec<&'s Value>),
    /// A schema that is known without being fetched.
    Standard,
}

/// The names in a schema.
pub(super) struct Names<'s> {
    root: &'s Value,
    /// The key by which its draft names a schema, and what the schema calls itself.
    id: &'static str,
    own: Option<&'s str>,
    named: HashMap<&'s str, Vec<&'s Value>>,
    /// Whether a schema elsewhere could refer back into this one.
    is_open: bool,
}

impl<'s> Names<'s> {
    /// Says why references in this schema could be read in more than one way.
    pub(super) fn of(root: &'s Value) -> Result<Names<'s>, String> {
        let id = draft_of(root).id_keyword();
        let own = match root.get(id).and_then(Value::as_str) {
            Some(own) => Some(own_name(id, own)?),
            None => None,
        };
        let mut names = Names { root, id, own, named: HashMap::new(), is_open: own.is_some() };
        names.collect(root, true)?;
        Ok(names)
    }

    fn collect(&mut self, node: &'s Value, at_root: bool) -> Result<(), String> {
        match node {
            Value::Object(members) => {
                if !at_root {
                    check_part(members, self.id)?;
                }
                for key in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = members.get(key).and_then(Value::as_str) {
                        self.named.entry(name).or_default().push(node);
                    }
                }
                self.is_open |=
                    members.contains_key("$dynamicAnchor") || members.contains_key("$recursiveAnchor");
                members.values().try_for_each(|member| self.collect(member, false))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.collect(item, false)),
            _ => Ok(()),
        }
    }

    /// What a reference means; says why it means nothing here.
    pub(super) fn meaning(&self, to: &str) -> Result<Meaning<'s>, String> {
        let nowhere =
            || format!("it refers to {}, which is not in it", to.chars().take(80).collect::<String>());
        let (document, fragment) = to.split_once('#').unwrap_or((to, ""));
        if fragment.contains('#') {
            return Err(nowhere());
        }
        if !document.is_empty() && self.own != Some(document) {
            let is_standard = !self.is_open && KNOWN.iter().any(|known| document.starts_with(known));
            return if is_standard { Ok(Meaning::Standard) } else { Err(nowhere()) };
        }
        let parts = match fragment {
            "" => vec![self.root],
            pointer if pointer.starts_with('/') => pointed(self.root, pointer).into_iter().collect(),
            name => self.named.get(name).cloned().unwrap_or_default(),
        };
        if parts.is_empty() { Err(nowhere()) } else { Ok(Meaning::Parts(parts)) }
    }

    /// What a reference to the whole means.
    pub(super) fn whole(&self) -> Meaning<'s> {
        Meaning::Parts(vec![self.root])
    }
}

/// The name of a whole schema, as references to it begin.
fn own_name<'s>(key: &str, id: &'s str) -> Result<&'s str, String> {
    let own = id.trim_end_matches('#');
    let plain = percent_decoded(own).map(|own| own.to_ascii_lowercase());
    match plain {
        Some(plain) if !own.contains('#') && !plain.contains(KNOWN_HOST) => Ok(own),
        _ => Err(format!("its \"{key}\" must be an address of its own, without a fragment")),
    }
}

/// A part with a base of its own, or of a draft with other rules, would be read differently than the rest.
fn check_part(members: &Map<String, Value>, id: &str) -> Result<(), String> {
    for key in ["$id", id] {
        if members.get(key).is_some_and(Value::is_string) {
            return Err(format!(
                "it has an \"{key}\" below its top, where references would mean something else"
            ));
        }
    }
    match members.get("$schema").and_then(Value::as_str) {
        Some(draft) if !is_alike(draft) => {
            Err("it has a \"$schema\" below its top that is not of draft 6, 7, 2019-09 or 2020-12".to_owned())
        }
        _ => Ok(()),
    }
}

fn is_alike(draft: &str) -> bool {
    let named = draft.trim_end_matches('#');
    let rest = named.strip_prefix("https").or_else(|| named.strip_prefix("http"));
    rest.is_some_and(|rest| DRAFTS.contains(&rest))
}

/// The part that a pointer leads to, step by step as the judge goes.
fn pointed<'s>(root: &'s Value, pointer: &str) -> Option<&'s Value> {
    percent_decoded(pointer)?.split('/').skip(1).try_fold(root, |node, step| match node {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Object(members) => members.get(&step.replace("~1", "/").replace("~0", "~")),
        _ => None,
    })
}

/// None where the bytes are no text.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        match (first, more) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push((digit(*high) << 4) | digit(*low));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

fn digit(of: u8) -> u8 {
    match of {
        b'0'..=b'9' => of - b'0',
        _ => (of | 0x20) - b'a' + 10,
    }
}
