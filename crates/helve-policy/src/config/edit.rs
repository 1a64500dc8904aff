//! Changing one table of a TOML file and nothing else: comments, order and spelling of the rest stay as they are.
//!
//! In comes the text of a file and the name of a table, out goes the new text. The text is changed by lines and then
//! held against what was wanted: a file in which the table is not written under a header of its own is left to its
//! owner, with the reason.

use serde_json::{Map, Value};

use super::document;

/// Puts a table at its place: in place of the one of that name, or at the end. `body` holds the lines below the header,
/// and may hold headers of tables below it. A text that says the same there stays as it is.
pub fn set_table(text: &str, path: &[&str], body: &str) -> Result<String, String> {
    let before = parsed(text)?;
    let new = parsed(body)?;
    if lookup(&before, path).is_some_and(|there| pruned(there) == pruned(&new)) {
        return Ok(text.to_owned());
    }
    let kept = without(text, path);
    let mut out = kept.text;
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    if !out.trim().is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
    out.push_str(&format!("[{}]\n{body}", header(path)));
    if !out.ends_with('\n') {
        out.push('\n');
    }
    // What was behind the table stays behind it, so that a table that is set again does not wander.
    if let Some(rest) = kept.rest {
        out.push('\n');
        out.push_str(&rest);
    }
    let mut wanted = before;
    place(&mut wanted, path, Some(new))?;
    held_against(out, &wanted, path)
}

/// Takes a table out, with the tables below it. None where there is no such table.
pub fn remove_table(text: &str, path: &[&str]) -> Result<Option<String>, String> {
    let before = parsed(text)?;
    if lookup(&before, path).is_none() {
        return Ok(None);
    }
    let kept = without(text, path);
    let out = match kept.rest {
        Some(rest) => kept.text + &rest,
        None => kept.text,
    };
    let mut wanted = before;
    place(&mut wanted, path, None)?;
    held_against(out, &wanted, path).map(Some)
}

/// A table as it is written; none where there is no such table.
pub(super) fn table(text: &str, path: &[&str]) -> Result<Option<Map<String, Value>>, String> {
    let found = lookup(&parsed(text)?, path).cloned();
    Ok(found.and_then(|found| if let Value::Object(members) = found { Some(members) } else { None }))
}

fn parsed(text: &str) -> Result<Value, String> {
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return Err("it is written in JSON, which cannot be changed here without losing its form".to_owned());
    }
    let node = document::parse(text, false).map_err(|error| match error.line {
        Some(line) => format!("line {line}: {}", error.message.trim_end()),
        None => error.message.trim_end().to_owned(),
    })?;
    Ok(node.value.to_json())
}

fn lookup<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, part| value.get(part))
}

/// Sets or removes the member at `path`.
fn place(value: &mut Value, path: &[&str], new: Option<Value>) -> Result<(), String> {
    let no_table = || "something else than a table stands at its place".to_owned();
    let Some((last, above)) = path.split_last() else { return Err(no_table()) };
    let mut at = value;
    for part in above {
        at = at
            .as_object_mut()
            .ok_or_else(no_table)?
            .entry(*part)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    let members = at.as_object_mut().ok_or_else(no_table)?;
    match new {
        Some(new) => members.insert((*last).to_owned(), new),
        None => members.remove(*last),
    };
    Ok(())
}

/// The changed text says what was wanted and nothing else; tables that are left empty say nothing.
fn held_against(out: String, wanted: &Value, path: &[&str]) -> Result<String, String> {
    let by_hand = || {
        format!(
            "`{}` is not written under a header [{}] of its own; change it by hand",
            path.join("."),
            header(path)
        )
    };
    let got = parsed(&out).map_err(|_| by_hand())?;
    if pruned(&got) == pruned(wanted) { Ok(out) } else { Err(by_hand()) }
}

fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), pruned(value)));
            let is_said = |value: &Value| value.as_object().is_none_or(|members| !members.is_empty());
            Value::Object(members.filter(|(_, value)| is_said(value)).collect())
        }
        other => other.clone(),
    }
}

/// A text without a table, and what stands behind the place where the table was.
struct Kept {
    text: String,
    rest: Option<String>,
}

fn without(text: &str, path: &[&str]) -> Kept {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // Comments right above a header belong to it.
    let start_of = |header: usize| {
        let is_comment = |line: &&&str| line.trim_start().starts_with('#');
        header - lines[..header].iter().rev().take_while(is_comment).count()
    };
    let headers: Vec<(usize, bool)> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at, names(line)?)))
        .map(|(at, name)| (at, name.len() >= path.len() && name.iter().zip(path).all(|(a, b)| a == b)))
        .collect();
    let mut keep = vec![true; lines.len()];
    let mut first = None;
    for (index, (at, ours)) in headers.iter().enumerate() {
        if *ours {
            let end = headers.get(index + 1).map_or(lines.len(), |(next, _)| start_of(*next));
            keep[start_of(*at)..end.max(*at + 1)].fill(false);
            first.get_or_insert(start_of(*at));
        }
    }
    let some = |from: usize, to: usize| -> String {
        (from..to).filter(|at| keep[*at]).map(|at| lines[at]).collect()
    };
    match first {
        None => Kept { text: text.to_owned(), rest: None },
        Some(first) => {
            let rest = some(first, lines.len());
            Kept { text: some(0, first), rest: (!rest.trim().is_empty()).then_some(rest) }
        }
    }
}

