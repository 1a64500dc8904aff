//! The tool over files in memory. Encodings and large files are tests of the bridge.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve_core::context::{Parts, assemble};
use helve_core::files::{
    Change, Changed, ContentId, FileContent, FileEntry, FileKind, FileStat, FilesPlace, ListRequest, Listed,
    PageRequest, SearchRequest, Searched, Seen, WalkRequest, Walked,
};
use helve_core::{BoxFuture, CallId, Cancel, Progress, typed};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Files of one directory.
#[derive(Default)]
struct Shelf(BTreeMap<String, Vec<u8>>);

fn now<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(async move { value })
}

fn stat(bytes: &[u8]) -> FileStat {
    FileStat { kind: FileKind::File, len: bytes.len() as u64, modified: None, mode: 0o644 }
}

impl Shelf {
    fn get(&self, path: &str) -> Result<&Vec<u8>, ToolError> {
        self.0.get(path).ok_or_else(|| ToolError::not_found(format!("{path} does not exist.")))
    }

    fn window(&self, request: &PageRequest) -> Result<Page, ToolError> {
        let bytes = self.get(&request.path)?;
        let text = String::from_utf8_lossy(bytes);
        let mut page = slice::page(&text, request.path.clone(), stat(bytes), request);
        let media_type = match bytes.as_slice() {
            [0x89, b'P', ..] => "image/png",
            [0xff, 0xd8, ..] => "image/jpeg",
            [b'G', b'I', b'F', ..] => "image/gif",
            [b'B', b'M', ..] => "image/bmp",
            [b'%', b'P', b'D', b'F', ..] => "application/pdf",
            bytes if bytes.contains(&0) => "application/octet-stream",
            _ => return Ok(page),
        };
        page.shape = Shape::Binary {
            media_type: media_type.to_owned(),
            head: bytes.iter().copied().take(256).collect(),
        };
        Ok(page)
    }
}

impl Files for Shelf {
    fn place(&self) -> FilesPlace {
        FilesPlace::Memory
    }
    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<FileStat>, ToolError>> {
        now(Ok(self.0.get(path).map(|bytes| stat(bytes))))
    }
    fn read<'a>(&'a self, path: &'a str, _: u64) -> BoxFuture<'a, Result<FileContent, ToolError>> {
        now(self.get(path).map(|bytes| FileContent {
            bytes: bytes.clone(),
            id: ContentId(String::new()),
            stat: stat(bytes),
            path: path.to_owned(),
        }))
    }
    fn page<'a>(&'a self, request: &'a PageRequest) -> BoxFuture<'a, Result<Page, ToolError>> {
        now(self.window(request))
    }
    fn list<'a>(&'a self, request: &'a ListRequest) -> BoxFuture<'a, Result<Listed, ToolError>> {
        let inside = match request.path.as_str() {
            "." => String::new(),
            path => format!("{path}/"),
        };
        let mut names = BTreeMap::new();
        for name in self.0.keys().filter_map(|name| name.strip_prefix(&inside)) {
            match name.split_once('/') {
                Some((directory, _)) => names.insert(directory.to_owned(), FileKind::Directory),
                None => names.insert(name.to_owned(), FileKind::File),
            };
        }
        let is_there = request.path == "." || !names.is_empty();
        let entries = names.into_iter().map(|(path, kind)| FileEntry { path, kind, stat: None }).collect();
        let listed = Listed { entries, ..Listed::default() };
        now(if is_there { Ok(listed) } else { Err(ToolError::not_found("no such directory")) })
    }
    fn walk<'a>(&'a self, _: &'a WalkRequest) -> BoxFuture<'a, Result<Walked, ToolError>> {
        now(Ok(Walked::default()))
    }
    fn search<'a>(&'a self, _: &'a SearchRequest) -> BoxFuture<'a, Result<Searched, ToolError>> {
        now(Ok(Searched::default()))
    }
    fn commit(&self, _: Vec<Change>, _: bool) -> BoxFuture<'_, Result<Vec<Changed>, ToolError>> {
        now(Err(ToolError::internal("a tool that reads changes nothing")))
    }
    fn last_seen(&self, _: &str) -> Option<Seen> {
        None
    }
    fn saw_last(&self, _: &str, _: &Seen) {}
}

