//! A context with a shell and a store that tests fill by hand, a way to run a tool in it, and the runner of the cases
//! in `tests/cases`.

use std::sync::{Arc, Mutex};

use helve_core::context::{Parts, assemble};
use helve_core::{
    BlobRef, Blobs, BoxFuture, CallId, Cancel, Capture, Context, Ended, Exit, Explained, LimitHit, Limits,
    Output, Progress, SandboxReport, Shell, ShellOutput, ShellRequest, TakenOut, Tool, ToolError,
};
use pretty_assertions::assert_eq;
use serde_json::Value;

/// What the fake lanes answer.
pub(crate) struct Fake {
    pub(crate) limits: Limits,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
    pub(crate) limit: Option<LimitHit>,
    pub(crate) left_running: u64,
    pub(crate) refused: Vec<Explained>,
    pub(crate) taken_out: Vec<TakenOut>,
    /// The shell says that it kept the whole output, and that so many bytes did not fit.
    pub(crate) kept: Option<u64>,
    /// The one blob that the store has, found under any name that starts with `c_`.
    pub(crate) blob: Option<Vec<u8>>,
    /// The most that the store gives in one read.
    pub(crate) read_size: usize,
    pub(crate) cancel: Cancel,
    pub(crate) requests: Arc<Mutex<Vec<ShellRequest>>>,
}

impl Default for Fake {
    fn default() -> Self {
        Fake {
            limits: Limits::default(),
            stdout: String::new(),
            stderr: String::new(),
            exit: Exit::Code(0),
            limit: None,
            left_running: 0,
            refused: Vec::new(),
            taken_out: Vec::new(),
            kept: None,
            blob: None,
            read_size: usize::MAX,
            cancel: Cancel::never(),
            requests: Arc::default(),
        }
    }
}

struct FakeShell {
    output: ShellOutput,
    requests: Arc<Mutex<Vec<ShellRequest>>>,
}

impl Shell for FakeShell {
    fn run(&self, request: ShellRequest) -> BoxFuture<'_, Result<ShellOutput, ToolError>> {
        self.requests.lock().unwrap().push(request);
        Box::pin(async { Ok(self.output.clone()) })
    }
}

struct FakeBlobs {
    bytes: Vec<u8>,
    dropped: u64,
    read_size: usize,
}

pub(crate) const BLOB: &str = "b3:0123456789abcdef";

impl Blobs for FakeBlobs {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<BlobRef, ToolError>> {
        let found = name.starts_with("c_") || name == BLOB;
        let blob = BlobRef { id: BLOB.into(), bytes: self.bytes.len() as u64, dropped: self.dropped };
        Box::pin(async move {
            found
                .then_some(blob)
                .ok_or_else(|| ToolError::not_found(format!("No output is kept for '{name}'.")))
        })
    }

    fn read<'a>(&'a self, id: &'a str, offset: u64, len: usize) -> BoxFuture<'a, Result<Vec<u8>, ToolError>> {
        assert_eq!(id, BLOB);
        let from = usize::try_from(offset).unwrap().min(self.bytes.len());
        let to = from + len.min(self.read_size).min(self.bytes.len() - from);
        Box::pin(async move { Ok(self.bytes[from..to].to_vec()) })
    }
}

impl Fake {
    pub(crate) fn blob(bytes: impl Into<Vec<u8>>) -> Fake {
        Fake { blob: Some(bytes.into()), ..Fake::default() }
    }

    pub(crate) fn context(self) -> Context {
        let keep = usize::try_from(self.limits.output_chars).unwrap();
        let capture = |text: &str| {
            let mut capture = Capture::new(keep);
            capture.push(text);
            capture
        };
        let bytes = (self.stdout.len() + self.stderr.len()) as u64;
        let output = ShellOutput {
            stdout: capture(&self.stdout),
            stderr: capture(&self.stderr),
            ended: Ended {
                limit: self.limit,
                left_running: self.left_running,
                denied: Vec::new(),
                ..Ended::plain(self.exit, SandboxReport::default())
            },
            refused: self.refused,
            taken_out: self.taken_out,
            blob: self.kept.map(|dropped| BlobRef { id: BLOB.into(), bytes: bytes - dropped, dropped }),
            layer: None,
        };
        let call = CallId::from_parts(1, 1);
        let blobs = FakeBlobs {
            bytes: self.blob.unwrap_or_default(),
            dropped: self.kept.unwrap_or(0),
            read_size: self.read_size,
        };
        assemble(Parts {
            call: call.clone(),
            caller: "owner".into(),
            limits: Arc::new(self.limits),
            shell: Some(Box::new(FakeShell { output, requests: self.requests })),
            files: None,
            net: None,
            blobs: Some(Arc::new(blobs)),
            servers: None,
            peer: None,
            progress: Progress::new(call, None),
            cancel: self.cancel,
        })
    }
}

/// The tool of that name, made with these limits.
pub(crate) fn tool(name: &str, limits: &Limits) -> Box<dyn Tool> {
    let mut tools = crate::builtin_tools();
    tools.extend(crate::container_tools(&crate::ShellDefaults::from(limits)));
    tools.into_iter().find(|tool| tool.spec().name == name).unwrap()
}

/// Runs a tool with arguments that are taken to be valid.
pub(crate) async fn run(name: &str, args: Value, fake: Fake) -> Result<Output, ToolError> {
    let tool = tool(name, &fake.limits);
    let context = fake.context();
    tool.run(args, &context).await
}

/// Runs cases, one JSON object a line. Each has `args` and either `text` with the `details` that must be there, or the
/// `error` kind with a part of its `message` and of its `hint`.
pub(crate) fn run_cases(cases: &str, ask: impl Fn(Value) -> Result<Output, ToolError>) {
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let answer = ask(case["args"].clone());
        match case["error"].as_str() {
            None => {
                let output = answer.unwrap_or_else(|error| panic!("{line}\n{error}"));
                assert_eq!(output.joined_text(), case["text"].as_str().unwrap(), "{line}");
                for (key, value) in case["details"].as_object().into_iter().flatten() {
                    assert_eq!(&output.details[key], value, "{line}");
                }
            }
            Some(kind) => {
                let error = answer.err().unwrap_or_else(|| panic!("{line} is not an error"));
                assert_eq!(error.kind.name(), kind, "{line}");
                let has = |text: &str, key: &str| text.contains(case[key].as_str().unwrap_or_default());
                assert!(has(&error.message, "message"), "{line}\n{}", error.message);
                assert!(has(error.hint.as_deref().unwrap_or_default(), "hint"), "{line}\n{:?}", error.hint);
            }
        }
    }
}
