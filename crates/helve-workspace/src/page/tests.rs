//! Windows against a reader that holds everything.

use std::cell::Cell;
use std::io::Write;
use std::time::SystemTime;

use helve_core::files::{Encoding, FileKind};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::source::FileSource;

fn stat(len: usize) -> FileStat {
    FileStat { kind: FileKind::File, len: len as u64, modified: Some(SystemTime::UNIX_EPOCH), mode: 0o644 }
}

fn request(start: PageStart, max_lines: u64, max_bytes: u64) -> PageRequest {
    PageRequest { path: "f".to_owned(), start, max_lines, max_bytes }
}

fn at(line: u64, cursor: u64) -> PageStart {
    PageStart::Line { line, cursor }
}

fn read_page(bytes: &[u8], start: PageStart, max_lines: u64, max_bytes: u64) -> Page {
    page(&bytes, "f".to_owned(), stat(bytes.len()), &request(start, max_lines, max_bytes)).unwrap()
}

/// The lines of a file by decoding all of it at once.
fn naive(bytes: &[u8], text: Text) -> Vec<String> {
    let encoding = encoding_rs::Encoding::for_label(text.coding.name().as_bytes()).unwrap();
    let (whole, _) = encoding.decode_without_bom_handling(&bytes[text.mark as usize..]);
    let whole = whole.replace("\r\n", "\n");
    let mut lines: Vec<String> = whole.split('\n').map(str::to_owned).collect();
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn text_of(bytes: &[u8]) -> Text {
    match detect::detect(&bytes).unwrap() {
        Found::Text(text) => text,
        Found::Binary { .. } => panic!("taken for binary"),
    }
}

/// Pages through with windows of one size, and puts them together.
fn paged(source: &dyn Source, max_lines: u64, max_bytes: u64, known: &mut Known) -> (String, u64) {
    let (mut all, mut start, mut pages) = (String::new(), at(1, 0), 0);
    loop {
        let request = request(start, max_lines, max_bytes);
        let page = read(source, "f".into(), stat(0), &request, &Cancel::never(), known).unwrap();
        assert!(page.text.len() as u64 <= max_bytes.max(LEAST_BYTES));
        assert!(page.lines <= max_lines.max(1));
        pages += 1;
        all.push_str(&page.text);
        match page.end {
            PageEnd::End => return (all, pages),
            PageEnd::Line(line) => {
                all.push('\n');
                start = at(line, 0);
            }
            PageEnd::Inside { line, cursor } => start = at(line, cursor),
            PageEnd::More => panic!("a numbered page has a numbered end"),
        }
    }
}

/// Says that it is longer than what is read whole, so that everything goes through blocks.
struct Long<'a>(&'a [u8]);

impl Source for Long<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        // Short reads are allowed at any time.
        let most = buffer.len().min(1 + (at as usize * 7) % 5_000);
        self.0.read_at(&mut buffer[..most], at)
    }
}

#[test]
fn a_page_says_where_it_stands() {
    let bytes = b"one\ntwo\r\nthree\rand more\nfour\n";
    let got = read_page(bytes, at(2, 0), 2, 100);
    let expected = Page {
        path: "f".to_owned(),
        stat: stat(bytes.len()),
        shape: Shape::Text(Encoding { name: "UTF-8".to_owned(), bom: false }),
        text: "two\nthree\rand more".to_owned(),
        endings: Endings { lf: true, crlf: true, open: false },
        first_line: Some(2),
        lines: 2,
        end: PageEnd::Line(4),
        total_lines: Some(4),
        id: None,
    };
    assert_eq!(got, expected);
}

#[test]
fn a_page_says_how_its_lines_end() {
    let ends = |bytes: &[u8], first, most| {
        let Endings { lf, crlf, open } = read_page(bytes, at(first, 0), most, 1000).endings;
        (lf, crlf, open)
    };
    assert_eq!(ends(b"a\nb\n", 1, 9), (true, false, false));
    assert_eq!(ends(b"a\nb", 1, 9), (true, false, true));
    assert_eq!(ends(b"a\nb", 1, 1), (true, false, false));
    assert_eq!(ends(b"a\r\nb\r\n", 1, 9), (false, true, false));
    assert_eq!(ends(b"a\nb\r\nc", 2, 9), (false, true, true));
    assert_eq!(ends(b"\xff\xfea\0\r\0\n\0b\0", 1, 9), (false, true, true));
    assert_eq!(ends(b"", 1, 9), (false, false, false));
}

