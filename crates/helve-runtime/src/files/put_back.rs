//! Undoes a call: puts back what was there before it, all or nothing, through the workspace.
//!
//! It is the owner's own act and not a tool that a model can call; it takes the pipeline's way from its place in the line
//! on, so that it is ordered, recorded and can be undone itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use helve_core::files::{Act, Change, ContentId, Expect, Files, Names, Turn, Turns};
use helve_core::harmless::shown;
use helve_core::{Access, BoxFuture, Context, ErrorKind, Lane, Output, Resource, Tool, ToolError, ToolSpec};
use helve_store::{FileState, Undo, UndoChange, UndoStage};
use serde_json::{Value, json};

use super::git_index;
use super::layer::{Store, is_there};
use super::records::{UndoEntry, is_same, kept_sound, listed, present};
use super::undo::is_of;

/// The name in the journal and in records.
pub(crate) const NAME: &str = "undo";

/// The undoing of one call.
pub(crate) struct PutBack {
    spec: ToolSpec,
    entry: UndoEntry,
    undo: Undo,
    /// Whether what came after the call may be lost.
    force: bool,
}

impl PutBack {
    pub(crate) fn new(entry: UndoEntry, undo: Undo, force: bool) -> Self {
        let strings = json!({"type": "array", "items": {"type": "string"}});
        let spec = ToolSpec::new(NAME, "Puts back what was there before a call.", json!({"type": "object"}))
            .lane(Lane::Files)
            .rate_limit(None)
            .output_schema(json!({
                "type": "object",
                "properties": {"undoes": {"type": "string"}, "restored": strings, "removed": strings, "left": strings},
                "required": ["undoes", "restored", "removed", "left"],
            }));
        PutBack { spec, entry, undo, force }
    }

