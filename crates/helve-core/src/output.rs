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
    },
    /// A picture.
    Image {
        /// The bytes in base64.
        data: String,
        /// Its media type, such as `image/png`.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
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
        Output { content: vec![Content::Text { text: text.into() }], ..Output::default() }
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
        if let Content::Text { text: part } = block {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
        }
    }
    text
}
