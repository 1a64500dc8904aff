//! Grants as lines of a configuration, each one key with its whole value: as it stands it can be pasted above the first
//! table of `helve.toml`, in place of the key if it is there, or be given to `--set`.

use std::collections::BTreeSet;

use super::Grant;
use crate::config::keys;
use crate::config::show::to_toml;
use crate::policy::{Policy, flag, list, text};

impl Policy {
    /// The lines for all of these grants together.
    pub fn lines(&self, grants: &[Grant]) -> Vec<String> {
        let settings = &self.inner.settings;
        let current = |key: &str| list(settings, key).to_vec();
        let mut lists = [
            (keys::VIEW_READ_ONLY, current(keys::VIEW_READ_ONLY)),
            (keys::VIEW_READ_WRITE, current(keys::VIEW_READ_WRITE)),
            (keys::VIEW_HIDDEN, current(keys::VIEW_HIDDEN)),
            (keys::VIEW_PROTECTED, current(keys::VIEW_PROTECTED)),
            (keys::FILES_DENY_READ, current(keys::FILES_DENY_READ)),
            (keys::EXEC_SYSTEM_CALLS, current(keys::EXEC_SYSTEM_CALLS)),
        ];
        let mut others = BTreeSet::new();
        let mut change = |key: &str, apply: &dyn Fn(&mut Vec<String>)| {
            if let Some((_, list)) = lists.iter_mut().find(|(known, _)| *known == key) {
                apply(list);
            }
        };
        for grant in grants {
            match grant {
                Grant::ReadOnly(path) => change(keys::VIEW_READ_ONLY, &|list| add(list, path.to_str())),
                Grant::ReadWrite(path) => {
                    // The stricter rule wins at one place.
                    change(keys::VIEW_READ_ONLY, &|list| remove(list, path.to_str()));
                    change(keys::VIEW_READ_WRITE, &|list| add(list, path.to_str()));
                }
                Grant::NotReadOnly(path) => change(keys::VIEW_READ_ONLY, &|list| remove(list, path.to_str())),
                Grant::NotHidden(path) => change(keys::VIEW_HIDDEN, &|list| remove(list, path.to_str())),
                Grant::Readable(patterns) => {
                    change(keys::FILES_DENY_READ, &|list| list.extend(patterns.clone()))
                }
                Grant::NotProtected(name) => change(keys::VIEW_PROTECTED, &|list| remove(list, Some(name))),
                Grant::SystemCalls(group) => {
                    change(keys::EXEC_SYSTEM_CALLS, &|list| add(list, Some(group.as_str())));
                }
                Grant::Network => drop(others.insert(format!("{} = true", keys::EXEC_NETWORK))),
                Grant::Direct => {
                    if text(settings, keys::EXEC_MODE) == Some("preview") {
                        others.insert(format!("{} = \"direct\"", keys::EXEC_MODE));
                    }
                    if flag(settings, keys::EXEC_CHECKPOINT) {
                        others.insert(format!("{} = false", keys::EXEC_CHECKPOINT));
                    }
                }
                Grant::Limit(name, value) => drop(others.insert(format!("limits.{name} = {value}"))),
                Grant::Timeout(seconds) => drop(others.insert(format!("{} = {seconds}", keys::EXEC_TIMEOUT))),
            }
        }
        let changed = lists.iter().filter(|(key, list)| *list != current(key));
        let lines = changed.map(|(key, list)| format!("{key} = {}", to_toml(&list.clone().into())));
        lines.chain(others).collect()
    }
}

fn add(list: &mut Vec<String>, item: Option<&str>) {
    if let Some(item) = item.filter(|item| !list.iter().any(|known| known == item)) {
        list.push(item.to_owned());
    }
}

fn remove(list: &mut Vec<String>, item: Option<&str>) {
    list.retain(|known| Some(known.as_str()) != item);
}
