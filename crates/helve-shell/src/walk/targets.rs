//! Which path an argument means, and what else it means that this path is touched.

use std::path::{Path, PathBuf};

use crate::Span;
use crate::analysis::{Arg, ArgPart, EffectKind, Target};

use super::directory::{lies_in, normal};
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
            let path = normal(&whole);
            let inside = lies_in(&path, self.setting.workspace);
            let written = (goes_up(text) || text.ends_with('/') || text.ends_with("/.")).then_some(whole);
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
        let shown = match &target {
            Target::Path { path, .. } => path.clone(),
            Target::Glob { under, pattern, .. } => under.join(pattern),
            Target::Unknown | Target::Host(_) | Target::Machine => PathBuf::new(),
        };
        let shown = shown.to_string_lossy();
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

/// Whether a path leads up somewhere. Behind a link that is not where the text says.
fn goes_up(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
