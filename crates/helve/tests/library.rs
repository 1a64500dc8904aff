//! A program of somebody else's: its own tool shows up, validates, is refused by a policy, runs and is journalled.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

use helve::export::{Format, export};
use helve::{Call, Context, ErrorKind, Output, Policy, Runtime, ToolError, ToolSpec, TypedTool, typed};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct AddArgs {
    /// The first number.
    #[schemars(extend("x-aliases" = ["x"]))]
    a: i64,
    /// The second number.
    b: i64,
}

struct Add;

impl TypedTool for Add {
    type Args = AddArgs;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new("add", "Adds two numbers.", parameters).read_only()
    }

    async fn run(&self, args: AddArgs, _ctx: &Context) -> Result<Output, ToolError> {
        let sum = args.a.checked_add(args.b).ok_or_else(|| ToolError::failed("the sum is too large"))?;
        Ok(Output::text(sum.to_string()))
    }
}

fn runtime(root: &std::path::Path, policy: &str) -> Runtime {
    let policy = Policy::from_toml(policy).unwrap();
    let builder = Runtime::builder()
        .policy(policy)
        .workspace(root)
        .home(root.join("state"))
        .session("t")
        .register(typed(Add));
    helve::register_container_tools(helve::register_builtin_tools(builder)).build().unwrap()
}

fn kind(result: &helve::CallResult) -> Option<ErrorKind> {
    result.error.as_ref().map(|error| error.kind)
}

#[tokio::test]
async fn a_tool_of_ones_own_takes_the_same_way_as_ours() {
    let dir = tempfile::tempdir().unwrap();
    let open = runtime(dir.path(), "");
    let names: Vec<String> = open.specs().map(|spec| spec.name.clone()).collect();
    assert_eq!(names, ["add", "echo", "exec", "json", "read_output", "time"]);

    let sum = open.call(Call::new("add", json!({"x": "2", "b": 40.0}))).await;
    assert_eq!((sum.ok, sum.text().as_str()), (true, "42"));
    assert_eq!(kind(&open.call(Call::new("add", json!({"a": 1}))).await), Some(ErrorKind::InvalidParams));
    let too_large = open.call(Call::new("add", json!({"a": i64::MAX, "b": 1}))).await;
    assert_eq!(kind(&too_large), Some(ErrorKind::ToolFailed));

    let closed = runtime(dir.path(), "[tools.add]\nenabled = false");
    assert_eq!(kind(&closed.call(Call::new("add", json!({"a": 1, "b": 1}))).await), Some(ErrorKind::Blocked));

    let home = helve::store::Home::open(&dir.path().join("state")).unwrap();
    let report = helve::store::verify(&home, "t", None).unwrap();
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.entries, 8);
    let story = helve::store::read_call(&home, sum.call.as_str()).unwrap().unwrap();
    assert_eq!(story.planned["args"], json!({"a": 2, "b": 40}));
}

#[test]
fn the_schema_follows_from_the_struct() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(dir.path(), "");
    let add = runtime.specs().find(|spec| spec.name == "add").unwrap();
    let parameters = &export(&add, Format::Anthropic)["input_schema"];
    assert_eq!(
        parameters["properties"],
        json!({
            "a": {"description": "The first number.", "type": "integer"},
            "b": {"description": "The second number.", "type": "integer"},
        })
    );
    assert_eq!(parameters["required"], json!(["a", "b"]));
}

/// The formats that a schema names. A property that is called `format` has a schema and no text.
fn formats(schema: &Value) -> Vec<&str> {
    match schema {
        Value::Object(members) => {
            let own = members.get("format").and_then(Value::as_str);
            own.into_iter().chain(members.values().flat_map(formats)).collect()
        }
        Value::Array(items) => items.iter().flat_map(formats).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn no_schema_names_a_format_that_the_standard_does_not_know() {
    let known = [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uuid",
        "regex",
    ];
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(dir.path(), "");
    for spec in runtime.specs() {
        for schema in [Some(&spec.parameters), spec.output_schema.as_ref()].into_iter().flatten() {
            let unknown: Vec<&str> =
                formats(schema).into_iter().filter(|name| !known.contains(name)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", spec.name);
        }
    }
}

#[test]
fn the_manual_names_every_tool_and_every_limit() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime(dir.path(), "[limits]\noutput_chars = 1234");
    let manual = helve::manual(runtime.specs(), runtime.policy());
    for spec in runtime.specs() {
        assert!(manual.contains(&format!("## {}\n", spec.name)), "{}", spec.name);
    }
    for limit in helve::Limits::TABLE {
        assert!(manual.contains(&format!("| {} |", limit.name)), "{}", limit.name);
    }
    for limit in helve::limits::fixed::TABLE {
        assert!(
            manual.contains(&format!("| {} | {} {} |", limit.what, limit.value, limit.unit)),
            "{limit:?}"
        );
    }
    assert!(manual.contains("at most 1234 characters"));
}

#[test]
fn the_bounds_in_schemas_are_those_of_the_manual() {
    use helve::limits::fixed;
    let dir = tempfile::tempdir().unwrap();
    let builder = Runtime::builder().home(dir.path().join("home"));
    let runtime = helve::register_file_tools(builder).build().unwrap();
    for (tool, pointer, value) in [
        ("edit_file", "/edits/maxItems", fixed::EDITS),
        ("apply_patch", "/edits/maxItems", fixed::EDITS),
        ("list_dir", "/limit/maximum", fixed::LIST_ENTRIES),
        ("list_dir", "/depth/maximum", fixed::LIST_DEPTH),
        ("glob", "/limit/maximum", fixed::GLOB_PATHS),
        ("grep", "/limit/maximum", fixed::GREP_MATCHES),
        ("grep", "/context/maximum", fixed::GREP_CONTEXT),
        ("grep", "/before/maximum", fixed::GREP_CONTEXT),
        ("grep", "/after/maximum", fixed::GREP_CONTEXT),
        ("grep", "/skip/maximum", fixed::GREP_SKIP),
        ("grep", "/pattern/maxLength", fixed::GREP_PATTERN),
    ] {
        let spec = runtime.specs().find(|spec| spec.name == tool).unwrap();
        assert_eq!(spec.parameters["properties"].pointer(pointer), Some(&json!(value)), "{tool}{pointer}");
    }
}

#[test]
fn protected_names_are_those_of_the_built_in_tools() {
    let dir = tempfile::tempdir().unwrap();
    let full = runtime(dir.path(), "");
    let names = full.specs().filter(|spec| spec.name != "add");
    for name in names.flat_map(|spec| std::iter::once(spec.name.clone()).chain(spec.aliases.clone())) {
        let schema = json!({"type": "object", "properties": {}});
        let builder = Runtime::builder()
            .home(dir.path().join("state"))
            .register(Impostor(ToolSpec::new(&name, "", schema)));
        let refused = builder.build().err().map(|error| error.to_string());
        assert!(refused.is_some_and(|error| error.contains("reserved")), "{name}");
    }
}

struct Impostor(ToolSpec);

impl helve::Tool for Impostor {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: Value, _: &'a Context) -> helve::BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async { Ok(Output::text("")) })
    }
}