#[test]
fn a_whole_file_has_its_hash() {
    let bytes = b"\xef\xbb\xbfone\r\n";
    let got = read_page(bytes, at(1, 0), 10, 100);
    assert_eq!((got.text.as_str(), got.lines, got.total_lines), ("one", 1, Some(1)));
    assert_eq!(got.shape, Shape::Text(Encoding { name: "UTF-8".to_owned(), bom: true }));
    assert_eq!(got.id, Some(ContentId(format!("b3:{}", blake3::hash(bytes).to_hex()))));
    assert_eq!(read_page(bytes, at(1, 1), 10, 100).id, None);
}

#[test]
fn empty_files_and_places_behind_the_end() {
    for bytes in [&b""[..], b"\xef\xbb\xbf", b"\xff\xfe"] {
        for start in [at(1, 0), at(7, 3), PageStart::FromEnd { lines: 3 }] {
            let got = read_page(bytes, start, 10, 100);
            assert_eq!((got.text.as_str(), got.lines, got.end), ("", 0, PageEnd::End), "{bytes:?}");
            assert_eq!(got.total_lines, Some(0), "{bytes:?}");
        }
    }
    let got = read_page(b"a\nb\n", at(3, 0), 10, 100);
    assert_eq!((got.lines, got.end, got.total_lines), (0, PageEnd::End, Some(2)));
    let got = read_page(b"a\nb", at(2, 5), 10, 100);
    assert_eq!((got.text.as_str(), got.lines, got.end), ("", 1, PageEnd::End));
}

#[test]
fn blank_lines_are_lines() {
    let got = read_page(b"\n\n", at(1, 0), 10, 100);
    assert_eq!((got.text.as_str(), got.lines, got.total_lines), ("\n", 2, Some(2)));
}

#[test]
fn a_window_never_splits_a_character() {
    let bytes = "äöü€😀x".as_bytes();
    for size in 0..20 {
        let (all, _) = paged(&bytes, 10, size, &mut Known::default());
        assert_eq!(all, "äöü€😀x");
    }
    let got = read_page(bytes, at(1, 0), 10, 5);
    assert_eq!((got.text.as_str(), got.end), ("äö", PageEnd::Inside { line: 1, cursor: 2 }));
}

#[test]
fn encodings_are_found_by_their_bytes() {
    let german = "Größe, Maß und Übermut tun selten gut. Für alle Fälle: schöne Grüße aus Köln.\n".repeat(4);
    let chinese = "中文内容的编码检测需要足够多的文字才能得到可靠的结果。\n".repeat(4);
    let japanese = "日本語のテキストの文字コードを判定するには、ある程度の長さが必要です。\n".repeat(4);
    let korean = "한국어 텍스트의 인코딩을 판별하려면 어느 정도의 길이가 필요합니다.\n".repeat(4);
    let cases = [
        (&german, "windows-1252"),
        (&chinese, "GBK"),
        (&japanese, "Shift_JIS"),
        (&japanese, "EUC-JP"),
        (&korean, "EUC-KR"),
    ];
    for (text, name) in cases {
        let (bytes, _, _) = encoding_rs::Encoding::for_label(name.as_bytes()).unwrap().encode(text);
        let got = read_page(&bytes, at(1, 0), 100, 100_000);
        assert_eq!(got.shape, Shape::Text(Encoding { name: name.to_owned(), bom: false }));
        assert_eq!(got.text, text.trim_end());
    }
    for (big, mark) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut bytes = Vec::new();
        for unit in mark.then_some(0xfeff).into_iter().chain(german.encode_utf16()) {
            bytes.extend(if big { unit.to_be_bytes() } else { unit.to_le_bytes() });
        }
        let got = read_page(&bytes, at(1, 0), 100, 100_000);
        let name = if big { "UTF-16BE" } else { "UTF-16LE" };
        assert_eq!(got.shape, Shape::Text(Encoding { name: name.to_owned(), bom: mark }));
        assert_eq!(got.text, german.trim_end());
    }
}

#[test]
fn utf16_without_a_mark_may_be_cyrillic() {
    let text = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n";
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(read_page(&bytes, at(1, 0), 10, 1_000).text, text.trim_end());
}

