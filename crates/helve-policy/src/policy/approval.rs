//! Programs of the owner's: who answers where no person is at a terminal, and who hears of calls and sessions.

use std::path::PathBuf;
use std::time::Duration;

use super::Policy;
use crate::config::hook::Hook;
use crate::config::keys;
use crate::config::value::Value;

impl Policy {
    /// The programs that hear of calls and sessions, in the order in which they are run: those of the machine's file first.
    pub fn hooks(&self) -> &[Hook] {
        super::hooks(&self.inner.settings)
    }

    /// The program that answers questions, with its arguments; the first is an absolute path.
    pub fn approval_hook(&self) -> Option<&[String]> {
        match self.inner.settings.get(keys::APPROVAL_HOOK) {
            Some(Value::List(words)) => Some(words),
            _ => None,
        }
    }

    /// How long it may take.
    pub fn approval_hook_timeout(&self) -> Duration {
        match self.inner.settings.get(keys::APPROVAL_HOOK_TIMEOUT) {
            Some(Value::Count(seconds)) => Duration::from_secs(*seconds),
            _ => Duration::from_secs(120),
        }
    }
}

/// The files that a hook is made of: its program, and every absolute path among its arguments, also behind `=`.
pub(super) fn hook_files(words: &[String]) -> impl Iterator<Item = PathBuf> {
    let path = |word: &String| {
        let value = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
        let path = if word.starts_with('/') { word } else { value };
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    words.iter().filter_map(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_named_by_an_absolute_path() {
        let hook =
            |text: &str| Policy::from_toml(text).map(|policy| policy.approval_hook().map(<[String]>::to_vec));
        assert_eq!(hook("").unwrap(), None);
        let words = hook("[approval]\nhook = [\"/usr/bin/ask\", \"-x\"]").unwrap();
        assert_eq!(words, Some(vec!["/usr/bin/ask".to_owned(), "-x".to_owned()]));
        for wrong in ["[]", "[\"ask\"]", "\"/usr/bin/ask\"", "[\"/bin/../x\"]"] {
            assert!(hook(&format!("approval.hook = {wrong}")).is_err(), "{wrong}");
        }
        let timeout = |text: &str| Policy::from_toml(text).unwrap().approval_hook_timeout();
        assert_eq!(timeout(""), Duration::from_secs(120));
        assert_eq!(timeout("approval.hook_timeout = 3"), Duration::from_secs(3));
    }

    /// Whoever can change the hook answers every question.
    #[test]
    fn the_files_of_a_hook_are_guarded_and_stay_visible() {
        let hook = "approval.hook = ['/opt/x/bin/ask', '/opt/y/a=b.py', '--with=/opt/z/rules', 'word', '-v']";
        let policy = Policy::from_toml(hook).unwrap();
        let expected = ["/opt/x/bin/ask", "/opt/y/a=b.py", "/opt/z/rules"].map(PathBuf::from);
        assert_eq!(policy.guarded_files(), expected);
        assert_eq!(policy.inner.hidden, Vec::<PathBuf>::new());
        let check = |command: &str| policy.check_text(command, "/w".as_ref()).rule;
        assert_eq!(check("cp x /opt/z/rules"), "guard.protected-write");
        let error = Policy::from_toml(&format!("{hook}\nview.read_write = ['/opt/y']")).unwrap_err();
        assert!(error.to_string().contains("name a smaller directory"), "{error}");
    }
}
