//! What a tool gives back: blocks for the model, details for programs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One block of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text that the model reads.
    Text {
        /// The text.
        text: String,
        /// What a server said about it.
        #[serde(flatten)]
        about: Option<Box<About>>,
    },
    /// A picture.
    Image {
        /// The bytes in base64.
        data: String,
        /// Its media type, such as `image/png`.
        #[serde(rename = "mimeType")]
        mime_type: String,
        /// What a server said about it.
        #[serde(flatten)]
        about: Option<Box<About>>,
    },
    /// A sound.
    Audio {
        /// The bytes in base64.
        data: String,
        /// Its media type, such as `audio/wav`.
        #[serde(rename = "mimeType")]
        mime_type: String,
        /// What a server said about it.
        #[serde(flatten)]
        about: Option<Box<About>>,
    },
    /// A resource with its content.
    Resource {
        /// The resource.
        resource: EmbeddedResource,
        /// What a server said about it.
        #[serde(flatten)]
        about: Option<Box<About>>,
    },
    /// A resource by its address.
    ResourceLink(Box<ResourceLink>),
}

/// What a server may say about a block beside its content; kept for programs, in the shape of the MCP specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// For whom it is and how much it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// Whatever else.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

impl About {
    /// None where nothing is said.
    pub fn some(annotations: Option<Value>, meta: Option<Value>) -> Option<Box<About>> {
        (annotations.is_some() || meta.is_some()).then(|| Box::new(About { annotations, meta }))
    }
}

/// A resource with its content: text, or bytes in base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// Its address.
    pub uri: String,
    /// Its media type.
    #[serde(default, rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its content where that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its content in base64 where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Whatever else was said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// A resource by its address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLink {
    /// Its address.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    #[serde(default, rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its length in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Pictures for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Value>,
    /// What a server said about it.
    #[serde(flatten)]
    pub about: Option<Box<About>>,
}

impl Content {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text { text: text.into(), about: None }
    }

    /// A picture: its bytes in base64 and its media type.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Content {
        Content::Image { data: data.into(), mime_type: mime_type.into(), about: None }
    }

    /// A sound: its bytes in base64 and its media type.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Content {
        Content::Audio { data: data.into(), mime_type: mime_type.into(), about: None }
    }

    /// A resource with its content.
    pub fn resource(resource: EmbeddedResource) -> Content {
        Content::Resource { resource, about: None }
    }
}

/// What a call cost, where the tool knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Millionths of the currency's unit.
    pub micros: u64,
    /// ISO 4217 code, such as `USD`.
    pub currency: String,
}

/// What the model does not see of a result, and where the whole is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// Bytes left out of the text.
    pub bytes: u64,
    /// Characters left out of the text.
    pub chars: u64,
    /// The whole, if it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Bytes that not even the blob has, because its cap was hit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blob_dropped: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What a tool returns when it worked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Blocks for the model, in order.
    pub content: Vec<Content>,
    /// Structured facts for programs; does not repeat the text.
    pub details: Value,
    /// What it cost.
    pub cost: Option<Cost>,
    /// The unshaped answer of an outside service: kept in the journal, never shown to the model.
    pub raw: Option<String>,
    /// Set by a tool whose handle has already cut the text to size.
    pub truncated: Option<Truncated>,
    /// Set by a tool that gives its text page by page itself: it is held to the limit `page_chars` instead of
    /// `output_chars`, and not cut in its middle below that.
    pub paged: bool,
}

impl Output {
    /// A single block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Output { content: vec![Content::text(text)], ..Output::default() }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Adds a cost.
    #[must_use]
    pub fn with_cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Adds the unshaped answer.
    #[must_use]
    pub fn with_raw(mut self, raw: impl Into<String>) -> Self {
        self.raw = Some(raw.into());
        self
    }

    /// Says that the text is a page, which the tool has cut itself.
    #[must_use]
    pub fn as_page(mut self) -> Self {
        self.paged = true;
        self
    }

    /// All text blocks, joined by newlines.
    pub fn joined_text(&self) -> String {
        join_text(&self.content)
    }
}

/// The text blocks of `content`, joined by newlines.
pub fn join_text(content: &[Content]) -> String {
    let mut text = String::new();
    for block in content {
        if let Content::Text { text: part, .. } = block {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn blocks_look_as_mcp_has_them() {
        for wire in [
            json!({"type": "text", "text": "a"}),
            json!({"type": "text", "text": "a", "annotations": {"priority": 1}, "_meta": {"k": 1}}),
            json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
            json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource": {"uri": "t://x", "mimeType": "text/plain", "text": "t"}}),
            json!({"type": "resource", "resource": {"uri": "t://x", "blob": "AA=="}, "annotations": {}}),
            json!({"type": "resource_link", "uri": "t://x", "name": "x", "size": 3, "_meta": {}}),
        ] {
            let block: Content = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(serde_json::to_value(&block).unwrap(), wire);
        }
    }
}