/// The parts of the name in a line that is the header of a table. A line of a text over several lines may look like one;
/// that is found when the result is held against what was wanted.
fn names(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('[')?;
    if inner.starts_with('[') {
        // A list of tables ends what is above it like any other header.
        return Some(Vec::new());
    }
    let node = document::parse(line.trim(), false).ok()?;
    let mut value = node.value.to_json();
    let mut names = Vec::new();
    while let Some((name, below)) = value.as_object().and_then(|members| members.iter().next()) {
        names.push(name.clone());
        value = below.clone();
    }
    Some(names)
}

/// A name as the header of a table spells it.
fn header(path: &[&str]) -> String {
    path.iter().map(|part| super::show::toml_key(part)).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    const BODY: &str = "command = \"x\"\nargs = []\n";
    const PATH: [&str; 3] = ["mcp", "servers", "new"];

    #[test]
    fn a_table_is_added_at_the_end_and_nothing_else_changes() {
        assert_eq!(set_table("", &PATH, BODY).unwrap(), format!("[mcp.servers.new]\n{BODY}"));
        let text = "# mine\nparallel = false # why\n\n[[rules]]\nverdict = 'ask'\ncommand = 'x'";
        let out = set_table(text, &PATH, BODY).unwrap();
        assert_eq!(out, format!("{text}\n\n[mcp.servers.new]\n{BODY}"));
        assert_eq!(remove_table(&out, &PATH).unwrap().unwrap().trim_end(), text);
        let dotted = set_table("", &["a b", "c"], "x = 1").unwrap();
        assert_eq!(dotted, "[\"a b\".c]\nx = 1\n");
    }

    #[test]
    fn a_table_is_replaced_where_it_stands() {
        let text = "a = 1\n\n# of old\n[mcp.servers.old]\ncommand = 'y'\n\n# about it\n[mcp.servers.new]\ncommand = 'z'\n\
                    [mcp.servers.new.env]\nA = '1'\n\n# next\n[view]\nhidden = []\n";
        let out = set_table(text, &PATH, BODY).unwrap();
        let expected = "a = 1\n\n# of old\n[mcp.servers.old]\ncommand = 'y'\n\n[mcp.servers.new]\ncommand = \"x\"\n\
                        args = []\n\n# next\n[view]\nhidden = []\n";
        assert_eq!(out, expected);
        assert_eq!(set_table(&out, &PATH, BODY).unwrap(), out, "again changes nothing");
        let removed = remove_table(text, &PATH).unwrap().unwrap();
        let left = "a = 1\n\n# of old\n[mcp.servers.old]\ncommand = 'y'\n\n# next\n[view]\nhidden = []\n";
        assert_eq!(removed, left);
        assert_eq!(remove_table(&removed, &PATH).unwrap(), None);
    }

    #[test]
    fn a_table_that_says_the_same_keeps_its_spelling() {
        for text in [
            "[mcp.servers.new]\n# mine\nargs = [ ]\ncommand = 'x'\n[view]\n",
            "[mcp.servers]\nnew = { command = 'x', args = [] }\n",
        ] {
            assert_eq!(set_table(text, &PATH, BODY).unwrap(), text);
        }
    }

    #[test]
    fn what_is_written_otherwise_is_left_to_the_owner() {
        for text in [
            "mcp.servers.new.command = 'y'",
            "[mcp.servers]\nnew = { command = 'y' }",
            "mcp = { servers = { new = { command = 'y' } } }",
            "[mcp]\nservers.new.command = 'y'\n",
        ] {
            let error = remove_table(text, &PATH).unwrap_err();
            assert!(error.contains("by hand"), "{text}: {error}");
            assert!(set_table(text, &PATH, BODY).is_err(), "{text}");
        }
        // A header in a text over several lines is none.
        let text = "doc = '''\n[mcp.servers.new]\ncommand = 'z'\n'''\n";
        assert_eq!(remove_table(text, &PATH).unwrap(), None);
        assert!(set_table(text, &PATH, BODY).is_err());
        assert!(set_table("{\"mcp\": {}}", &PATH, BODY).unwrap_err().contains("JSON"));
        assert!(set_table("a = ", &PATH, BODY).unwrap_err().contains("line 1"));
        assert!(set_table("mcp = 1", &PATH, BODY).is_err());
    }

    proptest! {
        /// Whatever is there, a change either says exactly what was wanted or is refused.
        #[test]
        fn nothing_else_changes(text in "(\\[mcp(\\.servers)?(\\.(new|old))?\\]\n|a\\.b = 1\n|# c\n|\n|command = 'x'\n|'''\n){0,12}") {
            if let Ok(out) = set_table(&text, &PATH, BODY) {
                let mut wanted = parsed(&text).unwrap();
                place(&mut wanted, &PATH, Some(parsed(BODY).unwrap())).unwrap();
                prop_assert_eq!(pruned(&parsed(&out).unwrap()), pruned(&wanted));
            }
            let _ = remove_table(&text, &PATH);
        }
    }
}