fn read_with(files: &[(&str, &[u8])], args: Value, tokens: Option<u64>) -> Result<Output, ToolError> {
    let shelf = Shelf(files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect());
    let call = CallId::from_parts(1, 1);
    let context = assemble(Parts {
        call: call.clone(),
        caller: "owner".into(),
        limits: Arc::new(Limits::default()),
        shell: None,
        files: Some(Arc::new(shelf) as Arc<dyn Files>),
        net: None,
        blobs: None,
        servers: None,
        peer: None,
        progress: Progress::new(call, None),
        cancel: Cancel::never(),
    });
    let tool = typed(ReadFile::new(&FileDefaults { model_context_window_tokens: tokens }));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(helve_core::Tool::run(&tool, args, &context))
}

fn read(files: &[(&str, &[u8])], args: Value) -> Output {
    read_with(files, args, None).unwrap()
}

fn text_of(content: &[u8], args: Value) -> String {
    read(&[("f", content)], args).joined_text()
}

#[test]
fn a_file_is_shown_without_its_last_line_end() {
    let output = read(&[("f", b"one\ntwo\n")], json!({"path": "f"}));
    assert_eq!(output.joined_text(), "one\ntwo");
    assert!(output.paged);
    let details = json!({"kind": "text", "path": "f", "size": 8, "encoding": "UTF-8", "firstLine": 1, "lines": 2,
        "totalLines": 2});
    assert_eq!(output.details, details);
}

#[test]
fn texts_for_files_with_nothing_to_show() {
    assert_eq!(text_of(b"", json!({"path": "f"})), "File is empty (0 bytes).");
    assert_eq!(text_of(b"\n\n", json!({"path": "f"})), "File contains 2 blank lines.");
    assert_eq!(text_of(b"\n", json!({"path": "f"})), "File contains 1 blank line.");
    let beyond = "Offset 5000 is beyond end of file (2 lines total). Retry with offset <= 2.";
    assert_eq!(text_of(b"a\nb\n", json!({"path": "f", "offset": 5000})), beyond);
}

#[test]
fn a_page_says_exactly_how_to_go_on() {
    let lines: String = (1..=20_000).map(|n| format!("{n:059}\n")).collect();
    let text = text_of(lines.as_bytes(), json!({"path": "f"}));
    let end = "\n\n[Showing lines 1-853 of 20000 (50.0KB limit). Use offset=854 to continue.]";
    assert!(text.ends_with(end), "{}", &text[text.len() - 100..]);
    let short: String = "x\n".repeat(5_000);
    let output = read(&[("f", short.as_bytes())], json!({"path": "f"}));
    assert!(
        output.joined_text().ends_with("x\n\n[Showing lines 1-2000 of 5000. Use offset=2001 to continue.]")
    );
    assert_eq!(output.details["kind"], "truncated");
    assert_eq!(output.details["continuation"], json!({"offset": 2001}));
    let truncation = json!({"truncatedBy": "lines", "outputBytes": 3999, "lastLinePartial": false, "maxLines": 2000,
        "maxBytes": 51200});
    assert_eq!(output.details["truncation"], truncation);
    let limited = text_of(b"1\n2\n3\n4\n5\n", json!({"path": "f", "offset": 2, "limit": 2}));
    assert_eq!(limited, "2\n3\n\n[2 more lines in file. Use offset=4 to continue.]");
}

#[test]
fn a_long_line_is_shown_in_parts() {
    let line = "ä".repeat(40_000);
    let output = read(&[("f", line.as_bytes())], json!({"path": "f"}));
    let end =
        "\n\n[Showing part of line 1 (50.0KB limit). Use read_file with offset=1, cursor=25600 to continue.]";
    assert!(output.joined_text().ends_with(end));
    assert_eq!(output.details["continuation"], json!({"offset": 1, "cursor": 25600}));
    let rest = text_of(line.as_bytes(), json!({"path": "f", "offset": 1, "cursor": 25600}));
    assert_eq!(rest, "ä".repeat(40_000 - 25_600));
}

#[test]
fn a_negative_offset_counts_from_the_end() {
    assert_eq!(text_of(b"1\n2\n3\n4\n", json!({"path": "f", "offset": -2})), "3\n4");
    assert_eq!(text_of(b"1\n2\n", json!({"path": "f", "offset": -20})), "1\n2");
    let beyond = text_of(b"short\nnext", json!({"path": "f", "offset": 1, "cursor": u64::MAX, "limit": 1}));
    assert!(beyond.starts_with("Line 1 has at most 18446744073709551615 characters"), "{beyond}");
    let error = read_with(&[("f", b"1")], json!({"path": "f", "offset": -2, "cursor": 3}), None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParams);
    assert_eq!(text_of(b"1\n2\n", json!({"path": "f", "offset": 0})), "1\n2");
}

