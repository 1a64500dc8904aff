//! Setting one member in a text of JSON, with or without comments, and nothing else: order, comments and spelling of the
//! rest stay as they are.
//!
//! In comes the text and a path of keys, out goes the new text. What comes out is parsed and held against what was wanted.

use helve::text::plain_json;
use serde_json::{Map, Value};

/// Puts `value` at `path`; a text that has it there stays as it is. An empty text counts as an empty object.
pub(super) fn set_member(text: &str, path: &[&str], value: &Value) -> Result<String, String> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let bare = if bare.trim().is_empty() { "{}\n" } else { bare };
    let before = parsed(bare)?;
    let mut wanted = before.clone();
    place(&mut wanted, path, value.clone())?;
    if wanted == before {
        return Ok(bare.to_owned());
    }
    let plain = plain_json(bare);
    let out = Editor { text: bare, plain: plain.as_bytes() }.set(path, value)?;
    match parsed(&out) {
        Ok(got) if got == wanted => Ok(out),
        _ => Err("its form is not understood; change it by hand".to_owned()),
    }
}

fn parsed(text: &str) -> Result<Value, String> {
    let value: Value =
        serde_json::from_str(&plain_json(text)).map_err(|error| format!("it is not JSON: {error}"))?;
    if value.is_object() { Ok(value) } else { Err("it does not hold an object".to_owned()) }
}

fn place(value: &mut Value, path: &[&str], new: Value) -> Result<(), String> {
    let mut at = value;
    for part in path {
        let members =
            at.as_object_mut().ok_or_else(|| format!("what stands above {part:?} is not an object"))?;
        at = members.entry(*part).or_insert_with(|| Value::Object(Map::new()));
    }
    *at = new;
    Ok(())
}

/// The text, and the same with comments and last commas as blanks, so that places are the same in both.
struct Editor<'t> {
    text: &'t str,
    plain: &'t [u8],
}

/// A member of an object, by its places in the text.
struct Member {
    key: String,
    key_at: usize,
    value_at: usize,
    end: usize,
}

