//! What was refused to a command, in the words of the policy and fit to be shown: what a process did is its own text, so
//! names that it chose are cleaned and cut like all that it says.

use std::time::Duration;

use helve_core::{Ended, Exit, Explained};

use super::GovernedShell;

/// So many characters of a path or an address are told.
const SUBJECT_CHARS: usize = 500;
/// Lines that grant something are told whole or not at all.
const GRANT_BYTES: usize = 8 << 10;

impl GovernedShell {
    /// Everything that was refused, the bound that was passed first.
    pub(super) fn explained(&self, ended: &Ended, timeout: Duration) -> Vec<Explained> {
        if ended.denied.is_empty() && ended.limit.is_none() && ended.exit != Exit::TimedOut {
            return Vec::new();
        }
        let (policy, lanes) = (&self.lanes.policy, &self.lanes);
        let view = policy.view(&lanes.workspace, &lanes.home);
        let mut all = policy.explained(ended, Some(timeout), &view);
        for explained in &mut all {
            let Explained { act: _, subject, rule, grant, note, times: _ } = explained;
            for text in [&mut *subject, &mut *rule].into_iter().chain(note.as_mut()) {
                *text = self.governor.clean_short(text, SUBJECT_CHARS);
            }
            if let Some(lines) = grant.take() {
                let clean = self.governor.clean(&lines);
                match clean == lines && lines.len() <= GRANT_BYTES {
                    true => *grant = Some(lines),
                    // A line that is not what it was would grant something else.
                    false => *note = Some("what would allow it cannot be written here".to_owned()),
                }
            }
        }
        all
    }
}
