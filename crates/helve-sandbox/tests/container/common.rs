//! What the suites share: a workspace, a view, one run of a command.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_core::{
    Cancel, ContainerChoice, Ended, Explain, Network, OutputSink, ProcessLimits, SandboxChoice, ShellBackend,
    ShellJob, Stream, ToolError, View, Work,
};

use crate::engine::{Engine, TOOLS};

pub(crate) const LIMITS: ProcessLimits = ProcessLimits {
    open_files: 256,
    file_bytes: 64 << 20,
    memory_bytes: 128 << 20,
    processes: 64,
    cpu_seconds: 60,
    disk_bytes: 1 << 30,
    tmp_bytes: 16 << 20,
};

/// One engine at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn view(workspace: &Path) -> View {
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp/home"), ("LANG", "C.UTF-8")];
    View {
        workspace: workspace.to_owned(),
        read_only: Vec::new(),
        read_write: Vec::new(),
        hidden: Vec::new(),
        protected: vec![".git".to_owned(), ".agent".to_owned()],
        deny_read: vec![".env".to_owned()],
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        network: Network::Off,
        system_calls: Vec::new(),
        explain: Explain::Rare,
        shell: "/bin/sh".into(),
    }
}

pub(crate) fn choice(engine: &Engine) -> ContainerChoice {
    ContainerChoice {
        image: Some(TOOLS.to_owned()),
        socket: Some(engine.socket()),
        ..ContainerChoice::default()
    }
}

pub(crate) fn backend(engine: &Engine, view: View) -> Arc<dyn ShellBackend> {
    helve_sandbox::backend(&SandboxChoice::Container(choice(engine)), view, LIMITS).unwrap()
}

pub(crate) fn job(text: &str) -> ShellJob {
    ShellJob {
        work: Work::Shell(text.to_owned()),
        stdin: Vec::new(),
        working_dir: None,
        timeout: Duration::from_secs(30),
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ended: Result<Ended, ToolError>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Ran {
    /// Both streams as text.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.stdout), String::from_utf8_lossy(&self.stderr))
    }
}

#[derive(Clone, Default)]
pub(crate) struct Collector(pub(crate) Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

impl OutputSink for Collector {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap();
        match stream {
            Stream::Stdout => kept.0.extend_from_slice(bytes),
            Stream::Stderr => kept.1.extend_from_slice(bytes),
        }
    }
}

/// Runs one job to its end.
pub(crate) async fn run(backend: &dyn ShellBackend, job: ShellJob) -> Ran {
    run_until(backend, job, Cancel::never()).await
}

pub(crate) async fn run_until(backend: &dyn ShellBackend, job: ShellJob, cancel: Cancel) -> Ran {
    let collector = Collector::default();
    let ended = backend.run(job, Box::new(collector.clone()), cancel).await;
    let (stdout, stderr) = collector.0.lock().unwrap().clone();
    Ran { ended, stdout, stderr }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
