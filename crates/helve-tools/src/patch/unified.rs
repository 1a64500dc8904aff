//! Unified diffs as git, diff and models write them.
//!
//! What stands before the first file and between files (a letter, a commit's message, `index` lines) is passed over. The
//! counts of a hunk's header say where it ends if they are right; where they are wrong, its lines say it.

use super::names::{self, NOTHING};
use super::{BadPatch, Deed, Ending, Hunk, Kind, Line, Patch, Section, Source, shown};

/// Whether there is a file's header somewhere in it.
pub(super) fn is_one(lines: &[Source<'_>]) -> bool {
    lines.iter().any(|line| line.text.starts_with("diff --git "))
        || lines.windows(2).any(|pair| pair[0].text.starts_with("--- ") && pair[1].text.starts_with("+++ "))
}

/// Whether a line can be the first of a unified diff.
pub(super) fn starts_file(line: &str) -> bool {
    line.starts_with("diff --git ") || line.starts_with("--- ")
}

/// The numbers of a hunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    old_start: usize,
    old_count: usize,
    new_count: usize,
}

impl Range {
    /// How many lines of the old file are before the hunk. A hunk without old lines names the line before it.
    pub(super) fn before(self) -> usize {
        if self.old_count == 0 { self.old_start } else { self.old_start.saturating_sub(1) }
    }
}

/// Reads `@@ -1,2 +3,4 @@`.
pub(super) fn range(line: &str) -> Option<Range> {
    let rest = line.strip_prefix("@@")?.trim_start().strip_prefix('-')?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once("@@")?;
    let pair = |text: &str| -> Option<(usize, usize)> {
        match text.trim().split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.trim().parse().ok()?, 1)),
        }
    };
    let ((old_start, old_count), (_, new_count)) = (pair(old)?, pair(new)?);
    Some(Range { old_start, old_count, new_count })
}

pub(super) fn parse<'p>(lines: &[Source<'p>]) -> Result<Patch<'p>, BadPatch> {
    // Endings of `\r\n` on every line came with the text; on some lines they belong to the file.
    let all_cr = lines.iter().rev().skip(1).all(|line| line.text.ends_with('\r'));
    let mut reader = Reader { lines, at: 0, strip_cr: all_cr, notes: Vec::new() };
    let mut sections = Vec::new();
    while let Some(section) = reader.file()? {
        sections.extend(section);
    }
    if sections.is_empty() && reader.notes.is_empty() {
        return Err(BadPatch::new("No files were modified: the diff has no hunk."));
    }
    Ok(Patch { sections, notes: reader.notes })
}

struct Reader<'l, 'p> {
    lines: &'l [Source<'p>],
    at: usize,
    strip_cr: bool,
    notes: Vec<String>,
}

/// The lines of a hunk with their marks, and whether each has an ending.
type Body<'p> = Vec<(&'p str, bool)>;

/// What the lines before the hunks say of a file.
#[derive(Default)]
struct Facts {
    line: usize,
    git: Option<(String, String)>,
    old: Option<String>,
    new: Option<String>,
    rename_from: Option<String>,
    rename_to: Option<String>,
    is_new: bool,
    is_deleted: bool,
    mode: Option<String>,
    old_mode: bool,
}

