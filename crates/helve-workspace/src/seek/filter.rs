//! Whether an entry counts: hidden names, denied paths, ignore files, globs, types.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use helve_core::deny_read::nests_too_deep;
use helve_core::files::{SearchRequest, WalkRequest};
use helve_core::{ErrorKind, ToolError};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use super::ignores::Level;
use crate::rules::Rules;

pub(super) struct Filter<'a> {
    rules: &'a Rules,
    globs: Override,
    types: Types,
    hidden: bool,
    pub(super) obey_ignore: bool,
    pub(super) depth: usize,
    /// Where in a path relative to the root the part begins that is relative to the start.
    at: usize,
}

impl<'a> Filter<'a> {
    pub(super) fn of_walk(rules: &'a Rules, base: &[u8], request: &WalkRequest) -> Result<Self, ToolError> {
        Ok(Filter {
            rules,
            globs: globs(&request.globs)?,
            types: Types::empty(),
            hidden: request.hidden,
            obey_ignore: request.obey_ignore,
            depth: request.depth.unwrap_or(usize::MAX),
            at: start_of(base),
        })
    }

    pub(super) fn of_search(
        rules: &'a Rules,
        base: &[u8],
        request: &SearchRequest,
    ) -> Result<Self, ToolError> {
        Ok(Filter {
            rules,
            globs: globs(&request.globs)?,
            types: types(&request.types)?,
            hidden: request.hidden,
            obey_ignore: request.obey_ignore,
            depth: usize::MAX,
            at: start_of(base),
        })
    }

    /// Whether an entry is looked at at all. Denied paths are left out before anything else can let them in.
    pub(super) fn admits(&self, path: &[u8], name: &[u8], is_dir: bool, level: Option<&Level>) -> bool {
        if !self.hidden && name.first() == Some(&b'.') {
            return false;
        }
        !self.rules.denies_entry(path, is_dir) && !level.is_some_and(|level| level.leaves_out(path, is_dir))
    }

    /// Whether a directory that was admitted may be entered.
    pub(super) fn enters(&self, path: &[u8], name: &[u8]) -> bool {
        name != b".git" && !self.globs.matched(self.relative(path), true).is_ignore()
    }

    /// Whether a directory that was admitted is itself asked for.
    pub(super) fn wants_dir(&self, path: &[u8]) -> bool {
        self.globs.is_empty()
            || match self.globs.num_whitelists() {
                0 => !self.globs.matched(self.relative(path), true).is_ignore(),
                _ => self.globs.matched(self.relative(path), true).is_whitelist(),
            }
    }

    /// Whether anything else is asked for by its name.
    pub(super) fn wants(&self, path: &[u8]) -> bool {
        let path = self.relative(path);
        (self.globs.is_empty() || !self.globs.matched(path, false).is_ignore())
            && (self.types.is_empty() || self.types.matched(path, false).is_whitelist())
    }

    fn relative<'p>(&self, path: &'p [u8]) -> &'p Path {
        as_path(path.get(self.at..).unwrap_or_default())
    }
}

fn start_of(base: &[u8]) -> usize {
    if base.is_empty() { 0 } else { base.len() + 1 }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn globs(patterns: &[String]) -> Result<Override, ToolError> {
    if patterns.is_empty() {
        return Ok(Override::empty());
    }
    let wrong = |pattern: &str, error: &dyn std::fmt::Display| {
        ToolError::new(ErrorKind::InvalidParams, format!("The glob '{pattern}' is wrong: {error}"))
            .hint("Write it as in *.rs, src/**/*.ts or *.{c,h}; a leading ! leaves out what matches.")
    };
    let mut builder = OverrideBuilder::new("");
    for pattern in patterns {
        if nests_too_deep(pattern) {
            let shown: String = pattern.chars().take(80).collect();
            return Err(wrong(&format!("{shown}…"), &"its braces nest too deep"));
        }
        let (not, plain) = match pattern.strip_prefix('!') {
            Some(rest) => ("!", rest),
            None => ("", pattern.as_str()),
        };
        // `./src/*.rs` means what `src/*.rs` means, but for names alone: `./*.rs` are those of the directory itself.
        let line = match plain.strip_prefix("./") {
            Some(rest) => format!("{not}/{rest}"),
            // A glob is not a line of a file: a name may begin with `#`.
            None if plain.starts_with('#') => format!("{not}\\{plain}"),
            None => format!("{not}{plain}"),
        };
        builder.add(&line).map_err(|error| wrong(pattern, &error))?;
    }
    builder.build().map_err(|error| wrong(&patterns.join(" "), &error))
}

fn types(names: &[String]) -> Result<Types, ToolError> {
    if names.is_empty() {
        return Ok(Types::empty());
    }
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    for name in names {
        if !known.iter().any(|known| known.name() == name) {
            let near: Vec<&str> =
                known.iter().map(|known| known.name()).filter(|known| is_near(known, name)).take(8).collect();
            let hint = if near.is_empty() {
                "Use a name such as rust, py, js, ts, go, java, c, cpp, md, json, or a glob instead."
                    .to_owned()
            } else {
                format!("Did you mean {}? A glob such as *.{name} works too.", near.join(", "))
            };
            let message = format!("There is no file type '{name}'.");
            return Err(ToolError::new(ErrorKind::InvalidParams, message).hint(hint));
        }
        builder.select(name);
    }
    builder.build().map_err(|error| ToolError::new(ErrorKind::InvalidParams, error.to_string()))
}

/// Whether one name begins with the other.
fn is_near(known: &str, name: &str) -> bool {
    !name.is_empty() && (known.starts_with(name) || name.starts_with(known) && known.len() > 1)
}