    /// The paths that it changes.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &String> {
        self.entry.record.changes.iter().map(|change| &change.path)
    }

    /// What a command did in a layer is turned back as a whole: links, modes of directories and protected names too.
    async fn turn_back(&self, files: &dyn Files, max: u64) -> Result<Output, ToolError> {
        let mut plan = Plan::default();
        let mut turns = Vec::new();
        let mut gone = BTreeSet::new();
        let changed: BTreeSet<&str> =
            self.entry.record.changes.iter().map(|change| change.path.as_str()).collect();
        for change in &self.entry.record.changes {
            let path = &change.path;
            let now = match files.now(path).await {
                Ok(now) => now,
                // A link stands in the way, or what is there is of no kind that could be put back.
                Err(_) => {
                    plan.conflicts.push(path.clone());
                    continue;
                }
            };
            // What holds what it held may still have to be a second name again, or none.
            let is_back = is_there(&now, &change.was);
            let apart = change.same_as.is_some() && change.was_same_as.is_none();
            if is_back && change.was_same_as.is_none() && !apart {
                continue;
            }
            if !is_back
                && !is_there(&now, &change.is)
                && !git_index::was_looked_at(files, &self.undo, path, (&change.is, &now), max).await
            {
                plan.conflicts.push(path.clone());
            }
            if let FileState::File { id, dropped, .. } = &change.was
                && (*dropped || self.undo.contents().len(id).is_err())
            {
                if !is_back {
                    plan.lost.push(path.clone());
                }
                continue;
            }
            if change.was == FileState::Absent {
                gone.insert(path.clone());
            }
            let to = is_of(&change.was);
            // The file at a path that is put back too is a new one.
            let same_as = change.was_same_as.clone();
            let stays = same_as.as_ref().is_some_and(|other| !changed.contains(other.as_str()));
            let inode = change.was_inode.filter(|_| stays);
            // So that the undo can be undone.
            let was_same_as = change.same_as.clone().filter(|other| !changed.contains(other.as_str()));
            let names = Names { same_as, inode, was_same_as, apart };
            let owner = change.was_owner;
            turns.push(Turn { path: path.clone(), from: now, to, modified: None, owner, names });
        }
        self.check(&plan)?;
        let contents = Arc::new(Store(self.undo.clone()));
        let turned = files.turn(Turns { turns, contents, leave_used: true }).await?;
        let is_gone = |path: &String| gone.contains(path);
        let (removed, restored) = turned.changed.into_iter().partition(is_gone);
        let left = plan.lost.into_iter().chain(turned.left).collect();
        Ok(Report { restored, removed, left }.output(&self.entry.record.call))
    }

    async fn put_back(&self, files: &dyn Files, ctx: &Context) -> Result<Output, ToolError> {
        if self.entry.stage == UndoStage::Pending {
            let call = &self.entry.record.call;
            let message = format!("What {call} would change has not happened, so there is nothing to undo.");
            return Err(ToolError::not_found(message)
                .hint(format!("`helve discard {call}` drops it, `helve commit {call}` makes it happen.")));
        }
        let max = ctx.limits().undo_bytes.max(ctx.limits().file_bytes);
        if self.entry.record.layered {
            return self.turn_back(files, max).await;
        }
        let mut plan = Plan::default();
        for change in &self.entry.record.changes {
            self.plan(files, change, max, &mut plan).await?;
        }
        self.check(&plan)?;
        let call = &self.entry.record.call;
        plan.left.append(&mut plan.lost);
        plan.left.append(&mut plan.damaged);
        let (commits, report) = plan.finish(files).await?;
        for changes in commits {
            files.commit(changes, false).await?;
        }
        Ok(report.output(call))
    }

    /// Refuses what would lose something, unless that is wanted.
    fn check(&self, plan: &Plan) -> Result<(), ToolError> {
        let call = &self.entry.record.call;
        if !plan.conflicts.is_empty() && !self.force {
            let message = format!("Changed since {call}: {}. Nothing was put back.", listed(&plan.conflicts));
            return Err(ToolError::new(ErrorKind::Conflict, message).hint(format!(
                "`helve undo --force {call}` puts back what was there before the call; what came after it is lost."
            )));
        }
        let has_all = plan.lost.is_empty() && plan.damaged.is_empty();
        if !has_all && !self.force {
            let mut message = String::new();
            for (what, paths) in [("is not kept", &plan.lost), ("was kept and is damaged", &plan.damaged)] {
                if !paths.is_empty() {
                    message.push_str(&format!("What was there before {call} {what}: {}. ", listed(paths)));
                }
            }
            message.push_str("Nothing was put back.");
            return Err(ToolError::new(ErrorKind::NotFound, message)
                .hint(format!("`helve undo --force {call}` puts the other files back.")));
        }
        Ok(())
    }

    async fn plan(
        &self,
        files: &dyn Files,
        change: &UndoChange,
        max: u64,
        plan: &mut Plan,
    ) -> Result<(), ToolError> {
        let path = &change.path;
        let (now, _) = present(files, path, max).await?;
        // A call that was cut has changed only some of its files.
        if is_same(&now, &change.was) {
            return Ok(());
        }
        if !is_same(&now, &change.is) {
            plan.conflicts.push(path.clone());
        }
        let expect = match &now {
            FileState::Absent => Expect::Absent,
            FileState::Directory | FileState::Folder { .. } | FileState::Link { .. } => Expect::Any,
            FileState::File { id, .. } => Expect::Content(ContentId(id.clone())),
        };
        let act = |act| Change { path: path.clone(), act, expect: expect.clone() };
        // What is of another kind has to go before what was there can come back.
        let turned = match (&change.was, &now) {
            (FileState::File { .. }, FileState::Directory) => {
                plan.directories.push(path.clone());
                true
            }
            (FileState::Directory, FileState::File { .. }) => {
                plan.remove.push(act(Act::Remove));
                true
            }
            _ => false,
        };
        if turned {
            plan.turned.push(path.clone());
        }
        let expect = if turned { Expect::Absent } else { expect.clone() };
        let act = |act| Change { path: path.clone(), act, expect };
        match (&change.was, &now) {
            (FileState::Absent, FileState::Directory) => plan.directories.push(path.clone()),
            (FileState::Absent, _) => plan.remove.push(act(Act::Remove)),
            (FileState::Directory | FileState::Folder { .. }, _) => plan.make.push(act(Act::Mkdirp)),
            // Only what a command did in a layer has links, and that is turned back as a whole.
            (FileState::Link { .. }, _) => plan.left.push(path.clone()),
            (FileState::File { dropped: true, .. }, _) => plan.lost.push(path.clone()),
            (FileState::File { id, mode, attributes, .. }, _) => match kept_sound(&self.undo, id, max) {
                Ok(Some(content)) => {
                    let (attributes, owner) = (attributes.clone(), change.was_owner);
                    plan.restore.push(act(Act::Restore { content, mode: *mode, attributes, owner }));
                }
                Ok(None) => plan.lost.push(path.clone()),
                Err(_) => plan.damaged.push(path.clone()),
            },
        }
        Ok(())
    }
}