impl<'p> Reader<'_, 'p> {
    fn peek(&self, ahead: usize) -> Option<&'p str> {
        self.lines.get(self.at + ahead).map(|line| line.text)
    }

    fn number(&self) -> usize {
        self.lines.get(self.at).or(self.lines.last()).map_or(1, |line| line.number)
    }

    /// Whether the two lines here are a file's header.
    fn at_names(&self) -> bool {
        self.peek(0).is_some_and(|line| line.starts_with("--- "))
            && self.peek(1).is_some_and(|line| line.starts_with("+++ "))
    }

    /// The next file: none at the end of the text, nothing where there is a header without any deed.
    fn file(&mut self) -> Result<Option<Option<Section<'p>>>, BadPatch> {
        while let Some(line) = self.peek(0) {
            if line.starts_with("diff --git ") || self.at_names() {
                break;
            }
            if line.starts_with("@@@ ") {
                return Err(BadPatch::at(self.number(), "a combined diff of a merge cannot be applied."));
            }
            if range(line).is_some() {
                let what = "a hunk stands before any file. Write '--- a/{path}' and '+++ b/{path}' above it.";
                return Err(BadPatch::at(self.number(), what));
            }
            self.at += 1;
        }
        if self.peek(0).is_none() {
            return Ok(None);
        }
        let facts = self.facts()?;
        let mut hunks = Vec::new();
        while let Some(line) = self.peek(0).filter(|line| line.starts_with("@@")) {
            if line.starts_with("@@@ ") {
                return Err(BadPatch::at(self.number(), "a combined diff of a merge cannot be applied."));
            }
            hunks.push(self.hunk()?);
        }
        // Where one line of a file shows how it ends, all of them do.
        let shows_cr =
            !self.strip_cr && hunks.iter().flat_map(|(_, body)| body).any(|(text, _)| text.ends_with('\r'));
        let hunks = hunks.into_iter().map(|(hunk, body)| filled(hunk, body, shows_cr)).collect();
        self.section(facts, hunks).map(Some)
    }

    /// Everything up to the first hunk.
    fn facts(&mut self) -> Result<Facts, BadPatch> {
        let mut facts = Facts { line: self.number(), ..Facts::default() };
        if let Some(rest) = self.peek(0).and_then(|line| line.strip_prefix("diff --git ")) {
            facts.git = names::from_git_line(rest);
            self.at += 1;
        }
        let bad_name = |reader: &Self| BadPatch::at(reader.number(), "the file's name cannot be read.");
        while let Some(line) = self.peek(0) {
            if line.starts_with("diff --git ") || line.starts_with("@@") {
                break;
            }
            if self.at_names() {
                if facts.old.is_some() {
                    break;
                }
                facts.line = self.number();
                facts.old = Some(names::written(&line[4..]).ok_or_else(|| bad_name(self))?);
                self.at += 1;
                let new = self.peek(0).and_then(|line| names::written(&line[4..]));
                facts.new = Some(new.ok_or_else(|| bad_name(self))?);
                self.at += 1;
                continue;
            }
            let said = |start: &str| line.strip_prefix(start).map(|rest| rest.trim_end().to_owned());
            if let Some(path) = line.strip_prefix("rename from ") {
                facts.rename_from = Some(names::written(path).ok_or_else(|| bad_name(self))?);
            } else if let Some(path) = line.strip_prefix("rename to ") {
                facts.rename_to = Some(names::written(path).ok_or_else(|| bad_name(self))?);
            } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
                let what = "a copy cannot be applied. Write the copy as a new file.";
                return Err(BadPatch::at(self.number(), what));
            } else if line.starts_with("GIT binary patch")
                || (line.starts_with("Binary files ") && line.trim_end().ends_with(" differ"))
            {
                let path = facts.git.as_ref().map_or("a file", |(_, new)| new.as_str());
                return Err(BadPatch {
                    message: format!(
                        "Invalid patch hunk at line {}: the patch of '{}' is binary, and only text can be patched.",
                        self.number(),
                        shown(path)
                    ),
                    hint: "Leave the file out of the patch and bring it in another way.",
                });
            } else if let Some(mode) = said("new file mode ") {
                facts.is_new = true;
                facts.mode = Some(mode);
            } else if let Some(mode) = said("deleted file mode ") {
                facts.is_deleted = true;
                facts.mode = Some(mode);
            } else if let Some(mode) = said("new mode ") {
                facts.mode = Some(mode);
                facts.old_mode = true;
            }
            self.at += 1;
        }
        Ok(facts)
    }

    fn section(&mut self, facts: Facts, hunks: Vec<Hunk<'p>>) -> Result<Option<Section<'p>>, BadPatch> {
        let pair = facts.old.as_deref().zip(facts.new.as_deref());
        let named = pair.map(|(old, new)| names::without_prefixes(old, new)).or(facts.git);
        let renamed = facts.rename_from.zip(facts.rename_to);
        let Some((old, new)) = renamed.clone().or(named) else {
            return Err(BadPatch::at(facts.line, "the file's name cannot be read."));
        };
        if let Some(mode) = &facts.mode {
            let kind = match mode.as_str() {
                "120000" => Some("a symbolic link"),
                "160000" => Some("a submodule"),
                _ => None,
            };
            if let Some(kind) = kind {
                let what =
                    format_args!("'{}' is {kind}, and only files can be patched.", shown(&new)).to_string();
                return Err(BadPatch::at(facts.line, what));
            }
            if facts.old_mode || mode == "100755" && facts.is_new {
                self.notes
                    .push(format!("The mode {mode} of {new} was not set: patches change content alone."));
            }
        }
        let is_new = facts.is_new || old == NOTHING;
        let is_deleted = facts.is_deleted || new == NOTHING;
        let section = |path: String, deed| Some(Section { line: facts.line, path, deed });
        if is_new && is_deleted {
            return Err(BadPatch::at(facts.line, "the diff neither adds, changes nor deletes a file."));
        }
        if is_new {
            return Ok(section(new, Deed::Add { content: content(&hunks)?, replaces: false }));
        }
        if is_deleted {
            return Ok(section(old, Deed::Delete { hunks }));
        }
        let to = renamed.map(|(_, to)| to);
        if hunks.is_empty() && to.is_none() {
            // A change of permissions only, or a header that a tool wrote for nothing.
            return Ok(None);
        }
        // Without a rename, two names are a copy kept by hand and the file itself.
        let path = if to.is_some() { old } else { new };
        Ok(section(path, Deed::Update { to, replaces: false, hunks }))
    }

    /// The header of a hunk, and what stands below it.
    fn hunk(&mut self) -> Result<(Hunk<'p>, Body<'p>), BadPatch> {
        let head = self.peek(0).unwrap_or_default();
        let mut hunk = Hunk { line: self.number(), ..Hunk::default() };
        let range = range(head);
        self.at += 1;
        match range {
            Some(range) => hunk.at = Some(range.before()),
            None => {
                // Models that do not know the numbers write `@@`, `@@ ... @@`, or a line as in the envelope.
                let text = head.trim_end().trim_matches('@').trim();
                if !text.is_empty() && text != "..." && !text.starts_with('-') {
                    hunk.headers.push(text);
                }
            }
        }
        let body = self.body(range)?;
        if body.is_empty() {
            return Err(BadPatch::at(hunk.line, "the hunk does not contain any lines."));
        }
        Ok((hunk, body))
    }

    /// The lines of a hunk with their marks, and whether each has an ending.
    fn body(&mut self, range: Option<Range>) -> Result<Body<'p>, BadPatch> {
        let mut body = Body::new();
        let (mut old, mut new) = (0, 0);
        // Where the counts of the header are met, if ever.
        let mut met = None;
        while let Some(line) = self.peek(0) {
            let wanted = range.map(|range| (range.old_count, range.new_count));
            if wanted == Some((old, new)) && met.is_none() && !line.starts_with('\\') {
                met = Some(body.len());
            }
            let is_next_file = self.at_names() && !self.is_pair_of_lines(wanted, (old, new));
            if line.starts_with("@@") || line.starts_with("diff --git ") || is_next_file {
                break;
            }
            match line.as_bytes().first() {
                Some(b'+') => new += 1,
                Some(b'-') => old += 1,
                Some(b' ') | None | Some(b'\r') => {
                    old += 1;
                    new += 1;
                }
                Some(b'\\') => {
                    if let Some(last) = body.last_mut() {
                        last.1 = false;
                    }
                    self.at += 1;
                    continue;
                }
                Some(_) if met.is_some() || is_between_files(line) => break,
                Some(_) => {
                    return Err(BadPatch::at(
                        self.number(),
                        format_args!(
                            "'{}' is not a line of a hunk. Every line should start with ' ' (context line), '+' (added \
                             line), or '-' (removed line)",
                            shown(line)
                        ),
                    ));
                }
            }
            body.push((line, true));
            self.at += 1;
        }
        // A letter's signature, and empty lines between hunks, are no lines of the hunk unless it counts them.
        if let Some(met) = met
            && body[met..].iter().all(|(line, _)| matches!(line.trim_end(), "" | "--"))
        {
            body.truncate(met);
        } else if range.is_none_or(|range| (range.old_count, range.new_count) != (old, new)) {
            while body.last().is_some_and(|(line, _)| line.trim_end().is_empty() && !line.starts_with(' ')) {
                body.pop();
            }
        }
        Ok(body)
    }

    /// Whether what looks like a file's header is a removed line `-- …` and an added line `++ …`: only if the counts
    /// want both, are met where a hunk follows, and they do not look like git's names.
    fn is_pair_of_lines(&self, wanted: Option<(usize, usize)>, have: (usize, usize)) -> bool {
        let named = |ahead, start: &str| self.peek(ahead).is_some_and(|line| line[4..].starts_with(start));
        let looks_named = [NOTHING, "a/", "b/", "\""].iter().any(|start| named(0, start) || named(1, start));
        let hunk_follows = self.peek(2).is_some_and(|line| line.starts_with("@@"));
        wanted.is_some_and(|(old, new)| {
            if hunk_follows { (old, new) == (have.0 + 1, have.1 + 1) } else { old > have.0 && new > have.1 }
        }) && !looks_named
    }
}

