//! Requests that the SDK could not read as any of the protocol: of a method that there is not, or with params that it does not take.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, CustomRequest, ErrorCode, GetPromptRequestParams,
    InitializeRequestParams, PaginatedRequestParams, ReadResourceRequestParams, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Methods that the newer era has no more.
const OF_SESSIONS: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// What a request of the newer era says of its client.
const WITH_EACH: &str =
    "`io.modelcontextprotocol/protocolVersion` and `io.modelcontextprotocol/clientCapabilities`";

/// Why a request is refused.
pub(super) fn refusal(request: CustomRequest, is_stateless: bool) -> ErrorData {
    let CustomRequest { method, params, .. } = request;
    let why = match method.as_str() {
        gone if is_stateless && OF_SESSIONS.contains(&gone) => return unknown(method),
        "tools/call" => why::<CallToolRequestParams>(params),
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            why::<PaginatedRequestParams>(params)
        }
        "resources/read" => why::<ReadResourceRequestParams>(params),
        "resources/subscribe" => why::<SubscribeRequestParams>(params),
        "resources/unsubscribe" => why::<UnsubscribeRequestParams>(params),
        "prompts/get" => why::<GetPromptRequestParams>(params),
        "completion/complete" => why::<CompleteRequestParams>(params),
        "logging/setLevel" => why::<SetLevelRequestParams>(params),
        "initialize" => why::<InitializeRequestParams>(params),
        "subscriptions/listen" => why::<SubscriptionsListenRequestParams>(params),
        "server/discover" => format!("it takes an object with `_meta` alone, and in that {WITH_EACH}"),
        "ping" => "it takes an object or none".to_owned(),
        _ => return unknown(method),
    };
    ErrorData::invalid_params(format!("The params of {method} cannot be read: {why}."), None)
}

fn unknown(method: String) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
}

/// Why these are no such params.
fn why<P: DeserializeOwned>(params: Option<Value>) -> String {
    let Some(params) = params else { return "there are none".to_owned() };
    let read = serde_json::from_value::<P>(params);
    read.err().map_or_else(|| "what stands around them is unknown".to_owned(), |error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn a_method_that_there_is_is_not_called_unknown() {
        let refused = |method: &str, params: Value| refusal(CustomRequest::new(method, Some(params)), false);
        for (method, params, part) in [
            ("tools/call", json!({"name": 5}), "integer `5`"),
            ("tools/call", json!({}), "missing field `name`"),
            ("tools/call", json!({"name": "echo", "arguments": [1]}), "map"),
            ("resources/read", json!({}), "missing field `uri`"),
            ("logging/setLevel", json!({"level": "loud"}), "loud"),
            ("ping", json!([1]), "an object or none"),
            ("initialize", json!({}), "missing field `protocolVersion`"),
            ("subscriptions/listen", json!({}), "missing field `notifications`"),
            (
                "server/discover",
                json!({"a": 1}),
                "`_meta` alone, and in that `io.modelcontextprotocol/protocolVersion`",
            ),
        ] {
            let error = refused(method, params);
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{method}: {error:?}");
            assert!(error.message.contains(part) && error.message.contains(method), "{error:?}");
        }
        let bare = refusal(CustomRequest::new("server/discover", None), false);
        assert!(bare.message.contains("io.modelcontextprotocol/clientCapabilities"), "{bare:?}");
        let none = refusal(CustomRequest::new("tools/call", None), false);
        assert!(
            none.code == ErrorCode::INVALID_PARAMS && none.message.contains("there are none"),
            "{none:?}"
        );
        assert_eq!(refused("no/such", json!({})).code, ErrorCode::METHOD_NOT_FOUND);
        for method in OF_SESSIONS {
            let code = |is_stateless| refusal(CustomRequest::new(method, None), is_stateless).code;
            assert_eq!(
                (code(true), code(false)),
                (ErrorCode::METHOD_NOT_FOUND, ErrorCode::INVALID_PARAMS),
                "{method}"
            );
        }
    }
}