impl Tool for PutBack {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _args: &Value) -> Access {
        Access { writes: self.paths().cloned().map(Resource::Path).collect(), ..Access::default() }
    }

    fn run<'a>(&'a self, _args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { self.put_back(ctx.files()?, ctx).await })
    }
}

/// What will be done.
#[derive(Default)]
struct Plan {
    remove: Vec<Change>,
    /// Directories that the call made.
    directories: Vec<String>,
    /// Paths that were a file and are a directory, or the other way round.
    turned: Vec<String>,
    make: Vec<Change>,
    restore: Vec<Change>,
    conflicts: Vec<String>,
    /// Files of which the former content is not kept.
    lost: Vec<String>,
    /// Files of which what is kept is not what was there.
    damaged: Vec<String>,
    left: Vec<String>,
}

impl Plan {
    /// The changes in their order, and what is told of them. A directory goes if nothing else is in it. They are one commit,
    /// or two where a path turns from a file into a directory or back, which no commit can do in one step.
    async fn finish(mut self, files: &dyn Files) -> Result<(Vec<Vec<Change>>, Report), ToolError> {
        let mut gone: Vec<String> = self.remove.iter().map(|change| change.path.clone()).collect();
        // What is below comes first.
        self.directories.sort_unstable_by(|a, b| b.cmp(a));
        for path in self.directories {
            let change = Change { path: path.clone(), act: Act::Remove, expect: Expect::Any };
            // What else is in it may be closed even to a list, so the bridge itself is asked whether it could go.
            let below = format!("{path}/");
            let mut rehearsal: Vec<Change> =
                self.remove.iter().filter(|one| one.path.starts_with(&below)).cloned().collect();
            rehearsal.push(change.clone());
            if files.commit(rehearsal, true).await.is_err() {
                if self.turned.contains(&path) {
                    let message = format!(
                        "'{}' was a file and is a directory with something in it. Nothing was put back.",
                        shown(&path)
                    );
                    return Err(ToolError::new(ErrorKind::Conflict, message)
                        .hint("Move what is in it elsewhere, then undo again."));
                }
                self.left.push(path);
                continue;
            }
            gone.push(path);
            self.remove.push(change);
        }
        let report = Report {
            restored: self.make.iter().chain(&self.restore).map(|change| change.path.clone()).collect(),
            removed: gone.into_iter().filter(|path| !self.turned.contains(path)).collect(),
            left: self.left,
        };
        let mut commits = vec![self.remove];
        if !self.turned.is_empty() {
            commits.push(Vec::new());
        }
        if let Some(last) = commits.last_mut() {
            last.extend(self.make.into_iter().chain(self.restore));
        }
        commits.retain(|changes| !changes.is_empty());
        Ok((commits, report))
    }
}

struct Report {
    restored: Vec<String>,
    removed: Vec<String>,
    left: Vec<String>,
}

impl Report {
    fn output(self, call: &str) -> Output {
        let Report { restored, removed, left } = self;
        let has_changed = !(restored.is_empty() && removed.is_empty());
        let mut text = match (has_changed, left.is_empty()) {
            (false, true) => format!("Everything is as it was before {call}."),
            (false, false) => format!("Nothing was put back: what was there before {call} could not be."),
            (true, true) => format!("Put back what was there before {call}."),
            (true, false) => format!("Put back what was there before {call}, but not all of it."),
        };
        for (word, paths) in [("restored", &restored), ("removed", &removed), ("left", &left)] {
            for path in paths {
                text.push_str(&format!("\n{word} {}", shown(path)));
            }
        }
        let details = json!({"undoes": call, "restored": restored, "removed": removed, "left": left});
        Output::text(text).with_details(details)
    }
}
