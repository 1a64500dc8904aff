//! Which path an argument means, and what else it means that this path is touched.

use std::borrow::Cow;
use std::path::Path;

use crate::Span;
use crate::analysis::{Arg, ArgPart, Effect, EffectKind, PossibleRead, Target};
use crate::programs::On;

use super::directory::{lies_in, normal, normalized};
use super::{Walker, places};

impl Walker<'_> {
    /// The paths that an argument means behind its first `skip` bytes. Where the directory is one of several, changing
    /// counts in all of them, reading in those that are likely.
    pub(super) fn targets(&self, arg: &Arg, skip: usize, changes: bool) -> Vec<Target> {
        let mut certain = String::new();
        let mut pattern: Option<String> = None;
        for (index, part) in arg.parts.iter().enumerate() {
            let text = match part {
                ArgPart::Unknown => return vec![Target::Unknown],
                ArgPart::Known(text) | ArgPart::Glob(text) => text,
            };
            let text = if index == 0 { text.get(skip..).unwrap_or("") } else { text };
            match (&mut pattern, part) {
                (Some(pattern), _) => pattern.push_str(text),
                (none, ArgPart::Glob(_)) => *none = Some(text.to_owned()),
                _ => certain.push_str(text),
            }
        }
        if certain.is_empty() && pattern.is_none() {
            return Vec::new();
        }
        self.written_targets(&certain, pattern.as_deref(), changes)
    }

    /// The paths that a text means, with an active pattern behind it.
    pub(super) fn written_targets(&self, text: &str, pattern: Option<&str>, changes: bool) -> Vec<Target> {
        let directory = self.environment.directory();
        if text.starts_with('/') {
            return vec![self.target(Path::new("/"), text, pattern)];
        }
        let mut made = Vec::new();
        if directory.is_unknown() {
            made.push(Target::Unknown);
        }
        if changes {
            made.extend(directory.possible().map(|place| self.target(place, text, pattern)));
        } else {
            made.extend(directory.likely().iter().map(|place| self.target(place, text, pattern)));
        }
        made
    }

    fn target(&self, directory: &Path, text: &str, pattern: Option<&str>) -> Target {
        let Some(pattern) = pattern else {
            let whole = directory.join(text);
            let differs = goes_up(text) || text.ends_with('/') || text.ends_with("/.");
            let written = differs.then(|| whole.clone());
            let path = normalized(whole);
            let inside = lies_in(&path, self.setting.workspace);
            return Target::Path { path, inside, written };
        };
        // Behind a pattern `..` leads out of whatever matched.
        let (before, start) = match text.rfind('/') {
            Some(at) => (&text[..=at], &text[at + 1..]),
            None => ("", text),
        };
        let pattern = format!("{start}{pattern}");
        if pattern.split('/').any(|component| component == "..") {
            return Target::Unknown;
        }
        let whole = directory.join(before);
        let under = normal(&whole);
        let inside = lies_in(&under, self.setting.workspace);
        Target::Glob { under, pattern, inside, written: goes_up(before).then_some(whole) }
    }

    /// Adds an effect on a path, with what it means that this path is touched.
    pub(super) fn placed_effect(
        &mut self,
        kind: EffectKind,
        mut target: Target,
        span: Span,
        run: Option<usize>,
    ) {
        let shown = shown(&target).unwrap_or_default().into_owned();
        if places::is_harmless_device(&shown) {
            return;
        }
        if places::is_standard_stream(&shown) {
            if kind != EffectKind::Write || self.is_outlet(&shown) {
                return;
            }
            target = Target::Unknown;
        }
        let changes = matches!(kind, EffectKind::Write | EffectKind::Delete | EffectKind::DeleteTree);
        if changes && places::is_raw_device(&shown) {
            self.effect(EffectKind::Device, target.clone(), span, run);
        }
        if kind == EffectKind::Write {
            if places::is_power_switch(&shown) {
                self.effect(EffectKind::Power, Target::Machine, span, run);
            }
            if places::starts_by_itself(&shown) {
                self.effect(EffectKind::Persist, target.clone(), span, run);
            }
        }
        if kind == EffectKind::Read && places::holds_credentials(&shown) {
            self.effect(EffectKind::Secret, target.clone(), span, run);
        }
        self.effect(kind, target, span, run);
    }

    /// Writes down which files a run may read, as far as no table says what its arguments are.
    pub(super) fn may_read(&mut self, unsaid: impl Iterator<Item = On>, args: &[Arg], run: Option<usize>) {
        if self.elsewhere {
            return;
        }
        for on in unsaid {
            let (On::Path(_, Some(at))
            | On::Matching(_, _, Some(at))
            | On::Arg(at)
            | On::Tail(at, _)
            | On::Unknown(Some(at))) = &on
            else {
                continue;
            };
            let Some(arg) = args.get(*at) else { continue };
            let (targets, word) = match &on {
                On::Matching(before, pattern, _) => {
                    (self.written_targets(before, Some(pattern), false), false)
                }
                On::Path(path, _) => (self.path_targets(path), !path.contains(['/', '.', '~'])),
                On::Tail(_, skip) => (self.targets(arg, *skip, false), false),
                On::Unknown(_) => (vec![Target::Unknown], false),
                _ => (self.targets(arg, 0, false), false),
            };
            let span = arg.span;
            for target in targets {
                if !self.step(cost(&target)) {
                    return;
                }
                let shown = shown(&target).unwrap_or_default();
                if places::is_harmless_device(&shown) || places::is_standard_stream(&shown) {
                    continue;
                }
                if places::holds_credentials(&shown) {
                    let effect = Effect { kind: EffectKind::Secret, target: target.clone(), span, run };
                    self.possible.push(PossibleRead { effect, word });
                }
                let effect = Effect { kind: EffectKind::Read, target, span, run };
                self.possible.push(PossibleRead { effect, word });
            }
        }
    }

    /// The paths that a text means to a program, which may take `~` for the home directory as a shell does.
    fn path_targets(&self, path: &str) -> Vec<Target> {
        match (path.strip_prefix("~/"), self.setting.home) {
            (Some(rest), Some(home)) => self.written_targets(&home.join(rest).to_string_lossy(), None, false),
            _ => self.written_targets(path, None, false),
        }
    }

    /// What is certain of an argument whose beginning is unknown, such as `$HOME/.bashrc`, may still say what it is.
    pub(super) fn tail_effects(&mut self, kind: EffectKind, arg: &Arg, run: Option<usize>) {
        let (Some(ArgPart::Unknown), Some(ArgPart::Known(tail))) = (arg.parts.first(), arg.parts.last())
        else {
            return;
        };
        if !tail.starts_with('/') {
            return;
        }
        if kind == EffectKind::Write && places::starts_by_itself(tail) {
            self.effect(EffectKind::Persist, Target::Unknown, arg.span, run);
        }
        if kind == EffectKind::Read && places::holds_credentials(tail) {
            self.effect(EffectKind::Secret, Target::Unknown, arg.span, run);
        }
    }
}

/// The steps that an effect on a target takes: a longer path is copied.
pub(super) fn cost(target: &Target) -> usize {
    let size = match target {
        Target::Path { path, .. } => path.as_os_str().len(),
        Target::Glob { under, pattern, .. } => under.as_os_str().len() + pattern.len(),
        Target::Unknown | Target::Host(_) | Target::Machine => 0,
    };
    1 + size / 64
}

/// A path or a pattern as text; none if it is not known.
fn shown(target: &Target) -> Option<Cow<'_, str>> {
    match target {
        Target::Path { path, .. } => Some(path.to_string_lossy()),
        Target::Glob { under, pattern, .. } => {
            Some(Cow::Owned(under.join(pattern).to_string_lossy().into_owned()))
        }
        Target::Unknown | Target::Host(_) | Target::Machine => None,
    }
}

/// Whether a path leads up somewhere. Behind a link that is not where the text says.
fn goes_up(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