#[test]
fn a_gutter_numbers_the_lines() {
    let text = text_of(b"a\n\nc\n", json!({"path": "f", "offset": 2, "line_numbers": true}));
    assert_eq!(text, "     2\t\n     3\tc");
}

#[test]
fn a_page_follows_the_context_window() {
    let limits = Limits::default();
    let cases = [
        (None, 51_200),
        (Some(1_000), 4_096),
        (Some(8_000), 6_400),
        (Some(128_000), 102_400),
        (Some(200_000), 160_000),
        (Some(1_000_000), 524_288),
        (Some(u64::MAX), 524_288),
    ];
    for (tokens, bytes) in cases {
        assert_eq!(ask::page_bytes(tokens, &limits), bytes, "{tokens:?}");
    }
    let lines = "x".repeat(36) + "\n";
    let file = lines.repeat(20_000);
    let shown = |tokens| {
        let output = read_with(&[("f", file.as_bytes())], json!({"path": "f"}), tokens).unwrap();
        output.details["truncation"]["outputBytes"].as_u64().unwrap()
    };
    // What the window allows is really given, short lines or not.
    assert!((51_100..=51_200).contains(&shown(None)));
    assert!((159_900..=160_000).contains(&shown(Some(200_000))));
    assert!((524_200..=524_288).contains(&shown(Some(1_000_000))));
}

#[test]
fn a_missing_file_is_an_error_unless_it_is_optional() {
    let files: [(&str, &[u8]); 3] = [("main.rs", b"x"), ("src/lib.rs", b"x"), ("other.txt", b"x")];
    let error = read_with(&files, json!({"path": "mian.rs"}), None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(error.message, "File not found: mian.rs. Did you mean: main.rs?");
    let error = read_with(&files, json!({"path": "scr/lib.rs"}), None).unwrap_err();
    assert_eq!(error.message, "File not found: scr/lib.rs. There is no directory scr. Did you mean: src?");
    let error = read_with(&files, json!({"path": "zzzzzzzz"}), None).unwrap_err();
    assert_eq!(error.message, "File not found: zzzzzzzz.");
    let output = read(&files, json!({"path": "mian.rs", "optional": true}));
    assert_eq!(output.joined_text(), "Optional file not found: mian.rs.");
    assert_eq!(output.details, json!({"kind": "not_found", "path": "mian.rs", "optional": true}));
}

#[test]
fn the_same_name_in_another_spelling_is_read() {
    let decomposed = "Gru\u{308}ße.txt";
    let output = read(&[(decomposed, b"hi")], json!({"path": "Grüße.txt"}));
    assert_eq!(output.joined_text(), format!("[Resolved filename: Grüße.txt -> {decomposed}.]\nhi"));
    let shot = "Screenshot 10.04.11\u{202f}AM.txt";
    assert!(
        read(&[(shot, b"hi")], json!({"path": "Screenshot 10.04.11 AM.txt"})).joined_text().ends_with("hi")
    );
    assert!(read(&[("it\u{2019}s", b"hi")], json!({"path": "it's"})).joined_text().ends_with("hi"));
    assert!(read(&[("notes.md", b"hi")], json!({"path": "@notes.md"})).joined_text().ends_with("hi"));
    let two: [(&str, &[u8]); 2] = [("a\u{a0}b", b"1"), ("a\u{2009}b", b"2")];
    let error = read_with(&two, json!({"path": "a b"}), None).unwrap_err();
    assert!(error.message.contains("is ambiguous"), "{}", error.message);
    // Full-width dots are dots to nobody.
    assert!(read_with(&[("..x", b"hi")], json!({"path": "\u{ff0e}\u{ff0e}x"}), None).is_err());
}

#[test]
fn a_binary_file_is_described() {
    let output = read(&[("f", b"ab\0\xff0123456789abcdefg")], json!({"path": "f"}));
    let expected = "Binary file [application/octet-stream], 21B (21 bytes). It is not shown as text.\n\
        The first 21 bytes:\n\
        00000000  61 62 00 ff 30 31 32 33  34 35 36 37 38 39 61 62  |ab..0123456789ab|\n\
        00000010  63 64 65 66 67                                    |cdefg|";
    assert_eq!(output.joined_text(), expected);
    let details = json!({"kind": "binary", "path": "f", "size": 21, "mimeType": "application/octet-stream"});
    assert_eq!(output.details, details);
}

#[test]
fn sizes_are_written_for_people() {
    let cases = [(0, "0B"), (1023, "1023B"), (51_200, "50.0KB"), (160_000, "156.2KB"), (1 << 20, "1.0MB")];
    for (bytes, expected) in cases {
        assert_eq!(text::size(bytes), expected);
    }
}

mod notebooks {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn cells_and_their_text_are_shown() {
        let notebook = json!({"metadata": {}, "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "words"]},
            {"cell_type": "code", "execution_count": 3, "source": "print(1)", "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                {"output_type": "display_data", "data": {"text/html": "<b>"}},
                {"output_type": "error", "ename": "NameError", "evalue": "x", "traceback": ["…"]}]},
        ]});
        let output = read(&[("a.ipynb", notebook.to_string().as_bytes())], json!({"path": "a.ipynb"}));
        let expected = "[cell 1: markdown]\n# Title\nwords\n\n[cell 2: code, run 3]\nprint(1)\n[output]\n1\n[output]\n\
            <Figure>\n[output: image/png, not shown]\n[output: text/html, not shown]\n[error] NameError: x";
        assert_eq!(output.joined_text(), expected);
        assert_eq!((&output.details["kind"], &output.details["parts"]), (&json!("notebook"), &json!(2)));
    }

    #[test]
    fn what_edit_file_would_find_is_not_told_of_a_document() {
        let notebook = json!({"cells": [{"cell_type": "markdown", "source": "a\u{200b}b\r\nc"}]}).to_string();
        let output = read(&[("a.ipynb", notebook.as_bytes())], json!({"path": "a.ipynb"}));
        assert!(!output.joined_text().contains("edit_file"), "{}", output.joined_text());
        let text = read(&[("a.txt", "a\u{200b}b".as_bytes())], json!({"path": "a.txt"})).joined_text();
        assert!(text.contains("edit_file finds it so"), "{text}");
    }

    #[test]
    fn what_is_no_notebook_is_text() {
        for content in ["{\"cells\": 1}", "{}", "not json", "{\"cells\": [1]}"] {
            let output = read(&[("a.ipynb", content.as_bytes())], json!({"path": "a.ipynb"}));
            assert_eq!((output.joined_text().as_str(), &output.details["kind"]), (content, &json!("text")));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let cells = format!("{{\"cells\": [{}{{}}]}}", "{},".repeat(100_000));
        let document = notebook::text(cells.as_bytes(), 1_000).unwrap();
        assert_eq!((document.text.len(), document.parts), (1_000, 100_001));
        assert!(document.note.unwrap().contains("further cells are not shown"));
        let outputs = format!("{{\"cells\": [{{\"outputs\": [{}{{}}]}}]}}", "{},".repeat(100_000));
        assert!(notebook::text(outputs.as_bytes(), 100_000).unwrap().text.contains("[99801 further outputs"));
        let deep = format!("{{\"cells\": {}", "[".repeat(100_000));
        assert!(notebook::text(deep.as_bytes(), 1_000).is_err());
    }
}

