//! What is wrong or doubtful in settings that are sound one by one: errors at load, and warnings for
//! `helve config check`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use helve_core::Verdict;

use super::approval::hook_files;
use super::{Policy, list, paths, secret_sources};
use crate::config::hook::{Hook, HookEvent};
use crate::config::keys;
use crate::config::layers::ConfigError;
use crate::guarded;
use crate::rules::Rule;
use crate::secrets::SecretSource;

impl Policy {
    /// What the next call would fail at, and the warnings: the answer to `helve config check`.
    pub fn check_all(&self) -> Result<Vec<String>, ConfigError> {
        self.secrets()?;
        Ok(self.warnings())
    }

    /// What works but is hardly meant, each with what to change: paths of the view that are not there, rules that
    /// have expired or find little, files of the configuration that others can write, and hooks that cannot be run.
    pub fn warnings(&self) -> Vec<String> {
        let settings = &self.inner.settings;
        let mut warnings = Vec::new();
        for (key, who) in [
            (keys::VIEW_READ_ONLY, "commands do not see it"),
            (keys::VIEW_READ_WRITE, "commands do not see it"),
            (keys::FILES_READ_ONLY, "file tools cannot use it"),
            (keys::FILES_READ_WRITE, "file tools cannot use it"),
        ] {
            let Some((_, origin)) = settings.written(key) else { continue };
            let missing = paths(settings, key).into_iter().filter(|path| !path.exists());
            warnings.extend(missing.map(|path| {
                format!(
                    "`{key}` in {origin}: {} does not exist, so {who}; create it or take it out",
                    path.display()
                )
            }));
        }
        warnings.extend(self.passed_secrets());
        warnings.extend(self.expired_rules(SystemTime::now()));
        warnings.extend(self.narrow_rules());
        warnings.extend(self.inner.files.iter().filter_map(|file| open_to_others(file)));
        let of_hook = |hook: &Hook| Some(format!("`hooks` in {}: {}", hook.origin, hook.problem()?));
        warnings.extend(self.hooks().iter().filter_map(of_hook));
        warnings
    }

    /// Rules whose end has come say nothing any more.
    fn expired_rules(&self, now: SystemTime) -> Vec<String> {
        let expired = self.rules().iter().filter(|rule| rule.scope.expires.is_some_and(|end| end <= now));
        let warn = |rule: &Rule| {
            format!("`{}` in {}: it has expired; take it out or renew it", rule.name, rule.origin)
        };
        expired.map(warn).collect()
    }

    /// Rules that ask or deny and find less than they may be meant to.
    fn narrow_rules(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for rule in self.rules().iter().filter(|rule| rule.verdict > Verdict::Allow) {
            let patterns = rule.matchers.commands.as_deref().unwrap_or_default();
            let little = patterns.iter().filter_map(|pattern| pattern.finds_little(patterns));
            warnings.extend(little.map(|why| format!("`{}` in {}: {why}", rule.name, rule.origin)));
        }
        warnings
    }

    /// What commands or file tools may write must not hold what the policy is made from.
    pub(super) fn check_writable_roots(&self) -> Result<(), ConfigError> {
        let settings = &self.inner.settings;
        for (key, who) in [(keys::VIEW_READ_WRITE, "a command"), (keys::FILES_READ_WRITE, "a file tool")] {
            let Some((_, origin)) = settings.written(key) else { continue };
            let files = self.guarded_files();
            for root in paths(settings, key) {
                if let Some(file) = guarded::inside(&root, &files) {
                    return Err(ConfigError::one(format!(
                        "`{key}` in {origin}: {} holds {}, which configures Helve or is a file of `secrets`, of \
                         `approval.hook` or of `hooks`, so {who} could change it; name a smaller directory, or keep that file elsewhere",
                        root.display(),
                        file.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Commands must not be handed Helve's own variables, nor values that they must not show.
    pub(super) fn check_passed_variables(&self) -> Result<(), ConfigError> {
        let settings = &self.inner.settings;
        let key = keys::EXEC_ENV_PASS;
        let Some((_, origin)) = settings.written(key) else { return Ok(()) };
        match list(settings, key).iter().find(|name| name.starts_with("HELVE_")) {
            Some(name) => Err(ConfigError::one(format!(
                "`{key}` in {origin}: {name} configures Helve itself; take it out, and give commands what they need under \
                 another name"
            ))),
            None => Ok(()),
        }
    }

    /// A variable that is passed to commands and kept out of what they print: useful, if it is meant.
    fn passed_secrets(&self) -> Vec<String> {
        let settings = &self.inner.settings;
        let key = keys::EXEC_ENV_PASS;
        let Some((_, origin)) = settings.written(key) else { return Vec::new() };
        let is_secret = |name: &str| {
            let mut sources = secret_sources(settings).iter();
            sources.any(|source| matches!(source, SecretSource::Env(secret) if secret == name))
        };
        let passed = list(settings, key);
        let secret = passed.iter().filter(|name| is_secret(name));
        let warn = |name| {
            format!(
                "`{key}` in {origin}: every command can read the secret {name}; only what it prints is redacted"
            )
        };
        secret.map(warn).collect()
    }
}

impl Hook {
    /// Why it cannot be run, or who else decides what it says, with what to change; none if nothing is wrong by its looks.
    pub fn problem(&self) -> Option<String> {
        let program = Path::new(self.program.first()?);
        let lack = match program.metadata() {
            Err(error) => Some(format!("cannot be looked at ({error})")),
            Ok(metadata) if !metadata.is_file() => Some("is no file".to_owned()),
            Ok(metadata) if metadata.mode() & 0o111 == 0 => Some("is not executable".to_owned()),
            Ok(_) => None,
        };
        if let Some(lack) = lack {
            let so = match self.hears(HookEvent::BeforeCall) {
                true => "every call that it hears of is refused",
                false => "it does nothing",
            };
            return Some(format!(
                "{:?}: {} {lack}, so {so}; mend it or take it out",
                self.name,
                program.display()
            ));
        }
        let open = hook_files(&self.program).find_map(|file| open_to_others(&file))?;
        Some(format!("{:?}: {open}", self.name))
    }
}

/// Says who else can change a file.
fn open_to_others(file: &Path) -> Option<String> {
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
    let user = rustix::process::geteuid().as_raw();
    let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
    let (who, remedy) = if owner != user && owner != 0 {
        (format!("user {owner}, who owns it,"), "make it your own")
    } else if mode & 0o002 != 0 {
        ("everybody".to_owned(), "run chmod go-w on it")
    // A group with the number of the user or of root has no other members on usual systems.
    } else if mode & 0o020 != 0 && group != owner && group != 0 {
        (format!("everybody in group {group}"), "run chmod go-w on it")
    } else {
        return None;
    };
    Some(format!("{}: {who} can change what Helve allows; {remedy}", file.display()))
}
