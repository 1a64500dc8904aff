//! Where a path leads: through links that the command makes before it uses them, and through those that are there.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use helve_shell::analysis::{EffectKind, Run, Target};
use helve_shell::normal;

use super::argv::{Argv, lower};
use super::{Case, disk};

/// The most links of one command that are followed, and the most of its paths that are looked up on the disk.
const MAX_MADE: usize = 64;
const MAX_LOOKED_UP: usize = 256;

/// The links that a command makes, in their order.
pub(super) struct Links {
    made: Vec<Link>,
    left: Cell<usize>,
}

/// A link that a run makes.
struct Link {
    run: usize,
    at: PathBuf,
    to: PathBuf,
}

impl Links {
    pub(super) fn of(case: &Case<'_>) -> Self {
        let mut made = Vec::new();
        let runs = &case.analysis.runs;
        let links =
            |run: &Run| run.program.as_deref().is_some_and(|name| matches!(&*lower(name), "ln" | "gln"));
        if runs.iter().any(links) {
            let writes = case.analysis.effects.iter().filter(|effect| effect.kind == EffectKind::Write);
            for effect in writes {
                let Some(index) = effect.run else { continue };
                let Some(run) = runs.get(index).filter(|run| links(run)) else { continue };
                if let Target::Path { path, .. } = &effect.target {
                    made.extend(source(run, path).map(|to| Link { run: index, at: path.clone(), to }));
                }
                if made.len() >= MAX_MADE {
                    break;
                }
            }
        }
        Links { made, left: Cell::new(MAX_LOOKED_UP) }
    }

    /// Where a path that a run uses leads; none if that is where it says itself.
    pub(super) fn lead(&self, path: &Path, run: Option<usize>) -> Option<PathBuf> {
        let mut led = path.to_owned();
        for link in self.made.iter().rev().filter(|link| Some(link.run) != run) {
            if let Ok(behind) = led.strip_prefix(&link.at) {
                led = normal(&link.to.join(behind));
            }
        }
        if let Some(left) = self.left.get().checked_sub(1) {
            self.left.set(left);
            led = disk::resolve(&led).unwrap_or(led);
        }
        (led != path).then_some(led)
    }
}

/// What a link at this path leads to: in a directory the one of that name, else the first.
fn source(run: &Run, at: &Path) -> Option<PathBuf> {
    let argv = Argv::of(run);
    let symbolic = argv.short('s') || argv.long("--symbolic", "--s");
    let relative = argv.short('r') || argv.long("--relative", "--r");
    // A symbolic link is read from where it stands.
    let from = if symbolic && !relative { at.parent() } else { run.directory.as_deref() }?;
    let is_itself = |name: &str| run.directory.as_deref().is_some_and(|here| normal(&here.join(name)) == at);
    let names = || argv.texts().filter(|text| !text.starts_with('-') && !is_itself(text));
    let is_of_name = |name: &&str| Path::new(name).file_name() == at.file_name();
    names().find(is_of_name).or_else(|| names().next()).map(|name| normal(&from.join(name)))
}