#[test]
fn a_damaged_utf8_file_stays_one() {
    let mut bytes = "Größe und Übermut, schöne Grüße für alle Fälle".repeat(3).into_bytes();
    bytes.push(0xff);
    let got = read_page(&bytes, at(1, 0), 10, 10_000);
    assert_eq!(got.shape, Shape::Text(Encoding { name: "UTF-8".to_owned(), bom: false }));
    assert!(got.text.ends_with("Fälle\u{fffd}"));
}

#[test]
fn the_encoding_of_a_large_file_shows_behind_an_ascii_head() {
    let mut bytes = b"plain ascii text\n".repeat(100_000);
    bytes.extend(b"Gr\xf6\xdfe und \xdcbermut, sch\xf6ne Gr\xfc\xdfe\n".repeat(2_000));
    let got = read_page(&bytes, PageStart::FromEnd { lines: 1 }, 1, 1_000);
    assert_eq!(got.text, "Größe und Übermut, schöne Grüße");
}

#[test]
fn binary_files_are_described_not_decoded() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01";
    let cases: [(&[u8], &str); 7] = [
        (png, "image/png"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "application/gzip"),
        (b"ab\0cd", "application/octet-stream"),
        (b"ab\0c", "application/octet-stream"),
        (b"\x01\x02\x03\x04", "application/octet-stream"),
        (b"\xff\xfe\0\0a\0\0\0", "application/octet-stream"),
        (b"%PDF-1.4\n%%EOF\n", "application/pdf"),
    ];
    for (bytes, expected) in cases {
        let got = read_page(bytes, at(1, 0), 10, 100);
        let shape = Shape::Binary { media_type: expected.to_owned(), head: bytes.to_vec() };
        assert_eq!((got.shape, got.text.as_str(), got.id), (shape, "", None));
    }
}

#[test]
fn text_with_colours_and_a_form_feed_is_text() {
    let bytes = b"\x1b[31mred\x1b[0m\x08\x0c\n";
    assert_eq!(read_page(bytes, at(1, 0), 10, 100).lines, 1);
}

/// Counts the bytes that are read.
struct Counted<'a>(FileSource<'a>, Cell<u64>);

impl Source for Counted<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let count = self.0.read_at(buffer, at)?;
        self.1.set(self.1.get() + count as u64);
        Ok(count)
    }
}

fn numbered_lines(count: usize) -> Vec<u8> {
    (1..=count).flat_map(|number| format!("line {number:>20}\n").into_bytes()).collect()
}

#[test]
fn the_end_of_a_large_file_costs_no_more_than_its_page() {
    let mut file = tempfile::tempfile().unwrap();
    let lines = numbered_lines(800_000);
    file.write_all(&lines).unwrap();
    let source = Counted(FileSource { file: &file, len: lines.len() as u64 }, Cell::new(0));
    let request = request(PageStart::FromEnd { lines: 10 }, 10, 10_000);
    let got = page(&source, "f".into(), stat(lines.len()), &request).unwrap();
    assert!(got.text.starts_with("line               799991\n"));
    assert_eq!((got.lines, got.first_line, got.end), (10, None, PageEnd::End));
    assert!(source.1.get() < 400 << 10, "{} bytes were read", source.1.get());
}

#[test]
fn the_second_page_does_not_count_again() {
    let mut file = tempfile::tempfile().unwrap();
    let lines = numbered_lines(800_000);
    file.write_all(&lines).unwrap();
    let source = Counted(FileSource { file: &file, len: lines.len() as u64 }, Cell::new(0));
    let index = Index::default();
    let read = |start| {
        source.1.set(0);
        let key = FileKey::of(&rustix::fs::fstat(&file).unwrap());
        let request = request(start, 100, 100_000);
        index.page(key, &source, "f".into(), stat(lines.len()), &request, &Cancel::never()).unwrap()
    };
    assert_eq!(read(at(400_000, 0)).first_line, Some(400_000));
    assert!(source.1.get() > 5 << 20);
    let next = read(at(400_100, 0));
    assert_eq!(next.text.lines().next(), Some("line               400100"));
    assert!(source.1.get() < 300 << 10, "{} bytes were read", source.1.get());
    // Anywhere before is near a remembered place.
    let early = read(at(123_456, 0));
    assert_eq!(early.text.lines().next(), Some("line               123456"));
    assert!(source.1.get() < 2 << 20, "{} bytes were read", source.1.get());
    // What is known of all lines numbers a page that is counted from the end.
    assert_eq!(read(at(799_999, 0)).total_lines, Some(800_000));
    let end = read(PageStart::FromEnd { lines: 5 });
    assert_eq!((end.first_line, end.end, end.lines), (Some(799_996), PageEnd::End, 5));
}

