//! A list of a server's, as its pages come in: an item that is too large is left out by name, and all pages together are
//! bounded, in items and in bytes.

use helve_core::json_text::length;
use helve_core::{ErrorKind, ToolError};
use serde_json::{Value, json};

use super::definition::{BYTES, short};
use super::frame::UNREADABLE;
use super::more::Listed;

/// Bytes of all pages of one list.
const ALL_BYTES: usize = 32 << 20;

/// What has come in so far.
pub(super) struct Listing<'s> {
    server: &'s str,
    what: Listed,
    most: usize,
    bytes: usize,
    items: Vec<Value>,
}

impl<'s> Listing<'s> {
    pub(super) fn new(server: &'s str, what: Listed, most: usize) -> Listing<'s> {
        Listing { server, what, most, bytes: 0, items: Vec::new() }
    }

    /// Takes the items of a page; says why that is too much.
    pub(super) fn take(&mut self, page: Vec<Value>) -> Result<(), ToolError> {
        let too_much = |most: String| {
            ToolError::new(
                ErrorKind::TooLarge,
                format!("The MCP server '{}' lists more than {most} {}.", self.server, self.what.key()),
            )
        };
        if self.items.len() + page.len() > self.most {
            return Err(too_much(self.most.to_string()));
        }
        for item in page {
            let size = length(&item);
            self.bytes = self.bytes.saturating_add(size);
            if self.bytes > ALL_BYTES {
                return Err(too_much(format!("{ALL_BYTES} bytes of")));
            }
            self.items.push(if size > BYTES { left_out(&item, size) } else { item });
        }
        Ok(())
    }

    /// Everything that was listed. What was left out stands with its name and the reason.
    pub(super) fn items(self) -> Vec<Value> {
        self.items
    }
}

fn left_out(item: &Value, size: usize) -> Value {
    let name = item.get("name").and_then(Value::as_str).map(short).unwrap_or_default();
    json!({"name": name, UNREADABLE: format!("it has {size} bytes, more than {BYTES}")})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::definition;
    use pretty_assertions::assert_eq;

    fn item(name: &str, bytes: usize) -> Value {
        json!({"name": name, "description": "x".repeat(bytes)})
    }

    #[test]
    fn an_item_that_is_too_large_leaves_its_name() {
        let mut listing = Listing::new("s", Listed::Tools, 10);
        listing.take(vec![item("large", 300_000), item("small", 10)]).unwrap();
        let items = listing.items();
        assert_eq!(items[0]["name"], "large");
        assert!(length(&items[0]) < 200, "{}", items[0]);
        assert_eq!(items[1], item("small", 10));
        let reason = definition::read("s", &items[0]).unwrap_err().reason;
        assert!(reason.contains("more than 262144"), "{reason}");
    }

    #[test]
    fn all_pages_together_are_bounded() {
        for (bytes, kept) in [(200_000, true), (4 << 20, false)] {
            let mut listing = Listing::new("s", Listed::Resources, 10_000);
            let mut pages = 0;
            let refused = loop {
                if let Err(error) = listing.take(vec![item("x", bytes)]) {
                    break error;
                }
                pages += 1;
            };
            assert!(pages * bytes <= ALL_BYTES && (pages + 2) * bytes > ALL_BYTES, "{pages}");
            assert_eq!(refused.kind, ErrorKind::TooLarge);
            assert_eq!(refused.message, "The MCP server 's' lists more than 33554432 bytes of resources.");
            assert_eq!(listing.items.iter().map(length).sum::<usize>() > bytes, kept);
        }
        let mut listing = Listing::new("s", Listed::Tools, 2);
        let error = listing.take(vec![item("x", 1), item("y", 1), item("z", 1)]).unwrap_err();
        assert_eq!(error.message, "The MCP server 's' lists more than 2 tools.");
    }
}
