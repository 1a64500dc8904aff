//! What an unknown key was probably meant to be.

use super::keys::{self, ANY_VARIABLE, keys};
use super::layers::{PLAIN_NAME, camel, parts_below};

/// The remedy for an unknown `written` below `path`, as the end of a sentence.
pub(crate) fn suggestion(path: &[String], written: &str) -> String {
    let mut siblings: Vec<&str> = parts_below(path).collect();
    siblings.retain(|part| !keys::is_any(part));
    siblings.dedup();
    if let Some(near) = nearest(written, siblings.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let elsewhere: Vec<&str> = keys()
        .iter()
        .map(|key| key.name.as_ref())
        .filter(|name| name.rsplit('.').next().is_some_and(|last| last == written || camel(last) == written))
        .collect();
    if !elsewhere.is_empty() {
        return format!("did you mean `{}`?", elsewhere.join("` or `"));
    }
    let full = path.iter().map(String::as_str).chain([written]).collect::<Vec<_>>().join(".");
    if let Some(near) = nearest(&full, keys().iter().map(|key| key.name.as_ref())) {
        return format!("did you mean `{near}`?");
    }
    match siblings.as_slice() {
        [] if parts_below(path).any(|part| part == ANY_VARIABLE) => {
            "a name here is that of a variable".to_owned()
        }
        [] => format!("a name here is {PLAIN_NAME}, with a table below it"),
        siblings => format!("the known keys here are `{}`", siblings.join("`, `")),
    }
}

/// The closest of `names`, if it is close enough to be a slip of the fingers.
pub(crate) fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The comparison takes time in the product of the lengths; no key comes near this one.
    if written.len() > 100 {
        return None;
    }
    let written = written.to_lowercase();
    let distance = |name: &str| {
        let plain = strsim::damerau_levenshtein(&written, name);
        plain.min(strsim::damerau_levenshtein(&written, &camel(name).to_lowercase()))
    };
    let (best, name) = names.map(|name| (distance(name), name)).min_by_key(|(distance, _)| *distance)?;
    (best <= (name.len() / 3).max(1)).then_some(name)
}
