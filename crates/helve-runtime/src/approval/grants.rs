//! Finds and keeps what was granted for longer than a call. The store is opened at the first question, not before.
//!
//! A grant covers a part when its pattern matches the run under the same rules by which it was accepted, its scope is
//! this session, this workspace or the user, the same rule asks for the same reason about the same caller, the same
//! is around the command, and what it is bound to is the same: the directory in which the run works, and the
//! content of its scripts and task files.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helve_policy::CommandPattern;
use helve_shell::analysis::Analysis;
use helve_store::{
    ApprovalScope, Approvals, BoundScript, Home, NewApproval, StoreError, StoredApproval, Within,
};

use super::binding::Bound;
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
    pub(crate) caller: &'a str,
    /// What is around the command.
    pub(crate) within: Within,
    pub(crate) analysis: &'a Analysis,
    pub(crate) longest: Lasting,
}

/// A part of it that can be granted.
pub(crate) struct Part<'a> {
    pub(crate) bound: &'a Bound,
    /// The rule that asks, and why.
    pub(crate) rule: &'a str,
    pub(crate) reason: &'a str,
}

/// A grant with where it came from.
pub(crate) struct Given<'a> {
    pub(crate) pattern: &'a str,
    pub(crate) scope: Scope,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) part: Part<'a>,
    pub(crate) by: &'a str,
    pub(crate) call: &'a str,
    pub(crate) shown: &'a str,
}

/// A grant that is held against several parts: its pattern is read once.
struct Known {
    row: StoredApproval,
    pattern: OnceCell<Option<CommandPattern>>,
}

impl Grants {
    pub(crate) fn new(home: PathBuf, session: String, workspace: PathBuf) -> Self {
        Grants { home, session, workspace, store: Mutex::new(None) }
    }

    /// The grants that cover all parts, one for each; none if one part is not covered.
    pub(crate) fn covering(
        &self,
        wish: &Wish<'_>,
        parts: &[Part<'_>],
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
                let rows = store.find(wish.tool, &named)?.into_iter();
                let of_call = |row: &StoredApproval| {
                    row.granted.caller == wish.caller && row.granted.within == wish.within
                };
                known.extend(rows.filter(of_call).map(|row| Known { row, pattern: OnceCell::new() }));
            }
        }
        let cover = |part: &Part<'_>| {
            let scripts: Vec<BoundScript> = part.bound.scripts.iter().map(bound_script).collect();
            let one = known.iter().find(|one| self.covers(one, wish, part, &scripts));
            one.map(|one| one.row.clone())
        };
        Ok(parts.iter().map(cover).collect())
    }

    /// Notes that a call goes ahead on these grants; false when one of them has ended meanwhile.
    pub(crate) fn touch(&self, ids: &[String]) -> Result<bool, StoreError> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        match self.store().as_mut() {
            Some(store) => store.touch(&ids),
            None => Ok(false),
        }
    }

    /// Keeps a grant.
    pub(crate) fn keep(&self, wish: &Wish<'_>, given: &Given<'_>) -> Result<StoredApproval, StoreError> {
        let unnamed = || StoreError::NotJson("the path of the workspace is not UTF-8".to_owned());
        let scope = self.named(given.scope).ok_or_else(unnamed)?;
        let cwd = self.bound_cwd(&scope, &given.part.bound.directory).ok_or_else(unnamed)?;
        let mut expires = given.expires.map(micros);
        if given.scope == Scope::Session {
            let most = micros(SystemTime::now() + SESSION_LASTS);
            expires = Some(expires.map_or(most, |at| at.min(most)));
        }
        let new = NewApproval {
            pattern: given.pattern.to_owned(),
            tool: wish.tool.to_owned(),
            caller: wish.caller.to_owned(),
            rule: given.part.rule.to_owned(),
            reason: given.part.reason.to_owned(),
            within: wish.within,
            scope,
            cwd,
            scripts: given.part.bound.scripts.iter().map(bound_script).collect(),
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

    fn covers(&self, known: &Known, wish: &Wish<'_>, part: &Part<'_>, scripts: &[BoundScript]) -> bool {
        let granted = &known.row.granted;
        let bound = part.bound;
        if granted.rule != part.rule
            || granted.reason != part.reason
            || granted.scripts != scripts
            || self.bound_cwd(&granted.scope, &bound.directory).as_deref() != Some(granted.cwd.as_str())
        {
            return false;
        }
        if bound.exact.as_deref() == Some(granted.pattern.as_str()) {
            return true;
        }
        let pattern = known.pattern.get_or_init(|| pattern::read(&granted.pattern).ok());
        pattern
            .as_ref()
            .is_some_and(|pattern| pattern.covers_as_shown(wish.analysis, bound.run, &self.workspace).is_ok())
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
    fn bound_cwd(&self, scope: &ApprovalScope, directory: &Path) -> Option<String> {
        let bound = match scope {
            ApprovalScope::User => match directory.strip_prefix(&self.workspace) {
                Ok(below) if below.as_os_str().is_empty() => Path::new("."),
                Ok(below) => below,
                Err(_) => directory,
            },
            ApprovalScope::Session(_) | ApprovalScope::Workspace(_) => directory,
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
