//! The tools that the suite calls, by the names that it knows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helve::{
    BoxFuture, Content, Context, EmbeddedResource, ErrorKind, LogLevel, Output, QuestionKind, Runtime, Tool,
    ToolError, ToolSpec,
};
use serde_json::{Value, json};
use tokio::sync::watch;

/// A picture of one red pixel.
pub(crate) const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// No sound at all.
const SOUND: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

type Work = Arc<dyn for<'a> Fn(Value, &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> + Send + Sync>;

/// A tool that is a function.
pub(crate) struct Fixture {
    spec: ToolSpec,
    work: Work,
}

impl Tool for Fixture {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        (self.work)(args, ctx)
    }
}

/// A tool that takes what `properties` says.
fn tool(name: &str, parameters: Value, work: Work) -> Fixture {
    let spec = ToolSpec::new(name, format!("A fixture of the conformance suite: {name}."), parameters);
    Fixture { spec: spec.read_only(), work }
}

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// A tool without parameters that always answers the same.
fn fixed(name: &str, content: Vec<Content>) -> Fixture {
    let work: Work = Arc::new(move |_, _| {
        let output = Output { content: content.clone(), ..Output::default() };
        Box::pin(async move { Ok(output) })
    });
    tool(name, no_parameters(), work)
}

/// One question that a tool asks: its key, its kind, its parameters.
type Asks = (&'static str, QuestionKind, Value);

/// Asks a question of the program at the other end.
async fn ask(ctx: &Context, (key, kind, params): Asks) -> Result<Value, ToolError> {
    let nobody = || ToolError::new(ErrorKind::ApprovalRequired, "There is nobody to ask.");
    ctx.peer().ok_or_else(nobody)?.ask(key, kind, params).await
}

fn form(message: &str, properties: Value, required: Value) -> Value {
    json!({
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": required},
    })
}

fn name_form(key: &'static str) -> Asks {
    let form = form("What is your name?", json!({"name": {"type": "string"}}), json!(["name"]));
    (key, QuestionKind::Form, form)
}

fn sample(key: &'static str, prompt: &str) -> Asks {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    (key, QuestionKind::Sample, json!({"messages": [message], "maxTokens": 100}))
}

fn roots(key: &'static str) -> Asks {
    (key, QuestionKind::Roots, Value::Null)
}

/// A tool that asks its questions one after the other or all at once, and then answers.
fn asking(name: &str, rounds: Vec<Vec<Asks>>, answer: fn(&[Value]) -> String) -> Fixture {
    let work: Work = Arc::new(move |_, ctx| {
        let rounds = rounds.clone();
        Box::pin(async move {
            let mut answers = Vec::new();
            for round in rounds {
                // All of a round are asked before the first is missed.
                let mut asked = Vec::new();
                for question in round {
                    asked.push(ask(ctx, question).await);
                }
                for one in asked {
                    answers.push(one?);
                }
            }
            Ok(Output::text(answer(&answers)))
        })
    });
    tool(name, no_parameters(), work)
}

fn text_of(answer: &Value) -> String {
    let content = &answer["content"];
    let text = content["text"].as_str().or_else(|| content[0]["text"].as_str());
    text.unwrap_or("(no text)").to_owned()
}

/// A tool that asks one form and says what came back.
fn form_tool(name: &str, parameters: Value, params: fn(&Value) -> Value) -> Fixture {
    let work: Work = Arc::new(move |args, ctx| {
        Box::pin(async move {
            let answer = ask(ctx, ("form", QuestionKind::Form, params(&args))).await?;
            let action = answer["action"].as_str().unwrap_or("unknown");
            Ok(Output::text(format!("User response: action={action}, content={}", answer["content"])))
        })
    });
    tool(name, parameters, work)
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Content {
    let (uri, mime_type) = (uri.to_owned(), Some(mime_type.to_owned()));
    Content::resource(EmbeddedResource { uri, mime_type, text: Some(text.to_owned()), ..Default::default() })
}

fn contents() -> Vec<Fixture> {
    vec![
        fixed("test_simple_text", vec![Content::text("This is a simple text response for testing.")]),
        fixed("test_image_content", vec![Content::image(PICTURE, "image/png")]),
        fixed("test_audio_content", vec![Content::audio(SOUND, "audio/wav")]),
        fixed(
            "test_embedded_resource",
            vec![resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
        ),
        fixed(
            "test_multiple_content_types",
            vec![
                Content::text("Multiple content types test:"),
                Content::image(PICTURE, "image/png"),
                resource(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ],
        ),
        tool(
            "test_error_handling",
            no_parameters(),
            Arc::new(|_, _| {
                Box::pin(async {
                    Err(ToolError::failed("This tool intentionally returns an error for testing"))
                })
            }),
        ),
    ]
}

fn told() -> Vec<Fixture> {
    vec![
        tool(
            "test_tool_with_logging",
            no_parameters(),
            Arc::new(|_, ctx| {
                Box::pin(async move {
                    for said in ["Tool execution started", "Tool processing data", "Tool execution completed"]
                    {
                        if let Some(peer) = ctx.peer() {
                            peer.log(LogLevel::Info, Some("conformance"), json!(said));
                        }
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Ok(Output::text("Logging test completed"))
                })
            }),
        ),
        tool(
            "test_logging_tool",
            no_parameters(),
            Arc::new(|_, ctx| {
                if let Some(peer) = ctx.peer() {
                    peer.log(LogLevel::Error, Some("conformance"), json!("a level was asked for"));
                }
                Box::pin(async { Ok(Output::text("Logging tool completed")) })
            }),
        ),
        tool(
            "test_tool_with_progress",
            no_parameters(),
            Arc::new(|_, ctx| {
                Box::pin(async move {
                    for (done, said) in [(0.0, "Starting"), (50.0, "Halfway"), (100.0, "Complete")] {
                        ctx.progress().step(done, Some(100.0), said);
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Ok(Output::text("Progress test completed"))
                })
            }),
        ),
        tool(
            "test_reconnection",
            no_parameters(),
            Arc::new(|_, _| {
                Box::pin(async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Ok(Output::text("Reconnection test completed"))
                })
            }),
        ),
    ]
}

fn schemas() -> Vec<Fixture> {
    let full = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "address",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "if": {"required": ["address"]},
        "then": {"properties": {"address": {"required": ["street"]}}},
        "else": {"required": ["name"]},
        "additionalProperties": false,
    });
    let header = json!({
        "type": "object",
        "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
        "required": ["value"],
    });
    let said = |name: &'static str| -> Work {
        Arc::new(move |args, _| {
            let said = args[name].as_str().unwrap_or("nobody").to_owned();
            Box::pin(async move { Ok(Output::text(said)) })
        })
    };
    vec![
        tool("json_schema_2020_12_tool", full, said("name")),
        tool("test_custom_header", header, said("value")),
    ]
}

fn questions() -> Vec<Fixture> {
    let word =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let sampling: Work = Arc::new(|args, ctx| {
        Box::pin(async move {
            let prompt = args["prompt"].as_str().unwrap_or_default();
            let answer = ask(ctx, sample("prompt", prompt)).await?;
            Ok(Output::text(format!("LLM response: {}", text_of(&answer))))
        })
    });
    vec![
        tool("test_sampling", word("prompt"), sampling),
        form_tool("test_elicitation", word("message"), |args| {
            let fields = json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            });
            form(args["message"].as_str().unwrap_or_default(), fields, json!(["username", "email"]))
        }),
        form_tool("test_elicitation_sep1034_defaults", no_parameters(), |_| {
            let fields = json!({
                "name": {"type": "string", "description": "User's name", "default": "John Doe"},
                "age": {"type": "integer", "description": "User's age", "default": 30},
                "score": {"type": "number", "description": "User's score", "default": 95.5},
                "status": {"type": "string", "description": "User's status",
                    "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "description": "Whether user is verified", "default": true},
            });
            form("Please provide values (all have defaults)", fields, json!([]))
        }),
        form_tool("test_elicitation_sep1330_enums", no_parameters(), |_| form("Choose", enums(), json!([]))),
        asking("test_missing_capability", vec![vec![sample("needed", "Hello")]], |_| "Declared".to_owned()),
        asking("test_streaming_elicitation", vec![vec![name_form("streaming_elicitation")]], |_| {
            "Done".to_owned()
        }),
    ]
}

fn enums() -> Value {
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}

fn rounds() -> Vec<Fixture> {
    let confirm = || {
        let form = form("Please confirm", json!({"ok": {"type": "boolean"}}), json!(["ok"]));
        vec![vec![("confirm", QuestionKind::Form, form)]]
    };
    let all =
        || vec![name_form("user_name"), sample("greeting", "Generate a greeting"), roots("client_roots")];
    let step = |key, field: &str, message: &str| {
        (key, QuestionKind::Form, form(message, json!({field: {"type": "string"}}), json!([field])))
    };
    let steps = vec![
        vec![step("step1", "name", "Step 1: What is your name?")],
        vec![step("step2", "color", "Step 2: What is your favorite color?")],
    ];
    // Only what the client takes is asked.
    let capable: Work = Arc::new(move |_, ctx| {
        Box::pin(async move {
            let mut missed = None;
            for question in all() {
                if ctx.peer().is_some_and(|peer| peer.takes(question.1)) {
                    missed = ask(ctx, question).await.err().or(missed);
                }
            }
            missed.map_or_else(|| Ok(Output::text("Capability-aware flow complete")), Err)
        })
    });
    let named = |what: &str| format!("test_input_required_result_{what}");
    vec![
        asking(&named("elicitation"), vec![vec![name_form("user_name")]], |answers| {
            format!("Hello, {}!", answers[0]["content"]["name"].as_str().unwrap_or("friend"))
        }),
        asking(
            &named("sampling"),
            vec![vec![sample("capital_question", "What is the capital of France?")]],
            |answers| format!("Sampling response: {}", text_of(&answers[0])),
        ),
        asking(&named("list_roots"), vec![vec![roots("client_roots")]], |answers| {
            format!("Client roots: {}", answers[0]["roots"])
        }),
        asking(&named("request_state"), confirm(), |_| "Confirmed: state-ok".to_owned()),
        asking(&named("tampered_state"), confirm(), |_| "Confirmed: state-ok".to_owned()),
        asking(&named("multiple_inputs"), vec![all()], |_| "All inputs received".to_owned()),
        asking(&named("multi_round"), steps, |_| "Multi-round flow complete".to_owned()),
        tool(&named("capabilities"), no_parameters(), capable),
    ]
}

/// Tools that change what is listed.
fn changes(runtime: &Arc<OnceLock<Runtime>>, prompts: &Arc<watch::Sender<u64>>) -> Vec<Fixture> {
    let (runtime, prompts) = (Arc::downgrade(runtime), Arc::clone(prompts));
    let count = AtomicU64::new(0);
    let tools: Work = Arc::new(move |_, _| {
        if let Some(runtime) = runtime.upgrade()
            && let Some(runtime) = runtime.get()
        {
            // Another one each time: a list that is the same has not changed.
            let name = format!("test_that_came_later_{}", count.fetch_add(1, Ordering::Relaxed));
            let one = fixed(&name, vec![Content::text("Here.")]);
            runtime.set_tools("later", vec![Box::new(one)]);
        }
        Box::pin(async { Ok(Output::text("Tool list change triggered")) })
    });
    let prompts: Work = Arc::new(move |_, _| {
        prompts.send_modify(|version| *version += 1);
        Box::pin(async { Ok(Output::text("Prompt list change triggered")) })
    });
    vec![
        tool("test_trigger_tool_change", no_parameters(), tools),
        tool("test_trigger_prompt_change", no_parameters(), prompts),
    ]
}

/// All of them.
pub(crate) fn all(runtime: &Arc<OnceLock<Runtime>>, prompts: &Arc<watch::Sender<u64>>) -> Vec<Fixture> {
    let groups = [contents(), told(), schemas(), questions(), rounds(), changes(runtime, prompts)];
    groups.into_iter().flatten().collect()
}
