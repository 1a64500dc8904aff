//! Pins: what the owner has agreed to of a server's tools, by fingerprint.
//!
//! A server that is seen for the first time is pinned as it stands: the owner has just configured it. From then on a
//! tool whose definition changed is off until the owner agrees again, and so is one that was not there before, unless the
//! owner trusts the server.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::definition::Definition;
use super::keep::Pin;

/// How a tool stands with the owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It can be called.
    On,
    /// It is not what the owner agreed to.
    Changed {
        /// What that was, without secrets.
        old: Value,
        /// The fingerprint of it.
        agreed: String,
    },
    /// It was not there when the owner agreed.
    New,
    /// The owner's lists leave it out.
    Denied,
}

/// The fingerprint of a definition: BLAKE3 over its JSON with sorted keys and without spaces.
pub fn fingerprint(definition: &Value) -> String {
    format!("b3:{}", blake3::hash(sorted(definition).to_string().as_bytes()).to_hex())
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(object) => {
            let ordered: BTreeMap<&String, Value> =
                object.iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), value)).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// How each definition stands against the pins, and what is to be pinned now.
pub(crate) fn stand(
    definitions: &[Definition],
    pins: Option<&[Pin]>,
    trusted: bool,
) -> (Vec<Standing>, Vec<Pin>) {
    let known: BTreeMap<&str, &Pin> =
        pins.unwrap_or_default().iter().map(|pin| (pin.tool.as_str(), pin)).collect();
    let take_new = pins.is_none() || trusted;
    let mut fresh = Vec::new();
    let standings = definitions
        .iter()
        .map(|definition| match known.get(definition.tool.as_str()) {
            Some(pin) if pin.hash == definition.hash => Standing::On,
            Some(pin) => Standing::Changed { old: pin.definition.clone(), agreed: pin.hash.clone() },
            None if take_new => {
                fresh.push(pin_of(definition));
                Standing::On
            }
            None => Standing::New,
        })
        .collect();
    (standings, fresh)
}

/// The pin of a definition as it is.
pub(crate) fn pin_of(definition: &Definition) -> Pin {
    Pin {
        tool: definition.tool.clone(),
        hash: definition.hash.clone(),
        definition: definition.pinned.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::definition;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn tool(name: &str, description: &str) -> Definition {
        let raw = json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        definition::read("s", &raw).unwrap()
    }

    #[test]
    fn the_order_of_keys_does_not_matter_and_every_word_does() {
        let one = fingerprint(&json!({"a": 1, "b": {"x": [1, 2], "y": null}}));
        assert_eq!(one, fingerprint(&json!({"b": {"y": null, "x": [1, 2]}, "a": 1})));
        assert_ne!(one, fingerprint(&json!({"a": 1, "b": {"x": [2, 1], "y": null}})));
    }

    #[test]
    fn first_sight_pins_and_a_change_is_off() {
        let (first, fresh) = stand(&[tool("a", "reads"), tool("b", "writes")], None, false);
        assert_eq!(first, [Standing::On, Standing::On]);
        assert_eq!(fresh.len(), 2);
        let (later, again) = stand(
            &[tool("a", "reads, and mails it away"), tool("b", "writes"), tool("c", "new")],
            Some(&fresh),
            false,
        );
        assert_eq!(
            later,
            [
                Standing::Changed { old: fresh[0].definition.clone(), agreed: fresh[0].hash.clone() },
                Standing::On,
                Standing::New
            ]
        );
        assert_eq!(again, []);
    }

    #[test]
    fn a_trusted_server_may_add_but_not_change() {
        let (_, fresh) = stand(&[tool("a", "reads")], None, true);
        let (later, more) = stand(&[tool("a", "other"), tool("c", "new")], Some(&fresh), true);
        assert!(matches!(later[..], [Standing::Changed { .. }, Standing::On]));
        assert_eq!(more.len(), 1);
    }
}
