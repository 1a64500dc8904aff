//! Who answers for the owner where no person is at a terminal.

use std::time::Duration;

use super::Policy;
use crate::config::keys;
use crate::config::value::Value;

impl Policy {
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
}