impl Editor<'_> {
    fn set(&self, path: &[&str], value: &Value) -> Result<String, String> {
        let not_understood = || "its form is not understood; change it by hand".to_owned();
        let mut open = self.skip_blank(0);
        for (depth, part) in path.iter().enumerate() {
            let (members, close) = self.members(open).ok_or_else(not_understood)?;
            // Of a key that is written twice, the last one counts.
            let found = members.iter().rev().find(|member| member.key == *part);
            match found {
                Some(member) if depth + 1 == path.len() => {
                    let indent = self.indent_of(member.key_at).unwrap_or_default();
                    let new = self.spelled(value, &indent);
                    return Ok(format!("{}{new}{}", &self.text[..member.value_at], &self.text[member.end..]));
                }
                Some(member) if self.plain.get(member.value_at) == Some(&b'{') => open = member.value_at,
                Some(_) => return Err(format!("{part:?} is not an object")),
                None => {
                    let below = path[depth + 1..].iter().rev();
                    let value = below.fold(value.clone(), |value, part| {
                        Value::Object(Map::from_iter([((*part).to_owned(), value)]))
                    });
                    return Ok(self.add(part, &value, &members, open, close, depth + 1));
                }
            }
        }
        Err(not_understood())
    }

    /// Adds a member at the end of an object.
    fn add(
        &self,
        key: &str,
        value: &Value,
        members: &[Member],
        open: usize,
        close: usize,
        depth: usize,
    ) -> String {
        let text = self.text;
        let unit = self.unit();
        let last = members.last();
        let indent =
            last.and_then(|member| self.indent_of(member.key_at)).unwrap_or_else(|| unit.repeat(depth));
        let outer =
            self.indent_of(close).or_else(|| self.indent_of(open)).unwrap_or_else(|| unit.repeat(depth - 1));
        let new = format!("{}: {}", Value::from(key), self.spelled(value, &indent));
        let Some(last) = last else {
            let comments = text[open + 1..close].trim_end();
            return format!("{}{comments}\n{indent}{new}\n{outer}{}", &text[..=open], &text[close..]);
        };
        // Where editors allow it, a comma may stand behind the last member already.
        let between = &text[last.end..close];
        let blanked = self.plain.get(last.end..close).unwrap_or_default();
        let comma = (0..between.len())
            .find(|at| between.as_bytes()[*at] == b',' && self.is_code(last.end + at, blanked[*at]));
        let kept = between.trim_end();
        let comma = if comma.is_some() { "" } else { "," };
        format!("{}{comma}{kept}\n{indent}{new}\n{outer}{}", &text[..last.end], &text[close..])
    }

    /// Whether a blanked comma stood outside of comments: everything from the line's start to it is blank in both.
    fn is_code(&self, at: usize, blanked: u8) -> bool {
        let before = &self.text[..at];
        let comment = before
            .rfind("/*")
            .is_some_and(|start| !before[start..].contains("*/") && self.plain[start] == b' ');
        let line = before.rfind('\n').map_or(0, |start| start + 1);
        let line_comment = before[line..].find("//").is_some_and(|start| self.plain[line + start] == b' ');
        blanked == b' ' && !comment && !line_comment
    }

    /// The value over several lines, as deep as the line that it stands on.
    fn spelled(&self, value: &Value, indent: &str) -> String {
        let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
        let unit = self.unit();
        let line = |(at, line): (usize, &str)| {
            let rest = line.trim_start_matches(' ');
            let deep = unit.repeat((line.len() - rest.len()) / 2);
            if at == 0 { rest.to_owned() } else { format!("{indent}{deep}{rest}") }
        };
        pretty.lines().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// One step of indentation in this text.
    fn unit(&self) -> String {
        let first = self.text.lines().find_map(|line| {
            let rest = line.trim_start_matches([' ', '\t']);
            let blank = &line[..line.len() - rest.len()];
            (rest.starts_with('"') && !blank.is_empty()).then_some(blank)
        });
        match first {
            Some(blank) if blank.starts_with('\t') => "\t".to_owned(),
            Some(blank) => " ".repeat(blank.len().min(8)),
            None => "  ".to_owned(),
        }
    }

    /// The blanks before something that stands first on its line.
    fn indent_of(&self, at: usize) -> Option<String> {
        let line = self.text[..at].rfind('\n').map_or(0, |start| start + 1);
        let blank = &self.text[line..at];
        blank.chars().all(|ch| ch == ' ' || ch == '\t').then(|| blank.to_owned())
    }

    fn skip_blank(&self, from: usize) -> usize {
        let blank = self.plain[from..].iter().take_while(|byte| byte.is_ascii_whitespace());
        from + blank.count()
    }

    /// The members of the object that opens at `open`, and where it closes. The text is known to be sound.
    fn members(&self, open: usize) -> Option<(Vec<Member>, usize)> {
        let mut members = Vec::new();
        let mut at = self.skip_blank(open + 1);
        loop {
            match self.plain.get(at)? {
                b'}' => return Some((members, at)),
                b',' => at = self.skip_blank(at + 1),
                b'"' => {
                    let key_end = self.end_of(at)?;
                    let key = serde_json::from_slice(&self.plain[at..key_end]).ok()?;
                    let colon = self.skip_blank(key_end);
                    let value_at = self.skip_blank(colon + 1);
                    let end = self.end_of(value_at)?;
                    members.push(Member { key, key_at: at, value_at, end });
                    at = self.skip_blank(end);
                }
                _ => return None,
            }
        }
    }

    /// Where the value at `at` ends.
    fn end_of(&self, at: usize) -> Option<usize> {
        let mut values =
            serde_json::Deserializer::from_slice(&self.plain[at..]).into_iter::<serde::de::IgnoredAny>();
        values.next()?.ok()?;
        Some(at + values.byte_offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    const PATH: [&str; 2] = ["mcpServers", "helve"];

    fn set(text: &str) -> String {
        set_member(text, &PATH, &json!({"command": "helve"})).unwrap()
    }

    #[test]
    fn an_empty_file_becomes_the_smallest_one() {
        let expected =
            "{\n  \"mcpServers\": {\n    \"helve\": {\n      \"command\": \"helve\"\n    }\n  }\n}\n";
        assert_eq!(set(""), expected);
        assert_eq!(set("{}\n"), expected);
        assert_eq!(set(expected), expected, "again changes nothing");
    }

    #[test]
    fn the_rest_stays_as_it_is() {
        let text = "{\n\t\"z\": 1.50, // why\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"x\"}, // last\n\t},\n\t/* end */\n}\n";
        let expected = "{\n\t\"z\": 1.50, // why\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"x\"}, // last\n\t\t\"helve\": {\n\t\t\t\"command\": \"helve\"\n\t\t}\n\t},\n\t/* end */\n}\n";
        assert_eq!(set(text), expected);
        let text = "{\n    \"b\": 2,\n    \"a\": 1 // one, two\n}";
        let expected = "{\n    \"b\": 2,\n    \"a\": 1, // one, two\n    \"mcpServers\": {\n        \"helve\": {\n            \"command\": \"helve\"\n        }\n    }\n}";
        assert_eq!(set(text), expected);
        let one_line = set(r#"{"mcpServers":{"a":{}}}"#);
        assert_eq!(
            serde_json::from_str::<Value>(&one_line).unwrap(),
            json!({"mcpServers": {"a": {}, "helve": {"command": "helve"}}})
        );
    }

    #[test]
    fn a_member_is_replaced_where_it_stands() {
        let text = "{\n  \"mcpServers\": {\n    \"helve\": {\"command\": \"old\", \"args\": [1, {}]},\n    \"b\": 1\n  }\n}\n";
        let expected = "{\n  \"mcpServers\": {\n    \"helve\": {\n      \"command\": \"helve\"\n    },\n    \"b\": 1\n  }\n}\n";
        assert_eq!(set(text), expected);
    }

    #[test]
    fn a_member_that_says_the_same_keeps_its_spelling() {
        let text = "{\"mcpServers\": {\"helve\": { \"command\": \"helve\", /* mine */ }, \"b\": 1}}";
        assert_eq!(set(text), text);
    }

    #[test]
    fn what_is_no_object_is_left_alone() {
        for text in
            ["[]", "1", "{", "{\"mcpServers\": []}", "{\"mcpServers\": 1}", "nonsense", "{\"a\": 1} {"]
        {
            assert!(set_member(text, &PATH, &json!({})).is_err(), "{text}");
        }
    }

    proptest! {
        /// Whatever is there, a change either says exactly what was wanted or is refused.
        #[test]
        fn nothing_else_changes(text in "(\\{|\\}|\\[|\\]|\"mcpServers\": |\"a\": |\"helve\": |1|,|\n|  |//x\n|/\\*,\\*/){0,14}") {
            if let Ok(out) = set_member(&text, &PATH, &json!({"c": 1})) {
                let mut wanted = if text.trim().is_empty() { json!({}) } else { parsed(&text).unwrap() };
                place(&mut wanted, &PATH, json!({"c": 1})).unwrap();
                prop_assert_eq!(parsed(&out).unwrap(), wanted);
            }
        }
    }
}
