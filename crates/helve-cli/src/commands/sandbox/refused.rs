//! What was refused to a command of the owner's own, with the options that would allow it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use helve::Policy;
use helve::sandbox::{Ended, Explained, Refused, RefusedBy, View, ViewGrant};

use super::amounts::show_bytes;

/// What the options said that no policy knows.
pub(super) struct Said {
    pub(super) policy: Policy,
    pub(super) view: View,
    /// The paths of `--hide`.
    pub(super) hide: Vec<PathBuf>,
    /// The real paths of `--ro`.
    pub(super) read_only: Vec<PathBuf>,
    pub(super) time: Option<Duration>,
}

impl Said {
    /// Everything that was refused, in the words of the command line.
    pub(super) fn explained(&self, ended: &Ended) -> Vec<Explained> {
        let all = self.policy.refused(ended, self.time, &self.view);
        all.iter().map(|refused| self.in_words(refused)).collect()
    }

    fn in_words(&self, refused: &Refused) -> Explained {
        let said = self.policy.in_words(refused);
        let options = flags(&self.policy, &refused.grants).join(" ");
        let grant = (!options.is_empty()).then_some(options);
        match &refused.rule {
            RefusedBy::NotShown => Explained { rule: "not in --ro or --rw".to_owned(), grant, ..said },
            RefusedBy::Own(entry) if self.hide.contains(entry) => Explained {
                rule: format!("--hide {}", entry.display()),
                grant: None,
                note: Some("leave out that option".to_owned()),
                ..said
            },
            RefusedBy::ReadOnly(None) => match self.stricter(refused) {
                Some(entry) => Explained {
                    rule: format!("--ro {}", entry.display()),
                    grant: None,
                    note: Some("leave out that option".to_owned()),
                    ..said
                },
                None => Explained { rule: "not in --rw".to_owned(), grant, ..said },
            },
            RefusedBy::Network => Explained { rule: "--net none".to_owned(), grant, ..said },
            RefusedBy::Limit(name, value) => Explained { rule: limit(name, *value), grant, ..said },
            RefusedBy::Time(seconds) => Explained {
                rule: format!("--time {seconds}s"),
                grant: Some(format!("--time {}s", seconds.saturating_mul(2))),
                note: None,
                ..said
            },
            _ => Explained { grant, ..said },
        }
    }

    /// The path of `--ro` that no option which would allow it overrules.
    fn stricter(&self, refused: &Refused) -> Option<&PathBuf> {
        let overrules = |entry: &Path| {
            let deeper =
                |grant: &ViewGrant| matches!(grant, ViewGrant::ReadWrite(place) if !entry.starts_with(place));
            refused.grants.iter().any(deeper)
        };
        let covers = |entry: &&PathBuf| Path::new(&refused.subject).starts_with(entry);
        self.read_only.iter().filter(covers).find(|entry| !overrules(entry))
    }
}

/// Grants as options of `helve sandbox`, each a word with its value.
pub(super) fn flags(policy: &Policy, grants: &[ViewGrant]) -> Vec<String> {
    let path =
        |option: &str, path: &Path| vec![format!("{option} {}", helve::quote(&path.display().to_string()))];
    let one = |grant: &ViewGrant| match grant {
        ViewGrant::ReadOnly(place) => path("--ro", place),
        ViewGrant::ReadWrite(place) => path("--rw", place),
        ViewGrant::Network => vec!["--net host".to_owned()],
        ViewGrant::Limit(name, value) => vec![limit(name, *value)],
        other => {
            let lines = policy.lines(std::slice::from_ref(other));
            lines.iter().map(|line| format!("--set {}", helve::quote(line))).collect()
        }
    };
    grants.iter().flat_map(one).collect()
}

/// A limit as the option that sets it.
fn limit(name: &str, value: u64) -> String {
    let size = || show_bytes(value).replace(" bytes", "").replace("iB", "").replace(' ', "");
    match name {
        "exec_memory_bytes" => format!("--mem {}", size()),
        "exec_processes" => format!("--pids {value}"),
        "exec_cpu_seconds" => format!("--cpu {value}"),
        "exec_disk_bytes" | "exec_file_bytes" => format!("--disk {}", size()),
        name => format!("--set limits.{name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use helve::SandboxReport;
    use helve::sandbox::{Act, CallGroup, Cause, Denied, Exit, LimitHit};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn rules_and_grants_are_options_of_the_command_line() {
        let policy = Policy::builtin();
        let view = policy.view(Path::new("/nowhere/ws"), Path::new("/nowhere/state"));
        let hide = vec![PathBuf::from("/usr/share")];
        let read_only = vec![PathBuf::from("/usr/bin"), PathBuf::from("/usr/lib")];
        let said = Said { policy, view, hide, read_only, time: Some(Duration::from_secs(3)) };
        let mut ended = Ended::plain(Exit::TimedOut, SandboxReport::default());
        ended.limit = Some(LimitHit::Memory(64 << 20));
        let denied = |act, cause| Denied { act, cause, times: 1 };
        ended.denied = vec![
            denied(Act::Read("/etc/some file".into()), Cause::NotShown),
            denied(Act::Read("/usr/share/x".into()), Cause::Hidden("/usr/share".into())),
            denied(Act::Write("/usr/bin/env".into()), Cause::ReadOnly),
            denied(Act::Write("/usr/lib/no-such-file".into()), Cause::ReadOnly),
            denied(Act::Connect { address: ([192, 0, 2, 1], 80).into(), datagram: false }, Cause::NoNetwork),
            denied(Act::SystemCall { name: "ptrace".into(), group: Some(CallGroup::Ptrace) }, Cause::Filter),
        ];
        let told: Vec<(String, Option<String>)> =
            said.explained(&ended).into_iter().map(|one| (one.rule, one.grant)).collect();
        let pair =
            |rule: &str, grant: &str| (rule.to_owned(), Some(grant.to_owned()).filter(|g| !g.is_empty()));
        assert_eq!(
            told,
            [
                pair("--mem 64M", "--mem 128M"),
                pair("--time 3s", "--time 6s"),
                pair("not in --ro or --rw", "--ro '/etc/some file'"),
                pair("--hide /usr/share", ""),
                pair("not in --rw", "--rw /usr/bin/env"),
                pair("--ro /usr/lib", ""),
                pair("--net none", "--net host"),
                pair("the system call filter", "--set 'tools.exec.system_calls = [\"ptrace\"]'"),
            ]
        );
    }
}
