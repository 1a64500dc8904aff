//! What is said between the owner, the model and the tools: a list of messages, the oldest first.
//!
//! It is the same for every provider; each writes it in its own words. The arguments of a call stay the text that the model
//! wrote: what is wrong with it is for the pipeline to say, and what is right with it must not be lost on the way.

use helve::{CallId, Content};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// To the model, from the owner or from the loop.
    User(UserMessage),
    /// From the model.
    Model(ModelMessage),
    /// To the model: what came of the calls of the message before, one for each, in their order.
    Results {
        /// The answers.
        results: Vec<ToolAnswer>,
    },
}

/// What the owner or the loop says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// Pictures that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Picture>,
    /// Whether the loop says it, as a hint or because the talk was made shorter, and not the owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_loop: bool,
}

/// What a model says: text, calls, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelMessage {
    /// The text; may be empty.
    #[serde(default)]
    pub text: String,
    /// The calls that it wants, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolUse>,
    /// What the provider wants to see again unchanged (signed thoughts, for example), in its own shape. It is given back to
    /// the provider that it came from and to no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// Something of a provider's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The provider's name.
    pub provider: String,
    /// What it is.
    pub value: Value,
}

/// A call that a model wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The name of this call between model and loop; every call of a talk has its own.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: JSON if all is well.
    pub args: String,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolAnswer {
    /// The name of the call that it answers.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What the model reads.
    pub text: String,
    /// Pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Picture>,
    /// Whether it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Helve's name of the call; none if it never reached the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

impl ToolAnswer {
    /// What a model reads of a call that went through the pipeline: its blocks in words and pictures. It is the same while
    /// the session runs and when it is told again from the journal.
    pub fn new(wanted: &ToolUse, call: Option<CallId>, ok: bool, content: &[Content]) -> ToolAnswer {
        let mut images = Vec::new();
        let mut text = String::new();
        for block in content {
            let words = match block {
                Content::Text { text, .. } => text.clone(),
                Content::Image { data, mime_type, .. } => {
                    images.push(Picture { mime: mime_type.clone(), data: data.clone() });
                    continue;
                }
                Content::Audio { mime_type, .. } => format!("[a sound, {mime_type}]"),
                Content::Resource { resource, .. } => match &resource.text {
                    Some(text) => format!("[{}]\n{text}", resource.uri),
                    None => format!("[{}, not text]", resource.uri),
                },
                Content::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
            };
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&words);
        }
        // No provider takes a result that says nothing.
        if text.is_empty() && images.is_empty() {
            text.push_str("(no output)");
        }
        ToolAnswer { id: wanted.id.clone(), name: wanted.name.clone(), text, images, is_error: !ok, call }
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Its media type, such as `image/png`.
    pub mime: String,
    /// Its bytes in Base64.
    pub data: String,
}

/// How much a request cost, as the provider counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request that were not in the provider's cache.
    #[serde(default)]
    pub input: u64,
    /// Those of them that the provider put into its cache, where it wants to be paid for that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written: u64,
    /// Tokens of the request that were.
    #[serde(default)]
    pub cached: u64,
    /// Tokens of the answer, thoughts included.
    #[serde(default)]
    pub output: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// Whether nothing was counted.
    pub fn is_nothing(&self) -> bool {
        self.total() == 0
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.cached).saturating_add(self.output)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        self.input = self.input.saturating_add(more.input);
        self.written = self.written.saturating_add(more.written);
        self.cached = self.cached.saturating_add(more.cached);
        self.output = self.output.saturating_add(more.output);
    }
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It has said what it had to say.
    Done,
    /// It waits for its calls.
    Calls,
    /// The answer reached the longest that was allowed.
    Length,
    /// It refuses, or its provider does.
    Refused,
    /// Anything else, in the provider's word.
    Other(String),
}