#[test]
fn a_changed_file_is_counted_anew() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&numbered_lines(100_000)).unwrap();
    let index = Index::default();
    let read = |start| {
        let key = FileKey::of(&rustix::fs::fstat(&file).unwrap());
        let len = file.metadata().unwrap().len();
        let source = FileSource { file: &file, len };
        index.page(key, &source, "f".into(), stat(0), &request(start, 1, 100), &Cancel::never()).unwrap()
    };
    assert_eq!(read(at(90_000, 0)).text, "line                90000");
    let mut other: Vec<u8> = b"first\n".to_vec();
    other.extend(numbered_lines(100_000));
    std::os::unix::fs::FileExt::write_all_at(&file, &other, 0).unwrap();
    assert_eq!(read(at(90_001, 0)).text, "line                90000");
}

#[test]
fn one_line_of_fifty_megabytes_is_paged_in_linear_time() {
    let line = "0123456789 äöü ".repeat(50 * 1024 * 1024 / 18);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(line.as_bytes()).unwrap();
    let source = Counted(FileSource { file: &file, len: line.len() as u64 }, Cell::new(0));
    let mut known = Known::default();
    let (all, pages) = paged(&source, 10, 1 << 20, &mut known);
    assert!(all == line, "the pages are not the line");
    assert!(pages >= 49, "{pages}");
    // Each page reads itself, a block before it and what decides the encoding; the last ones what is behind them.
    assert!(source.1.get() < 4 * line.len() as u64, "{} bytes were read", source.1.get());
}

#[test]
fn a_long_last_line_counted_from_the_end_is_numbered_to_go_on() {
    let mut bytes = b"short\n".repeat(2_000_000);
    bytes.extend(b"x".repeat(100_000));
    let got = read_page(&bytes, PageStart::FromEnd { lines: 2 }, 10, 1_000);
    assert_eq!((got.first_line, got.end, got.text.as_str()), (None, PageEnd::More, "short"));
    let got = read_page(&bytes, PageStart::FromEnd { lines: 1 }, 10, 1_000);
    assert_eq!(got.first_line, Some(2_000_001));
    assert_eq!(got.end, PageEnd::Inside { line: 2_000_001, cursor: 1_000 });
}