mod pictures {
    use std::io::Cursor;

    use helve_core::Content;
    use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
    use pretty_assertions::assert_eq;

    use super::*;

    fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let colour = |x: u32, y: u32| Rgb([(x * 7) as u8, (y * 5) as u8, 90]);
        let picture = DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, colour));
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn shown(output: &Output) -> (DynamicImage, String) {
        let Some(Content::Image { data, mime_type, .. }) = output.content.last() else {
            panic!("no picture: {output:?}")
        };
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
        (image::load_from_memory(&bytes).unwrap(), mime_type.clone())
    }

    #[test]
    fn a_small_picture_is_given_as_it_is() {
        for (format, name) in [(ImageFormat::Png, "image/png"), (ImageFormat::Jpeg, "image/jpeg")] {
            let bytes = picture(40, 30, format);
            let output = read(&[("p", &bytes)], json!({"path": "p"}));
            assert_eq!(output.joined_text(), format!("Read image file [{name}]"));
            let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &bytes);
            assert_eq!(output.content[1], Content::image(data, name));
            let image = json!({"width": 40, "height": 30, "shownWidth": 40, "shownHeight": 30});
            assert_eq!(output.details["image"], image);
        }
    }

    #[test]
    fn a_large_picture_is_made_smaller_and_says_its_scale() {
        let output = read(&[("p", &picture(2500, 100, ImageFormat::Png))], json!({"path": "p"}));
        let note = "Read image file [image/png]\n[Image: original 2500x100, displayed at 2000x80. Multiply coordinates by \
            1.25 to map to original image.]";
        assert_eq!(output.joined_text(), note);
        let (picture, mime) = shown(&output);
        assert_eq!((picture.width(), picture.height(), mime.as_str()), (2000, 80, "image/png"));
    }

    #[test]
    fn what_models_do_not_read_becomes_png() {
        for format in [ImageFormat::Bmp, ImageFormat::Gif] {
            let output = read(&[("p", &picture(20, 10, format))], json!({"path": "p"}));
            let (picture, mime) = shown(&output);
            assert_eq!((picture.width(), picture.height(), mime.as_str()), (20, 10, "image/png"));
        }
    }

    #[test]
    fn a_photograph_is_turned_the_way_it_was_taken() {
        let plain = picture(40, 20, ImageFormat::Jpeg);
        // The segment that says: turn me by a quarter.
        let exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let mut bytes = plain[..2].to_vec();
        bytes.extend([0xff, 0xe1]);
        bytes.extend((exif.len() as u16 + 2).to_be_bytes());
        bytes.extend(exif);
        bytes.extend(&plain[2..]);
        let output = read(&[("p", &bytes)], json!({"path": "p"}));
        let (picture, mime) = shown(&output);
        assert_eq!((picture.width(), picture.height(), mime.as_str()), (20, 40, "image/jpeg"));
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_decoded() {
        let mut bytes = picture(1, 1, ImageFormat::Bmp);
        bytes[18..22].copy_from_slice(&30_000u32.to_le_bytes());
        bytes[22..26].copy_from_slice(&30_000u32.to_le_bytes());
        let error = read_with(&[("p", &bytes)], json!({"path": "p"}), None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge);
        assert!(error.message.contains("30000x30000 = 900000000 pixels"), "{}", error.message);
    }

    #[test]
    fn a_damaged_picture_is_an_error() {
        let bytes = picture(100, 100, ImageFormat::Png);
        let error = read_with(&[("p", &bytes[..200])], json!({"path": "p"}), None).unwrap_err();
        assert!(error.message.starts_with("The picture could not be decoded"), "{}", error.message);
    }

    #[test]
    fn what_cannot_be_made_small_enough_is_left_out() {
        let bytes = picture(300, 300, ImageFormat::Png);
        let limits = Limits { image_base64_bytes: 100, ..Limits::default() };
        let shown = picture::show(&bytes, &picture::Bounds::new(&limits)).unwrap();
        let page = Shelf([("p".to_owned(), bytes)].into());
        let page =
            page.window(&PageRequest { path: "p".into(), start: at_start(), max_lines: 1, max_bytes: 9 });
        let output = picture::output(&page.unwrap(), shown);
        assert!(output.joined_text().ends_with("below the inline image size limit.]"));
        assert_eq!(output.content.len(), 1);
    }

    fn at_start() -> helve_core::files::PageStart {
        helve_core::files::PageStart::Line { line: 1, cursor: 0 }
    }
}

