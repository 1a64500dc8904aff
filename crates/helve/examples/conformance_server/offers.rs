//! The resources and prompts that the suite looks for, beside the tools of the runtime.

use std::sync::{Arc, OnceLock};

use helve::mcp::serve::RuntimeHost;
use helve::mcp::server::{AtOnce, Host, HostCall, Line};
use helve::{BoxFuture, CallResult, EmbeddedResource, Peer, QuestionKind, Runtime, ToolError, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::fixtures::PICTURE;

pub(crate) struct FixtureHost {
    inner: RuntimeHost,
    prompts: watch::Receiver<u64>,
    updates: broadcast::Sender<String>,
    /// What the tool that changes the tools reaches them through: it lasts as long as the host.
    _runtime: Arc<OnceLock<Runtime>>,
}

impl FixtureHost {
    pub(crate) fn new(
        inner: RuntimeHost,
        prompts: watch::Receiver<u64>,
        runtime: Arc<OnceLock<Runtime>>,
    ) -> Self {
        FixtureHost { inner, prompts, updates: broadcast::channel(4).0, _runtime: runtime }
    }
}

fn text(uri: &str, mime_type: &str, text: String) -> EmbeddedResource {
    let (uri, mime_type) = (uri.to_owned(), Some(mime_type.to_owned()));
    EmbeddedResource { uri, mime_type, text: Some(text), ..EmbeddedResource::default() }
}

fn message(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn said(text: impl Into<String>) -> Value {
    message(json!({"type": "text", "text": text.into()}))
}

impl Host for FixtureHost {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.inner.tools()
    }

    fn tools_version(&self) -> watch::Receiver<u64> {
        self.inner.tools_version()
    }

    fn call(&self, call: HostCall) -> BoxFuture<'_, Box<CallResult>> {
        self.inner.call(call)
    }

    fn at_once(&self, client: &str, peer: Arc<dyn Peer>) -> Option<Box<dyn AtOnce>> {
        self.inner.at_once(client, peer)
    }

    fn resources(&self) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        let all = vec![
            json!({"uri": "test://static-text", "name": "Static Text Resource",
                "description": "A static text resource for testing", "mimeType": "text/plain"}),
            json!({"uri": "test://static-binary", "name": "Static Binary Resource",
                "description": "A static binary resource for testing", "mimeType": "image/png"}),
            json!({"uri": "test://watched-resource", "name": "Watched Resource",
                "description": "A resource that can be watched", "mimeType": "text/plain"}),
        ];
        Box::pin(async { Ok(all) })
    }

    fn resource_templates(&self) -> BoxFuture<'_, Vec<Value>> {
        let template = json!({"uriTemplate": "test://template/{id}/data", "name": "Dynamic Resource",
            "description": "A resource with a parameter", "mimeType": "application/json"});
        Box::pin(async { vec![template] })
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        _client: String,
        _line: Line,
    ) -> BoxFuture<'a, Result<Vec<EmbeddedResource>, ToolError>> {
        Box::pin(async move {
            let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
            let one = match (uri, id) {
                ("test://static-text", _) => {
                    text(uri, "text/plain", "This is the content of the static text resource.".to_owned())
                }
                ("test://watched-resource", _) => text(uri, "text/plain", "Watched.".to_owned()),
                ("test://static-binary", _) => EmbeddedResource {
                    uri: uri.to_owned(),
                    mime_type: Some("image/png".to_owned()),
                    blob: Some(PICTURE.to_owned()),
                    ..EmbeddedResource::default()
                },
                (_, Some(id)) => {
                    let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                    text(uri, "application/json", data.to_string())
                }
                _ => return Err(ToolError::not_found("There is no such resource.")),
            };
            Ok(vec![one])
        })
    }

    fn updates(&self) -> Option<broadcast::Receiver<String>> {
        Some(self.updates.subscribe())
    }

    fn prompts(&self) -> BoxFuture<'_, Vec<Value>> {
        let argument = |name: &str, required: bool| json!({"name": name, "description": format!("The argument {name}"), "required": required});
        let plain = |name: &str| json!({"name": name, "description": format!("A test prompt: {name}")});
        let mut with_arguments = plain("test_prompt_with_arguments");
        with_arguments["arguments"] = json!([argument("arg1", true), argument("arg2", false)]);
        let all = vec![
            plain("test_simple_prompt"),
            with_arguments,
            plain("test_prompt_with_embedded_resource"),
            plain("test_prompt_with_image"),
            plain("test_input_required_result_prompt"),
        ];
        Box::pin(async { all })
    }

    fn prompts_version(&self) -> Option<watch::Receiver<u64>> {
        Some(self.prompts.clone())
    }

    fn prompt<'a>(
        &'a self,
        name: &'a str,
        args: Value,
        _client: String,
        line: Line,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let messages = match name {
                "test_simple_prompt" => vec![said("This is a simple test prompt.")],
                "test_prompt_with_arguments" => {
                    let arg = |name: &str| args[name].as_str().unwrap_or_default().to_owned();
                    let text =
                        format!("Prompt with arguments: arg1='{}', arg2='{}'", arg("arg1"), arg("arg2"));
                    vec![said(text)]
                }
                "test_prompt_with_embedded_resource" => {
                    let uri = args["resourceUri"].as_str().unwrap_or("test://static-text");
                    let resource =
                        json!({"uri": uri, "mimeType": "text/plain", "text": "Embedded resource content."});
                    vec![
                        message(json!({"type": "resource", "resource": resource})),
                        said("Please process the embedded resource above."),
                    ]
                }
                "test_prompt_with_image" => vec![
                    message(json!({"type": "image", "data": PICTURE, "mimeType": "image/png"})),
                    said("Please analyze the image above."),
                ],
                "test_input_required_result_prompt" => {
                    let fields = json!({"context": {"type": "string"}});
                    let schema = json!({"type": "object", "properties": fields, "required": ["context"]});
                    let form =
                        json!({"message": "What context should the prompt use?", "requestedSchema": schema});
                    let answer = line.peer.ask("user_context", QuestionKind::Form, form).await?;
                    vec![said(format!("Prompt with context: {}", answer["content"]["context"]))]
                }
                _ => return Err(ToolError::not_found("There is no such prompt.")),
            };
            Ok(json!({"description": format!("The prompt {name}"), "messages": messages}))
        })
    }

    fn complete(&self, _params: Value) -> BoxFuture<'_, Result<Value, ToolError>> {
        Box::pin(async {
            Ok(json!({"completion": {"values": ["one", "two"], "total": 2, "hasMore": false}}))
        })
    }
}
