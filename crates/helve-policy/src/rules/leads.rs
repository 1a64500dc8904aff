//! Where the targets of a command's effects lead: links that there are now are followed.
//!
//! What cannot be followed to its end may lead anywhere: no rule vouches for it, and each that asks or denies is about it.
//! The answer may be old by the time the command runs.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use helve_shell::analysis::{Effect, EffectKind, Target};

use super::place::below;
use crate::guard;

/// The most paths of one command that are followed, and the most entries of directories that its patterns are held
/// against.
const MAX_FOLLOWED: usize = 16_384;

/// Where an effect leads besides the place that its text names.
pub(super) enum Lead {
    /// To these places, if links are in the way. `whole` says that there are no others.
    To { targets: Vec<Target>, whole: bool },
    /// Nobody knows.
    Anywhere,
}

/// The effects of one command.
pub(super) struct Leads<'a> {
    workspace: &'a Path,
    /// The workspace without links.
    real: OnceCell<Option<PathBuf>>,
    /// What was found of effects, each by its address, and of paths.
    known: RefCell<HashMap<*const Effect, Rc<Lead>>>,
    followed: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
    budget: Cell<usize>,
}

impl<'a> Leads<'a> {
    pub(super) fn new(workspace: &'a Path) -> Self {
        Leads {
            workspace,
            real: OnceCell::new(),
            known: RefCell::default(),
            followed: RefCell::default(),
            budget: Cell::new(MAX_FOLLOWED),
        }
    }

    /// Where an effect leads.
    pub(super) fn of(&self, effect: &'a Effect) -> Rc<Lead> {
        let address = std::ptr::from_ref(effect);
        if let Some(known) = self.known.borrow().get(&address) {
            return Rc::clone(known);
        }
        let lead = Rc::new(self.look(effect));
        self.known.borrow_mut().insert(address, Rc::clone(&lead));
        lead
    }

    /// Whether an effect whose text stays in the workspace leads nowhere else.
    pub(super) fn stays_inside(&self, effect: &'a Effect) -> bool {
        matches!(&*self.of(effect), Lead::To { targets, whole: true } if targets.iter().all(is_inside))
    }

    fn look(&self, effect: &Effect) -> Lead {
        let deletes = matches!(effect.kind, EffectKind::Delete | EffectKind::DeleteTree);
        match &effect.target {
            Target::Path { path, .. } if !guard::is_stream(path) => {
                let written = effect.target.as_written().unwrap_or(path);
                // Deleting a link leaves what it leads to.
                let keeps = deletes && !written.as_os_str().as_encoded_bytes().ends_with(b"/");
                match self.follow(written, keeps) {
                    Some(real) if real == *path => Lead::To { targets: Vec::new(), whole: true },
                    Some(real) => Lead::To { targets: vec![self.target(real)], whole: true },
                    None => Lead::Anywhere,
                }
            }
            Target::Glob { under, pattern, .. } => {
                let written = effect.target.as_written().unwrap_or(under);
                self.look_at_pattern((under, written), pattern, deletes)
            }
            Target::Path { .. } | Target::Unknown | Target::Host(_) | Target::Machine => {
                Lead::To { targets: Vec::new(), whole: true }
            }
        }
    }

    /// The pattern where its directory leads, and each link among what it matches now.
    fn look_at_pattern(&self, (under, written): (&Path, &Path), pattern: &str, deletes: bool) -> Lead {
        let Some(real) = self.follow(written, false) else { return Lead::Anywhere };
        let whole = below(pattern).fold(real.clone(), |path, part| path.join(part));
        let mut budget = self.budget.get();
        let found = guard::matching(&whole, &mut budget);
        self.budget.set(budget);
        let whole = found.is_some();
        let keeps = deletes && !pattern.ends_with('/');
        let mut targets = Vec::new();
        for path in found.unwrap_or_default() {
            let parent = path.parent().and_then(|parent| self.follow(parent, false));
            if !keeps && path.is_symlink() || parent.as_deref() != path.parent() {
                let Some(real) = self.follow(&path, keeps) else { return Lead::Anywhere };
                targets.push(self.target(real));
            }
        }
        if real != under {
            let inside = real.starts_with(self.workspace);
            targets.push(Target::Glob { under: real, pattern: pattern.to_owned(), inside, written: None });
        }
        Lead::To { targets, whole }
    }

    fn target(&self, path: PathBuf) -> Target {
        let inside = path.starts_with(self.workspace);
        Target::path(path, inside)
    }

    /// The path without links, written from the workspace on where it lies in it. `keeps` leaves its last part as it is.
    fn follow(&self, path: &Path, keeps: bool) -> Option<PathBuf> {
        if let (true, Some(parent), Some(name)) = (keeps, path.parent(), path.file_name()) {
            return Some(self.follow(parent, false)?.join(name));
        }
        if let Some(known) = self.followed.borrow().get(path) {
            return known.clone();
        }
        if self.followed.borrow().len() >= MAX_FOLLOWED {
            return None;
        }
        let real = self.real.get_or_init(|| guard::resolve(self.workspace)).as_deref();
        let place =
            guard::resolve(path).map(|found| match real.and_then(|real| found.strip_prefix(real).ok()) {
                Some(rest) if rest.as_os_str().is_empty() => self.workspace.to_owned(),
                Some(rest) => self.workspace.join(rest),
                None => found,
            });
        self.followed.borrow_mut().insert(path.to_owned(), place.clone());
        place
    }
}

/// Whether a target lies in the workspace by its text.
pub(super) fn is_inside(target: &Target) -> bool {
    matches!(target, Target::Path { inside: true, .. } | Target::Glob { inside: true, .. })
}
