//! Finds and keeps what was granted for longer than a call. The store is opened at the first question, not before.
//!
//! A grant covers a part when its pattern matches the run under the same rules by which it was accepted, its scope is
//! this session, this workspace or the user, and what it is bound to is the same: the directory, and the content of the
//! scripts that the run executes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helve_shell::analysis::Analysis;
use helve_store::{ApprovalScope, Approvals, BoundScript, Home, NewApproval, StoreError, StoredApproval};

use super::{Lasting, Scope, Script, pattern};

/// A session can go on for ever under one name; what was granted for it does not.
const SESSION_LASTS: Duration = Duration::from_secs(24 * 3600);

/// The grants that one runtime knows.
pub(crate) struct Grants {
    home: PathBuf,
    session: String,
    workspace: PathBuf,
    store: Mutex<Option<Approvals>>,
}

/// A call as far as grants are concerned.
pub(crate) struct Wish<'a> {
    pub(crate) tool: &'a str,
    pub(crate) analysis: &'a Analysis,
    pub(crate) cwd: &'a Path,
    pub(crate) longest: Lasting,
}

/// A part that can be granted: its run, and the scripts that the run executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) run: usize,
    pub(crate) scripts: Vec<Script>,
}

/// A grant with where it came from.
pub(crate) struct Given<'a> {
    pub(crate) pattern: &'a str,
    pub(crate) scope: Scope,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) bound: &'a Bound,
    pub(crate) by: &'a str,
    pub(crate) call: &'a str,
    pub(crate) shown: &'a str,
}

impl Grants {
    pub(crate) fn new(home: PathBuf, session: String, workspace: PathBuf) -> Self {
        Grants { home, session, workspace, store: Mutex::new(None) }
    }

    /// The grants that cover all parts, one for each; none if one part is not covered.
    pub(crate) fn covering(
        &self,
        wish: &Wish<'_>,
        parts: &[Bound],
    ) -> Result<Option<Vec<StoredApproval>>, StoreError> {
        let scopes: &[Scope] = match wish.longest {
            Lasting::Once => &[],
            Lasting::Session => &[Scope::Session],
            Lasting::Always => &[Scope::Session, Scope::Workspace, Scope::User],
        };
        let mut store = self.store();
        // To look makes nothing: where there is no state directory, nothing was granted.
        if store.is_none() && self.home.exists() {
            *store = Approvals::open_existing(&Home::open(&self.home)?)?;
        }
        let Some(store) = store.as_ref() else { return Ok(None) };
        let mut known = Vec::new();
        for scope in scopes {
            if let Some(named) = self.named(*scope) {
                known.extend(store.find(wish.tool, &named)?);
            }
        }
        let cover = |part: &Bound| known.iter().find(|row| self.covers(row, wish, part)).cloned();
        Ok(parts.iter().map(cover).collect())
    }

    /// Notes that a call goes ahead on these grants; false when one of them has ended meanwhile.
    pub(crate) fn touch(&self, grants: &[StoredApproval]) -> Result<bool, StoreError> {
        let mut ids: Vec<&str> = grants.iter().map(|grant| grant.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        match self.store().as_mut() {
            Some(store) => store.touch(&ids),
            None => Ok(false),
        }
    }

    /// Keeps a grant.
    pub(crate) fn keep(&self, wish: &Wish<'_>, given: &Given<'_>) -> Result<StoredApproval, StoreError> {
        let unnamed = || StoreError::NotJson("the path of the workspace is not UTF-8".to_owned());
        let scope = self.named(given.scope).ok_or_else(unnamed)?;
        let cwd = self.bound_cwd(&scope, wish.cwd).ok_or_else(unnamed)?;
        let mut expires = given.expires.map(micros);
        if given.scope == Scope::Session {
            let most = micros(SystemTime::now() + SESSION_LASTS);
            expires = Some(expires.map_or(most, |at| at.min(most)));
        }
        let run = wish.analysis.runs.get(given.bound.run);
        let new = NewApproval {
            pattern: given.pattern.to_owned(),
            exact: run.and_then(pattern::exact).as_deref() == Some(given.pattern),
            tool: wish.tool.to_owned(),
            scope,
            cwd,
            scripts: given.bound.scripts.iter().map(bound_script).collect(),
            expires_at_us: expires,
            created_by: given.by.to_owned(),
            call: given.call.to_owned(),
            shown: given.shown.to_owned(),
        };
        let mut store = self.store();
        if store.is_none() {
            *store = Some(Approvals::open(&Home::open(&self.home)?)?);
        }
        match store.as_mut() {
            Some(store) => store.add(&new),
            None => Err(unnamed()),
        }
    }

    fn covers(&self, row: &StoredApproval, wish: &Wish<'_>, part: &Bound) -> bool {
        let granted = &row.granted;
        let same_scripts =
            granted.scripts.iter().eq(&part.scripts.iter().map(bound_script).collect::<Vec<_>>());
        same_scripts
            && self.bound_cwd(&granted.scope, wish.cwd).as_deref() == Some(granted.cwd.as_str())
            && pattern::covers(&granted.pattern, wish.analysis, part.run, &self.workspace, &part.scripts)
                .is_ok()
    }

    /// The scope as it is stored; none if it has no name in text.
    fn named(&self, scope: Scope) -> Option<ApprovalScope> {
        Some(match scope {
            Scope::Session => ApprovalScope::Session(self.session.clone()),
            Scope::Workspace => ApprovalScope::Workspace(self.workspace.to_str()?.to_owned()),
            Scope::User => ApprovalScope::User,
        })
    }

    /// The directory that a grant is bound to: everywhere else than in one workspace, by its place in the workspace.
    fn bound_cwd(&self, scope: &ApprovalScope, cwd: &Path) -> Option<String> {
        let bound = match scope {
            ApprovalScope::User => match cwd.strip_prefix(&self.workspace) {
                Ok(below) if below.as_os_str().is_empty() => Path::new("."),
                Ok(below) => below,
                Err(_) => cwd,
            },
            ApprovalScope::Session(_) | ApprovalScope::Workspace(_) => cwd,
        };
        bound.to_str().map(str::to_owned)
    }

    fn store(&self) -> MutexGuard<'_, Option<Approvals>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bound_script(script: &Script) -> BoundScript {
    BoundScript { path: script.path.clone(), hash: script.hash.clone() }
}

fn micros(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
