//! A tool of one's own behind Helve's pipeline: declared, validated, authorized, run and recorded like any other.
//!
//! Run it with `cargo run -p greeter`. It makes a workspace and a state directory of its own and removes them.

use helve::{Call, Context, Output, Policy, Runtime, ToolError, ToolSpec, TypedTool, typed};
use serde_json::{Value, json};

/// Greets somebody.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct GreetArgs {
    /// Whom to greet.
    #[schemars(extend("x-aliases" = ["who"]))]
    name: String,
    /// How often.
    #[serde(default = "once")]
    #[schemars(range(min = 1, max = 3), extend("x-clamp" = true))]
    times: u32,
}

fn once() -> u32 {
    1
}

struct Greet;

impl TypedTool for Greet {
    type Args = GreetArgs;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new("greet", "Greets somebody by name.", parameters).read_only()
    }

    async fn run(&self, args: GreetArgs, ctx: &Context) -> Result<Output, ToolError> {
        ctx.progress().note("greeting");
        let greeting = format!("Hello, {}!", args.name);
        let times = usize::try_from(args.times).unwrap_or(1);
        Ok(Output::text(vec![greeting; times].join("\n")))
    }
}

fn runtime(policy: Policy, root: &std::path::Path) -> Result<Runtime, helve::BuildError> {
    let builder = Runtime::builder()
        .policy(policy)
        .workspace(root.join("workspace"))
        .home(root.join("state"))
        .session("greeter")
        .register(typed(Greet));
    helve::register_builtin_tools(builder).build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = tempfile::tempdir()?;
    std::fs::create_dir(root.path().join("workspace"))?;
    let runtime_open = runtime(Policy::builtin(), root.path())?;
    show("tools", runtime_open.specs().map(|spec| spec.name.clone()).collect::<Vec<_>>().join(" "));

    let results = runtime_open
        .batch(vec![
            Call::new("greet", json!({"who": "world", "times": "2"})),
            Call::new("greet", json!({"nme": "world"})),
            Call::new("echo", json!({"message": "side by side"})),
        ])
        .await;
    for result in &results {
        show(&result.tool, result.text());
    }

    let closed = runtime(Policy::from_toml("[tools.greet]\nenabled = false\n")?, root.path())?;
    show("refused", closed.call(Call::new("greet", json!({"name": "world"}))).await.text());

    let home = helve::store::Home::open(&root.path().join("state"))?;
    let report = helve::store::verify(&home, "greeter", None)?;
    show("journal", format!("{} entries, sound: {}", report.entries, report.is_ok()));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example program shows what it does")]
fn show(title: &str, text: String) {
    println!("[{title}]\n{text}\n");
}
