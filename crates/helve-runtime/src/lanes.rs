//! The lanes of one runtime, each opened at its first need: the sandbox, the blob store, and what an embedding program
//! plugged in.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use helve_core::{BlobRef, BoxFuture, Egress, Files, ShellBackend, ToolError};
use helve_policy::Policy;
use helve_store::{Blobs, Home};

use crate::workspace;

/// The lanes.
pub(crate) struct Lanes {
    pub(crate) policy: Policy,
    pub(crate) workspace: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) plugged_shell: Option<Arc<dyn ShellBackend>>,
    pub(crate) plugged_files: Option<Arc<dyn Files>>,
    pub(crate) plugged_net: Option<Arc<dyn Egress>>,
    pub(crate) shell: OnceLock<Result<Arc<dyn ShellBackend>, ToolError>>,
    pub(crate) blobs: OnceLock<Result<Arc<Blobs>, ToolError>>,
}

impl Lanes {
    /// The sandbox that the policy chose, bound to the workspace.
    pub(crate) fn shell(&self) -> Result<Arc<dyn ShellBackend>, ToolError> {
        if let Some(shell) = &self.plugged_shell {
            return Ok(Arc::clone(shell));
        }
        let make = || {
            let workspace = workspace::check(&self.workspace, &self.home)?;
            let view = self.policy.view(&workspace, &self.home);
            helve_sandbox::backend(&self.policy.sandbox(), view, self.policy.process_limits())
        };
        self.shell.get_or_init(make).clone()
    }

    /// Where large outputs are kept.
    pub(crate) fn blobs(&self) -> Result<Arc<Blobs>, ToolError> {
        let make = || open_blobs(&self.home, &self.policy).map(Arc::new);
        self.blobs.get_or_init(make).clone()
    }

    pub(crate) fn files(&self) -> Option<Arc<dyn Files>> {
        self.plugged_files.clone()
    }

    pub(crate) fn net(&self) -> Option<Arc<dyn Egress>> {
        self.plugged_net.clone()
    }

    /// The handle through which a tool reads outputs of earlier calls.
    pub(crate) fn earlier_outputs(self: &Arc<Self>) -> Arc<dyn helve_core::Blobs> {
        Arc::new(EarlierOutputs(Arc::clone(self)))
    }
}

fn open_blobs(home: &Path, policy: &Policy) -> Result<Blobs, ToolError> {
    let open = Home::open(home).and_then(|home| Blobs::open(&home, policy.limits().blob_bytes));
    open.map_err(|error| {
        ToolError::internal(format!("The store of outputs cannot be opened: {error}"))
            .hint("Correct the permissions of $HELVE_HOME.")
    })
}

/// Reads blobs by their id or by the id of the call that made them. Disk and index are read off the async threads.
struct EarlierOutputs(Arc<Lanes>);

impl helve_core::Blobs for EarlierOutputs {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<BlobRef, ToolError>> {
        let (lanes, name) = (Arc::clone(&self.0), name.to_owned());
        off_thread(move || find(&lanes, &name))
    }

    fn read<'a>(&'a self, id: &'a str, offset: u64, len: usize) -> BoxFuture<'a, Result<Vec<u8>, ToolError>> {
        let (lanes, id) = (Arc::clone(&self.0), id.to_owned());
        off_thread(move || {
            lanes
                .blobs()?
                .read_range(&id, offset, len)
                .map_err(|error| ToolError::not_found(error.to_string()))
        })
    }
}

fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> BoxFuture<'static, Result<T, ToolError>> {
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|_| Err(ToolError::internal("Reading an earlier output crashed.")))
    })
}

fn find(lanes: &Lanes, name: &str) -> Result<BlobRef, ToolError> {
    let id = if name.starts_with("b3:") { name.to_owned() } else { blob_of_call(lanes, name)? };
    let bytes = lanes.blobs()?.len(&id).map_err(|_| {
        ToolError::not_found(format!("The output {id} is not kept any more."))
            .hint("Old outputs are removed to keep the store under its budget; run the command again.")
    })?;
    Ok(BlobRef { id, bytes, dropped: 0 })
}

fn blob_of_call(lanes: &Lanes, call: &str) -> Result<String, ToolError> {
    let unread =
        |error: helve_store::StoreError| ToolError::internal(format!("The journal cannot be read: {error}"));
    let home = Home::open(&lanes.home).map_err(unread)?;
    let story = helve_store::read_call(&home, call).map_err(unread)?.ok_or_else(|| {
        ToolError::not_found(format!("No call '{call}' is in the journal."))
            .hint("Use the id from the field \"call\" of an earlier result, such as c_01….")
    })?;
    let blob = story.outcome.as_ref().and_then(|outcome| outcome["truncated"]["blob"].as_str());
    blob.map(str::to_owned).ok_or_else(|| {
        ToolError::not_found(format!("The output of '{call}' was not cut: it stands whole in its result."))
    })
}