proptest! {
    #[test]
    fn windows_of_a_text_put_together_are_the_text(
        text in "[aä\n]{0,60}",
        max_lines in 1u64..5,
        max_bytes in 4u64..20,
    ) {
        let mut all = String::new();
        let mut start = helve_core::files::PageStart::Line { line: 1, cursor: 0 };
        loop {
            let request = PageRequest { path: "f".into(), start, max_lines, max_bytes };
            let page = slice::page(&text, "f".into(), stat(b""), &request);
            prop_assert!(page.text.len() as u64 <= max_bytes && page.lines <= max_lines);
            all.push_str(&page.text);
            start = match page.end {
                helve_core::files::PageEnd::End => break,
                helve_core::files::PageEnd::Line(line) => {
                    all.push('\n');
                    helve_core::files::PageStart::Line { line, cursor: 0 }
                }
                helve_core::files::PageEnd::Inside { line, cursor } => {
                    helve_core::files::PageStart::Line { line, cursor }
                }
                helve_core::files::PageEnd::More => unreachable!("the lines are known"),
            };
        }
        prop_assert_eq!(all.as_str(), text.strip_suffix('\n').unwrap_or(&text));
    }

    #[test]
    fn no_bytes_break_the_readers_of_documents(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = notebook::text(&bytes, 1_000);
        let _ = pdf::text(&bytes, &Limits::default(), &Cancel::never());
        let _ = picture::show(&bytes, &picture::Bounds::new(&Limits::default()));
    }
}
