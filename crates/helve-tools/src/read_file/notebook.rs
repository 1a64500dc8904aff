//! Notebooks (`.ipynb`) as text: each cell under a line that says what it is, with the text of its outputs. Pictures and
//! other outputs are named, not shown.
//!
//! The JSON is read as a stream into the text: what a cell holds beside that is never kept, and nothing is kept of cells
//! behind the bound.

use std::fmt::{self, Write};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Document;

/// How many outputs of one cell are shown.
const OUTPUTS: usize = 200;

/// The text of a notebook of at most `most` bytes; an error if it is none.
pub(super) fn text(bytes: &[u8], most: u64) -> Result<Document, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut page = Sheet { text: String::new(), most, cells: 0, shown: 0, found: false };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    (&mut page).deserialize(&mut json).map_err(|error| format!("it is no notebook ({error})"))?;
    json.end().map_err(|error| format!("it is no notebook ({error})"))?;
    if !page.found {
        return Err("it has no cells".to_owned());
    }
    let left = page.cells - page.shown;
    let note =
        (left > 0).then(|| format!("[{left} further cells are not shown: the text is {most} bytes long.]"));
    Ok(Document { text: page.text, parts: page.cells, note })
}

/// The text while it is written.
struct Sheet {
    text: String,
    most: usize,
    cells: u64,
    shown: u64,
    found: bool,
}

impl<'de> DeserializeSeed<'de> for &mut Sheet {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Sheet {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a notebook")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "cells" {
                self.found = true;
                map.next_value_seed(Cells(self))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Cells<'a>(&'a mut Sheet);

impl<'de> DeserializeSeed<'de> for Cells<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Cells<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cells")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut cells: A) -> Result<(), A::Error> {
        let sheet = self.0;
        loop {
            if sheet.text.len() >= sheet.most {
                while cells.next_element::<IgnoredAny>()?.is_some() {
                    sheet.cells += 1;
                }
                return Ok(());
            }
            let Some(cell) = cells.next_element::<Cell>()? else { return Ok(()) };
            sheet.cells += 1;
            sheet.shown += 1;
            let number = sheet.cells;
            cell.write(number, &mut sheet.text);
            if sheet.text.len() > sheet.most {
                sheet.text.truncate(sheet.text.floor_char_boundary(sheet.most));
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cell {
    cell_type: String,
    execution_count: Option<u64>,
    source: Text,
    outputs: Few,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Given {
    text: Text,
    data: Data,
    ename: Option<String>,
    evalue: Option<String>,
}

impl Cell {
    fn write(&self, number: u64, text: &mut String) {
        if !text.is_empty() {
            text.push('\n');
        }
        let kind = if self.cell_type.is_empty() { "cell" } else { &self.cell_type };
        let _ = match self.execution_count {
            Some(count) => writeln!(text, "[cell {number}: {kind}, run {count}]"),
            None => writeln!(text, "[cell {number}: {kind}]"),
        };
        push_lines(text, &self.source.0);
        for output in &self.outputs.kept {
            let plain = if output.text.0.is_empty() { &output.data.plain.0 } else { &output.text.0 };
            if !plain.is_empty() {
                text.push_str("[output]\n");
                push_lines(text, plain);
            }
            if let Some(name) = &output.ename {
                let _ = writeln!(text, "[error] {name}: {}", output.evalue.as_deref().unwrap_or_default());
            }
            for kind in &output.data.others {
                let _ = writeln!(text, "[output: {kind}, not shown]");
            }
        }
        if self.outputs.dropped > 0 {
            let _ = writeln!(text, "[{} further outputs are not shown]", self.outputs.dropped);
        }
    }
}

fn push_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

/// A text, or the lines of one.
#[derive(Default)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or its lines")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut lines: A) -> Result<Text, A::Error> {
                let mut text = String::new();
                while let Some(line) = lines.next_element::<String>()? {
                    text.push_str(&line);
                }
                Ok(Text(text))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// The forms of one output: its plain text, and the names of the others where there is none, or they are pictures.
#[derive(Default)]
struct Data {
    plain: Text,
    others: Vec<String>,
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Data;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an output's forms")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
                let mut data = Data::default();
                while let Some(kind) = map.next_key::<String>()? {
                    if kind == "text/plain" {
                        data.plain = map.next_value()?;
                        continue;
                    }
                    map.next_value::<IgnoredAny>()?;
                    if data.others.len() < 8 && kind.len() < 100 {
                        data.others.push(kind);
                    }
                }
                let has_plain = !data.plain.0.is_empty();
                data.others.retain(|kind| !has_plain || kind.starts_with("image/"));
                Ok(data)
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// The first outputs of a cell, and how many there are beside them.
#[derive(Default)]
struct Few {
    kept: Vec<Given>,
    dropped: u64,
}

impl<'de> Deserialize<'de> for Few {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Few;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("outputs")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut outputs: A) -> Result<Few, A::Error> {
                let mut few = Few::default();
                while few.kept.len() < OUTPUTS {
                    let Some(output) = outputs.next_element()? else { return Ok(few) };
                    few.kept.push(output);
                }
                while outputs.next_element::<IgnoredAny>()?.is_some() {
                    few.dropped += 1;
                }
                Ok(few)
            }
        }
        deserializer.deserialize_seq(Read)
    }
}
