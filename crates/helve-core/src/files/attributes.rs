//! Extended attributes of a file or a directory: those that a command over a layer may have changed, and that are put back.
//!
//! Taken are attributes of users (`user.*`, without those that an overlay keeps for itself) and access control lists. All
//! others belong to the system.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The list of who may do what with a file or a directory.
pub const ACCESS_LIST: &str = "system.posix_acl_access";
/// The list that what is made in a directory begins with.
pub const DEFAULT_LIST: &str = "system.posix_acl_default";
/// What attributes of users begin with.
pub const OF_USERS: &str = "user.";
/// What attributes begin with that an overlay keeps for itself.
const OF_OVERLAYS: &str = "user.overlay.";

/// Whose a file or a directory is, by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// Names and values. Most files have none, and then this is one word.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Attributes(Option<Arc<BTreeMap<String, Vec<u8>>>>);

impl Attributes {
    /// No attributes.
    pub const NONE: Attributes = Attributes(None);

    /// These attributes.
    pub fn new(all: BTreeMap<String, Vec<u8>>) -> Attributes {
        Attributes((!all.is_empty()).then(|| Arc::new(all)))
    }

    /// Whether an attribute of this name is taken over.
    pub fn is_taken(name: &str) -> bool {
        match name {
            ACCESS_LIST | DEFAULT_LIST => true,
            _ => name.starts_with(OF_USERS) && !name.starts_with(OF_OVERLAYS),
        }
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The value of one.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.as_ref()?.get(name).map(Vec::as_slice)
    }

    /// All of them, sorted by their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().flat_map(|all| all.iter()).map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Those whose names are wanted.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Attributes {
        match self.iter().all(|(name, _)| wanted(name)) {
            true => self.clone(),
            false => self.iter().filter(|(name, _)| wanted(name)).collect(),
        }
    }

    /// The names whose values are not the same in both, sorted.
    pub fn differing<'a>(&'a self, other: &'a Attributes) -> Vec<&'a str> {
        let differ = |name: &&str| self.get(name) != other.get(name);
        let mut names: Vec<&str> = self.iter().chain(other.iter()).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(differ);
        names
    }

    /// How many bytes names and values have.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

impl<'a> FromIterator<(&'a str, &'a [u8])> for Attributes {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a [u8])>>(all: T) -> Attributes {
        Attributes::new(all.into_iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect())
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): (&str, &[u8])| format!("{name}={}", value.escape_ascii());
        to.debug_set().entries(self.iter().map(shown)).finish()
    }
}

/// As a map from names to values in Base64.
impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter().map(|(name, value)| (name, STANDARD.encode(value))))
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Attributes, D::Error> {
        let all: BTreeMap<String, String> = BTreeMap::deserialize(from)?;
        let value = |(name, text): (String, String)| {
            let value = STANDARD.decode(text).map_err(D::Error::custom)?;
            match Attributes::is_taken(&name) {
                true => Ok((name, value)),
                false => Err(D::Error::custom(format!("the attribute {name} is not one that is taken over"))),
            }
        };
        Ok(Attributes::new(all.into_iter().map(value).collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn they_are_written_and_read_as_text_and_only_those_of_users() {
        let all: Attributes = [("user.a", &b"\x00\xff"[..]), (ACCESS_LIST, b"list")].into_iter().collect();
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, r#"{"system.posix_acl_access":"bGlzdA==","user.a":"AP8="}"#);
        assert_eq!(serde_json::from_str::<Attributes>(&text).unwrap(), all);
        assert_eq!(serde_json::from_str::<Attributes>("{}").unwrap(), Attributes::NONE);
        for bad in
            [r#"{"security.capability":"AA=="}"#, r#"{"user.overlay.opaque":"eQ=="}"#, r#"{"user.a":"?"}"#]
        {
            assert!(serde_json::from_str::<Attributes>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_differs_is_told_by_name() {
        let of = |all: &[(&'static str, &'static str)]| -> Attributes {
            all.iter().map(|(name, value)| (*name, value.as_bytes())).collect()
        };
        let (one, other) = (
            of(&[("user.a", "1"), ("user.b", "1"), ("user.c", "1")]),
            of(&[("user.b", "1"), ("user.c", "2"), ("user.d", "1")]),
        );
        assert_eq!(one.differing(&other), ["user.a", "user.c", "user.d"]);
        assert_eq!(one.differing(&one), Vec::<&str>::new());
        assert_eq!(one.only(|name| name == "user.b"), of(&[("user.b", "1")]));
        assert_eq!((one.bytes(), Attributes::NONE.bytes()), (21, 0));
    }
}
