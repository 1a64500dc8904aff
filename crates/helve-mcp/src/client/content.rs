//! A server's result as blocks of ours. Nothing is dropped: a block that has no counterpart becomes text.

use helve_core::output::About;
use helve_core::{Content, ServerReply, SharedReport};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// A whole result, from a server in this sandbox.
pub(crate) fn reply(result: CallToolResult, sandbox: Option<SharedReport>) -> ServerReply {
    // A list of its own: one made in the room of the server's would have to be cut to size.
    let mut content = Vec::with_capacity(result.content.len());
    content.extend(result.content.into_iter().map(block));
    ServerReply {
        content,
        structured: result.structured_content,
        is_error: result.is_error.unwrap_or(false),
        sandbox,
    }
}

fn block(block: ContentBlock) -> Content {
    match block {
        ContentBlock::Text(text) => {
            Content::Text { text: text.text, about: about(text.annotations.as_ref(), text.meta.as_ref()) }
        }
        ContentBlock::Image(image) => Content::Image {
            data: image.data,
            mime_type: image.mime_type,
            about: about(image.annotations.as_ref(), image.meta.as_ref()),
        },
        ContentBlock::Audio(audio) => Content::Audio {
            data: audio.data,
            mime_type: audio.mime_type,
            about: about(audio.annotations.as_ref(), audio.meta.as_ref()),
        },
        other => {
            let wire = value(&other).unwrap_or_default();
            serde_json::from_value(wire.clone()).unwrap_or_else(|_| Content::text(wire.to_string()))
        }
    }
}

fn about(annotations: Option<&impl Serialize>, meta: Option<&impl Serialize>) -> Option<Box<About>> {
    About::some(annotations.and_then(value), meta.and_then(value))
}

fn value(part: &impl Serialize) -> Option<Value> {
    serde_json::to_value(part).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn every_kind_comes_through_as_it_was() {
        let blocks = json!([
            {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"k": 1}},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "t://x", "mimeType": "text/plain", "text": "t"}},
            {"type": "resource", "resource": {"uri": "t://x", "blob": "AA=="}},
            {"type": "resource_link", "uri": "t://x", "name": "x", "description": "d"},
        ]);
        let result: CallToolResult = serde_json::from_value(
            json!({"content": blocks, "structuredContent": {"n": 1}, "isError": true}),
        )
        .unwrap();
        let reply = reply(result, None);
        assert_eq!(serde_json::to_value(&reply.content).unwrap(), blocks);
        assert_eq!((reply.structured, reply.is_error), (Some(json!({"n": 1})), true));
    }
}
