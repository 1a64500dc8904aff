//! The file tools beside the real thing: `helve-bench files`.
//!
//! Searching stands beside ripgrep over the same tree with the same flags, both with a warm cache, in turns in one run; the
//! number of matches must be the same. Changing stands beside reading, writing, flushing and renaming the same file with
//! plain system calls, a page at the end of a file of 1 GB beside one read of that page. Calls go through the whole pipeline, record and all, in this process; as information also as a
//! process of their own. Memory is the peak of a child that does the calls of all rows.
//!
//! ripgrep is found in `PATH` or named with `--rg`: `cargo install ripgrep --root DIR` builds one. Without it the rows
//! beside it are left out, and `--check` fails.

mod change;
mod memory;
mod page;
mod seek;
mod tree;

use std::path::{Path, PathBuf};

use helve::{Call, CallResult, Caller, Policy, Runtime};
use serde_json::Value;

use crate::report::Row;

type Measured<T> = Result<T, Box<dyn std::error::Error>>;

/// What is asked of the run.
pub(crate) struct Asked<'a> {
    /// Fewer rounds.
    pub(crate) quick: bool,
    /// The program `helve`.
    pub(crate) helve: &'a Path,
    /// The program `rg`, if one was named.
    pub(crate) rg: Option<PathBuf>,
}

/// A workspace and a state of its own.
pub(crate) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Measured<Place> {
        let root = tempfile::tempdir()?;
        std::fs::create_dir(root.path().join("workspace"))?;
        Ok(Place { root })
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }
}

/// The library with its file tools, and what it needs to be called without async code around it.
struct Library {
    runtime: Runtime,
    executor: tokio::runtime::Runtime,
}

impl Library {
    fn new(workspace: &Path, state: &Path) -> Measured<Library> {
        let builder = Runtime::builder()
            .policy(Policy::builtin())
            .workspace(workspace)
            .home(state)
            .caller(Caller::Owner)
            .register(helve::typed(seek::Everything))
            .register(helve::typed(page::LastPages));
        let runtime = helve::register_file_tools(builder).build()?;
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Library { runtime, executor })
    }

    /// A call that must work.
    fn call(&self, tool: &str, args: &Value) -> Measured<CallResult> {
        let result = self.any_call(tool, args);
        match &result.error {
            Some(error) => Err(format!("{tool}: {}", error.message).into()),
            None => Ok(result),
        }
    }

    fn any_call(&self, tool: &str, args: &Value) -> CallResult {
        self.executor.block_on(self.runtime.call(Call::new(tool, args.clone())))
    }
}

/// Every row.
pub(crate) fn measure(asked: &Asked<'_>) -> Measured<Vec<Row>> {
    let place = Place::new()?;
    tree::plant(&place.workspace())?;
    let mut rows = seek::measure(asked, &place)?;
    rows.extend(change::measure(asked, &place)?);
    rows.extend(page::measure(asked)?);
    rows.push(memory::measure(&place)?);
    Ok(rows)
}

/// The child whose memory is measured.
pub(crate) fn child(workspace: &Path, state: &Path) -> Measured<()> {
    memory::child(workspace, state)
}