/// A hunk with its lines.
fn filled<'p>(mut hunk: Hunk<'p>, body: Body<'p>, shows_cr: bool) -> Hunk<'p> {
    for (text, ends) in body {
        let (kind, text) = match text.as_bytes().first() {
            Some(b'+') => (Kind::Add, &text[1..]),
            Some(b'-') => (Kind::Remove, &text[1..]),
            Some(b' ') => (Kind::Keep, &text[1..]),
            _ => (Kind::Keep, text),
        };
        let bare = text.strip_suffix('\r').unwrap_or(text);
        let (text, ending) = match (ends, shows_cr) {
            // A carriage return at the end of a file is no line's ending.
            (false, true) => (text, Ending::Missing),
            (false, false) => (bare, Ending::Missing),
            (true, false) => (bare, Ending::Beside),
            (true, true) if bare.len() < text.len() => (bare, Ending::CrLf),
            (true, true) => (text, Ending::Lf),
        };
        hunk.at_end |= ending == Ending::Missing;
        hunk.lines.push(Line { kind, text, ending });
    }
    hunk
}

fn is_between_files(line: &str) -> bool {
    ["Index: ", "====", "index ", "Only in ", "diff "].iter().any(|start| line.starts_with(start))
}

/// The content of a new file.
fn content(hunks: &[Hunk<'_>]) -> Result<String, BadPatch> {
    let mut content = String::new();
    for hunk in hunks {
        for line in &hunk.lines {
            if line.kind != Kind::Add && !(line.kind == Kind::Keep && line.text.is_empty()) {
                return Err(BadPatch::at(
                    hunk.line,
                    "the file is new, and its hunk has lines that must be there already.",
                ));
            }
            content.push_str(line.text);
            content.push_str(match line.ending {
                Ending::Missing => "",
                Ending::CrLf => "\r\n",
                Ending::Lf | Ending::Beside | Ending::FileFirst => "\n",
            });
        }
    }
    Ok(content)
}
