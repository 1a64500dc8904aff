//! Profiles: named sets of rules and settings, built in or the owner's own.
//!
//! In come settings in which `profile` may name one, out come the rules of its whole chain, and the settings with what
//! the chain sets wherever no layer of the configuration does. Built-in profiles are files of this folder, in the form
//! in which an owner writes one; `@readers` in them stands for the programs that only read.

use std::path::Path;

use crate::config::keys;
use crate::config::layers::{Collector, ConfigError, Layer, Origin, Settings};
use crate::config::suggest::nearest;
use crate::config::value::Value;
use crate::readers;
use crate::rules::Rule;

/// The built-in profiles, strictest first.
pub(crate) const BUILT_IN: [(&str, &str); 4] = [
    ("readonly", include_str!("profiles/readonly.toml")),
    ("guarded", include_str!("profiles/guarded.toml")),
    ("coding", include_str!("profiles/coding.toml")),
    ("open", include_str!("profiles/open.toml")),
];

/// The keys of a profile and those that they set.
const SETTINGS: [(&str, &str); 5] = [
    ("rules_otherwise", keys::RULES_OTHERWISE),
    ("rules_otherwise_bare", keys::RULES_OTHERWISE_BARE),
    ("delete_inside", keys::EXEC_DELETE_INSIDE),
    ("restrict_to_workspace", keys::RESTRICT),
    ("network", keys::EXEC_NETWORK),
];

/// Puts the chosen profile below what the configuration sets itself. Gives the rules of the chain, base first.
pub(crate) fn apply(settings: &mut Settings, home: Option<&Path>) -> Result<Vec<Rule>, ConfigError> {
    let problems = misplaced(settings);
    if !problems.is_empty() {
        return Err(ConfigError::all(problems));
    }
    let own: Vec<String> = own_names(settings).map(str::to_owned).collect();
    for name in &own {
        chain(settings, name, home)?;
    }
    let Some((Value::Text(chosen), origin)) = settings.written(keys::PROFILE) else { return Ok(Vec::new()) };
    let (chosen, origin) = (chosen.clone(), origin.clone());
    if !own.contains(&chosen) && built_in(&chosen).is_none() {
        return Err(ConfigError::one(format!("`profile` in {origin}: {}", unknown(settings, &chosen))));
    }
    let mut rules = Vec::new();
    // The chain goes from the chosen profile to its base: the first to set something wins.
    for profile in chain(settings, &chosen, home)? {
        let mut of_profile = profile.rules().to_vec();
        of_profile.append(&mut rules);
        rules = of_profile;
        for (short, full) in SETTINGS {
            if let (Some(value), None) = (profile.get(short), settings.written(full)) {
                let value = value.clone();
                settings.insert(full, value, Origin { layer: Layer::Profile, file: None, line: None });
            }
        }
    }
    Ok(rules)
}

/// One profile and the settings that hold its keys.
struct Profile {
    name: String,
    settings: Settings,
}

impl Profile {
    fn get(&self, key: &str) -> Option<&Value> {
        self.settings.written(&full(&self.name, key)).map(|(value, _)| value)
    }

    fn rules(&self) -> &[Rule] {
        match self.get("rules") {
            Some(Value::Rules(rules)) => rules,
            _ => &[],
        }
    }
}

/// The profile and those that it extends, base last.
fn chain(settings: &Settings, name: &str, home: Option<&Path>) -> Result<Vec<Profile>, ConfigError> {
    let mut chain: Vec<Profile> = Vec::new();
    let mut next = Some(name.to_owned());
    while let Some(name) = next {
        let seen =
            || chain.iter().map(|profile| profile.name.as_str()).chain([name.as_str()]).collect::<Vec<_>>();
        if chain.iter().any(|profile| profile.name == name) {
            let round = seen().join(" extends ");
            return Err(ConfigError::one(format!(
                "[profiles]: {round}, which goes round; take one `extends` out"
            )));
        }
        let of = match built_in(&name) {
            Some(text) => read(text, home)?,
            None => settings.clone(),
        };
        let profile = Profile { name, settings: of };
        next = match profile.settings.written(&full(&profile.name, "extends")) {
            Some((Value::Text(base), origin)) => {
                if built_in(base).is_none() && !own_names(settings).any(|own| own == base) {
                    let key = full(&profile.name, "extends");
                    return Err(ConfigError::one(format!(
                        "`{key}` in {origin}: {}",
                        unknown(settings, base)
                    )));
                }
                Some(base.clone())
            }
            _ => None,
        };
        chain.push(profile);
    }
    Ok(chain)
}

/// Keys under the names of built-in profiles.
fn misplaced(settings: &Settings) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, _, origin) in settings.all_written() {
        if let Some(name) = profile_of(key).filter(|name| built_in(name).is_some()) {
            problems.push(format!(
                "`{key}` in {origin}: the profile {name} is built in; make one of your own with `extends = \"{name}\"`"
            ));
        }
    }
    problems
}

fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

fn read(text: &str, home: Option<&Path>) -> Result<Settings, ConfigError> {
    let mut collector = Collector::new(home);
    collector.text(&readers::fill_in(text), false, Origin { layer: Layer::Profile, file: None, line: None });
    collector.finish()
}

fn full(profile: &str, key: &str) -> String {
    format!("{}.{profile}.{key}", keys::PROFILES)
}

/// The profile that a key belongs to.
fn profile_of(key: &str) -> Option<&str> {
    let (name, _) = key.strip_prefix(keys::PROFILES)?.strip_prefix('.')?.split_once('.')?;
    Some(name)
}

/// The owner's own profiles.
fn own_names(settings: &Settings) -> impl Iterator<Item = &str> {
    settings.all_written().filter_map(|(key, ..)| profile_of(key))
}

fn unknown(settings: &Settings, name: &str) -> String {
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).chain(own_names(settings)).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("there is no profile {name:?}; did you mean \"{near}\"?"),
        None => {
            let mut names = names;
            names.dedup();
            format!("there is no profile {name:?}; the profiles are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
