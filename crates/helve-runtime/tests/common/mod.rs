//! Tools and a sandbox that tests can look into.
#![allow(dead_code, reason = "each test program uses its own part")]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot set up must fail loudly")]

pub(crate) mod asking;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helve_core::{
    Access, BoxFuture, Cancel, CommandUse, Context, Ended, Exit, Lane, Output, OutputSink, SandboxReport,
    ShellBackend, ShellJob, ShellRequest, Stream, Tool, ToolError, ToolSpec,
};
use helve_policy::Policy;
use helve_runtime::{Runtime, RuntimeBuilder};
use serde_json::{Value, json};

type Body = dyn for<'a> Fn(Value, &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> + Send + Sync;

/// A tool made of a spec and a function.
pub(crate) struct Fake {
    spec: ToolSpec,
    access: fn(&Value) -> Access,
    body: Box<Body>,
}

impl Fake {
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.spec.name = name.to_owned();
        self
    }

    pub(crate) fn with_access(mut self, access: fn(&Value) -> Access) -> Self {
        self.access = access;
        self
    }

    pub(crate) fn without_access(mut self) -> Self {
        self.access = |_| Access::default();
        self
    }

    pub(crate) fn crashing_when_asked(mut self) -> Self {
        self.access = |_| panic!("boom");
        self
    }

    /// With one more parameter.
    pub(crate) fn with_parameter(mut self, name: &str, schema: Value) -> Self {
        self.spec.parameters["properties"][name] = schema;
        self
    }

    /// Runs with another command than the one it names in `access`.
    pub(crate) fn rewriting(mut self, command: fn(&str) -> String) -> Self {
        let body = self.body;
        self.body = Box::new(move |mut args, ctx| {
            args["command"] = json!(command(args["command"].as_str().unwrap_or_default()));
            body(args, ctx)
        });
        self
    }
}

impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, args: &Value) -> Access {
        (self.access)(args)
    }

    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        (self.body)(args, ctx)
    }
}

pub(crate) fn open_schema() -> Value {
    json!({"type": "object", "properties": {}})
}

pub(crate) fn fake<F>(spec: ToolSpec, body: F) -> Fake
where
    F: for<'a> Fn(Value, &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> + Send + Sync + 'static,
{
    Fake { spec, access: |_| Access::default(), body: Box::new(body) }
}

/// A tool that says what it is told to say.
pub(crate) fn says(name: &str, text: &'static str) -> Fake {
    let spec = ToolSpec::new(name, "Says it.", open_schema()).read_only();
    fake(spec, move |_, _| Box::pin(async move { Ok(Output::text(text)) }))
}

/// A tool of the sandbox lane that runs its `command`.
pub(crate) fn shell_tool() -> Fake {
    let schema =
        json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    let spec = ToolSpec::new("sh", "Runs it.", schema)
        .exclusive()
        .lane(Lane::Sandbox)
        .approval(helve_core::ApprovalNeed::UnlessAutoApproved);
    let mut tool = fake(spec, |args, ctx| {
        Box::pin(async move {
            let request = ShellRequest {
                command: args["command"].as_str().unwrap_or_default().to_owned(),
                working_dir: None,
                timeout: std::time::Duration::from_secs(5),
            };
            let output = ctx.shell()?.run(request).await?;
            let blob = output.blob.map(|blob| blob.id);
            let taken = output.taken_out.into_iter().map(|file| {
                json!({"path": file.path, "why": file.why, "blob": file.blob.map(|blob| (blob.id, blob.bytes))})
            });
            let taken = taken.collect::<Value>();
            let details = json!({"blob": blob, "taken_out": taken, "refused": output.refused});
            Ok(Output::text(output.stdout.text().unwrap_or_default()).with_details(details))
        })
    });
    tool.access = |args| Access {
        commands: vec![CommandUse {
            command: args["command"].as_str().unwrap_or_default().into(),
            working_dir: None,
        }],
        ..Access::default()
    };
    tool
}

/// A sandbox that prints what it is told, in the pieces it is told.
pub(crate) struct Printer {
    pub(crate) contained: bool,
    pub(crate) pieces: Vec<&'static str>,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl ShellBackend for Printer {
    fn report(&self) -> SandboxReport {
        SandboxReport { backend: "printer".into(), layers: Vec::new() }
    }

    fn contains(&self) -> bool {
        self.contained
    }

    fn run<'a>(
        &'a self,
        _job: ShellJob,
        mut sink: Box<dyn OutputSink>,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move {
            self.runs.fetch_add(1, Ordering::SeqCst);
            for piece in &self.pieces {
                sink.chunk(Stream::Stdout, piece.as_bytes());
            }
            // A layer that only the run itself knows of.
            let sandbox = SandboxReport { layers: vec!["ink".into()], ..self.report() };
            Ok(Ended::plain(Exit::Code(0), sandbox))
        })
    }
}

/// A runtime in `root` under a policy in TOML.
pub(crate) fn builder(root: &Path, policy: &str) -> RuntimeBuilder {
    let policy = Policy::from_toml(policy).expect("the policy of the test loads");
    Runtime::builder().policy(policy).workspace(root).home(root.join("state")).session("test")
}

/// Everything in the journal.
pub(crate) fn journal(root: &Path) -> String {
    std::fs::read_to_string(root.join("state/sessions/test/journal.jsonl")).unwrap_or_default()
}