#[test]
fn a_cancelled_count_ends() {
    let (handle, cancel) = Cancel::pair();
    handle.cancel();
    let bytes = &b"a\n".repeat(1_000_000)[..];
    let request = request(at(900_000, 0), 1, 100);
    let error = read(&bytes, "f".into(), stat(0), &request, &cancel, &mut Known::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
}

/// Pieces of text that windows stumble over: ends of all kinds, wide characters, long runs.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,12}",
        2 => "[äöüß]{1,5}",
        1 => "[中文😀]{1,4}",
        3 => Just("\n".to_owned()),
        2 => Just("\r\n".to_owned()),
        1 => Just("\r".to_owned()),
        1 => (1usize..400).prop_map(|count| "long".repeat(count)),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// How a text is stored.
fn stored() -> impl Strategy<Value = Vec<u8>> {
    let label = prop::sample::select(vec![
        "UTF-8",
        "UTF-8+bom",
        "UTF-16LE+bom",
        "UTF-16BE+bom",
        "UTF-16LE",
        "windows-1252",
        "GBK",
        "Shift_JIS",
        "Big5",
        "EUC-KR",
        "EUC-JP",
    ]);
    (pieces(), label).prop_map(|(text, label)| {
        let (name, bom) = label.split_once('+').map_or((label, false), |(name, _)| (name, true));
        let text = if bom { format!("\u{feff}{text}") } else { text };
        match name {
            "UTF-16LE" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "UTF-16BE" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            _ => {
                let encoding = encoding_rs::Encoding::for_label(name.as_bytes()).unwrap();
                encoding.encode(&text).0.into_owned()
            }
        }
    })
}

fn check_pages(bytes: &[u8], max_lines: u64, max_bytes: u64) {
    let Found::Text(text) = detect::detect(&bytes).unwrap() else { return };
    check_pages_as(bytes, text, max_lines, max_bytes);
}

fn check_pages_as(bytes: &[u8], text: Text, max_lines: u64, max_bytes: u64) {
    let lines = naive(bytes, text);
    let mut known = Known::default();
    known.found = Some(Found::Text(text));
    let (all, _) = paged(&Long(bytes), max_lines, max_bytes, &mut known);
    assert_eq!(all, lines.join("\n"));
    assert_eq!(known.total_lines, Some(lines.len() as u64));
}

proptest! {
    #[test]
    fn pages_put_together_are_the_text(bytes in stored(), max_lines in 1u64..20, max_bytes in 1u64..300) {
        check_pages(&bytes, max_lines, max_bytes);
    }

    #[test]
    fn any_bytes_in_any_encoding_are_paged_whole(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r'), 0x80u8..=0xff], 0..300),
        name in prop::sample::select(vec!["UTF-8", "GBK", "Big5", "Shift_JIS", "EUC-KR", "EUC-JP", "gb18030",
            "windows-1252", "LE", "BE"]),
        max_lines in 1u64..5,
        max_bytes in 1u64..60,
    ) {
        let coding = match name {
            "UTF-8" => coding::Coding::Utf8,
            "LE" | "BE" => coding::Coding::Utf16 { big: name == "BE" },
            _ => coding::Coding::Other(encoding_rs::Encoding::for_label(name.as_bytes()).unwrap()),
        };
        check_pages_as(&bytes, Text { coding, mark: 0 }, max_lines, max_bytes);
    }

    #[test]
    fn any_window_is_a_part_of_the_text(bytes in stored(), line in 1u64..30, cursor in 0u64..30, count in 1u64..10) {
        if let Found::Text(text) = detect::detect(&&bytes[..]).unwrap() {
            let lines = naive(&bytes, text);
            let got = read_page(&bytes, at(line, cursor), count, 1 << 20);
            let from = (line as usize - 1).min(lines.len());
            let until = (from + count as usize).min(lines.len());
            let mut expected = lines[from..until].to_vec();
            if let Some(first) = expected.first_mut() {
                *first = first.chars().skip(cursor as usize).collect();
            }
            prop_assert_eq!(&got.text, &expected.join("\n"));
            prop_assert_eq!(got.lines, expected.len() as u64);
            prop_assert_eq!(got.total_lines, Some(lines.len() as u64));
            prop_assert_eq!(got.end == PageEnd::End, until == lines.len());
        }
    }

    #[test]
    fn windows_from_the_end_are_the_same_as_by_number(bytes in stored(), count in 1u64..30, max in 1u64..10) {
        if let Found::Text(text) = detect::detect(&&bytes[..]).unwrap() {
            let total = naive(&bytes, text).len() as u64;
            let start = total.saturating_sub(count) + 1;
            let by_number = read_page(&bytes, at(start, 0), max, 200);
            let from_end = read_page(&bytes, PageStart::FromEnd { lines: count }, max, 200);
            prop_assert_eq!(from_end, by_number);
        }
    }

    #[test]
    fn finding_an_encoding_never_fails(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = read_page(&bytes, at(1, 0), 10, 1_000);
    }
}

#[test]
fn blocks_may_end_anywhere() {
    // Characters and ends of lines across the edges of blocks, in every encoding.
    for name in ["UTF-8", "GBK", "Shift_JIS", "EUC-KR", "windows-1252", "LE", "BE"] {
        let text = "中文,テキスト\r\näöü\r한국어\n".repeat(9_000);
        let long = format!("{text}{}{text}", "テキスト,".repeat(30_000));
        let (bytes, coding): (Vec<u8>, _) = match name {
            "UTF-8" => (long.into_bytes(), coding::Coding::Utf8),
            "LE" => (
                long.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                coding::Coding::Utf16 { big: false },
            ),
            "BE" => (
                long.encode_utf16().flat_map(u16::to_be_bytes).collect(),
                coding::Coding::Utf16 { big: true },
            ),
            _ => {
                let encoding = encoding_rs::Encoding::for_label(name.as_bytes()).unwrap();
                (encoding.encode(&long).0.into_owned(), coding::Coding::Other(encoding))
            }
        };
        for shift in 0..3 {
            let mut shifted = if coding.unit() == 2 { vec![b'a'; 2 * shift] } else { vec![b'a'; shift] };
            shifted.extend(&bytes);
            check_pages_as(&shifted, Text { coding, mark: 0 }, 100_000, 1 << 17);
        }
    }
    assert_eq!(text_of(b"x").coding, coding::Coding::Utf8);
}
