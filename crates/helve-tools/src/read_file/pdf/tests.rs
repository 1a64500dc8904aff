//! PDFs made by hand: those that programs write, and those that mean harm.

use helve_core::{Cancel, Limits};
use miniz_oxide::deflate::compress_to_vec_zlib;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// A file of these objects, numbered from 1, whose first one is the catalog.
fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    for (number, object) in (1..).zip(objects) {
        bytes.extend(format!("{number} 0 obj\n").as_bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    bytes.extend(b"trailer\n<< /Root 1 0 R >>\n%%EOF\n");
    bytes
}

fn stream(entries: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("<< {entries} /Length {} >>\nstream\n", data.len()).into_bytes();
    bytes.extend(data);
    bytes.extend(b"\nendstream");
    bytes
}

fn packed(data: &[u8]) -> Vec<u8> {
    stream("/Filter /FlateDecode", &compress_to_vec_zlib(data, 6))
}

const PLAIN_FONT: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

/// A file of one page that has one font `/F`.
fn one_page(content: Vec<u8>, font: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> >>"
            .to_vec(),
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec(),
        content,
        font.as_bytes().to_vec(),
    ];
    objects.extend_from_slice(more);
    pdf(&objects)
}

fn read(bytes: &[u8]) -> Document {
    text(bytes, &Limits::default(), &Cancel::never()).unwrap()
}

fn content_of(operators: &str) -> String {
    let document = read(&one_page(packed(operators.as_bytes()), PLAIN_FONT, &[]));
    document.text.strip_prefix("[Page 1 of 1]\n").unwrap().to_owned()
}

#[test]
fn lines_and_words_follow_the_places_of_characters() {
    let shown = content_of(
        "BT /F 12 Tf 72 700 Td (Hello) Tj ( World) Tj 0 -14 Td (second line) Tj 0 -14 TD (third) Tj T* (fourth) ' ET",
    );
    assert_eq!(shown, "Hello World\nsecond line\nthird\nfourth\n");
    // Gaps between parts are spaces, kerning is not.
    assert_eq!(
        content_of("BT /F 10 Tf [(Ker) 20 (ning) -400 (and) -400 (gaps)] TJ ET"),
        "Kerning and gaps\n"
    );
    assert_eq!(content_of("BT /F 10 Tf 1 0 0 1 10 10 Tm (a) Tj 1 0 0 1 100 10 Tm (b) Tj ET"), "a b\n");
}

#[test]
fn strings_have_escapes_and_other_forms() {
    assert_eq!(
        content_of(
            r"BT /F 9 Tf (a\(b\)c\\ \101\102\
D) Tj ET"
        ),
        "a(b)c\\ ABD\n"
    );
    assert_eq!(content_of("BT /F 9 Tf <48 65 6C6c6F> Tj ET"), "Hello\n");
    assert_eq!(content_of("BT /F 9 Tf (Gr\\374\\337e \\200) Tj ET"), "Grüße €\n");
}

#[test]
fn differences_name_their_glyphs() {
    let font = "<< /Type /Font /Subtype /Type1 /Encoding << /Differences [65 /fi /adieresis /quoteright /uni4E2D /Euro] >> >>";
    let content = packed(b"BT /F 9 Tf (ABCDEz) Tj ET");
    assert_eq!(read(&one_page(content, font, &[])).text, "[Page 1 of 1]\nfiä’中€z\n");
}

#[test]
fn a_font_brings_its_own_table() {
    let map = packed(
        b"begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange\n2 beginbfchar <0001> <4F60> <0002> \
          <D83DDE00> endbfchar 2 beginbfrange <0010> <0012> <0041> <0020> <0021> [<0078> <0079>] endbfrange endcmap",
    );
    let font = "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 6 0 R >>";
    let content = packed(b"BT /F 9 Tf <00010002001000110012 00200021> Tj ET");
    assert_eq!(read(&one_page(content, font, &[map])).text, "[Page 1 of 1]\n你😀ABCxy\n");
}

#[test]
fn forms_are_drawn_where_they_are_called() {
    let form = {
        let data = compress_to_vec_zlib(b"BT /F 9 Tf (inside) Tj ET", 6);
        stream("/Type /XObject /Subtype /Form /Filter /FlateDecode", &data)
    };
    let content = packed(b"BT /F 9 Tf 0 50 Td (before) Tj ET /X Do");
    assert_eq!(read(&one_page(content, PLAIN_FONT, &[form])).text, "[Page 1 of 1]\nbefore\ninside\n");
}

#[test]
fn objects_may_be_packed_and_streams_coded_otherwise() {
    let (tree, page) =
        ("<< /Type /Pages /Kids [3 0 R] /Count 1 >> ", "<< /Type /Page /Contents 4 0 R /Resources 9 0 R >>");
    let header = format!("2 0 3 {} ", tree.len());
    let objects = stream(
        &format!("/Type /ObjStm /N 2 /First {} /Filter /FlateDecode", header.len()),
        &compress_to_vec_zlib(format!("{header}{tree}{page}").as_bytes(), 6),
    );
    let mut bytes = b"%PDF-1.7\n1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj\n".to_vec();
    for (number, object) in [
        (
            4,
            stream("/Filter [/ASCIIHexDecode]", b"42 54 20 2F 46 20 39 20 54 66 28 68 69 29 54 6A 20 45 54>"),
        ),
        (6, PLAIN_FONT.as_bytes().to_vec()),
        (7, objects),
        (9, b"<< /Font << /F 6 0 R >> >>".to_vec()),
    ] {
        bytes.extend(format!("{number} 0 obj\n").as_bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    bytes.extend(b"trailer << /Root 1 0 R >>");
    assert_eq!(read(&bytes).text, "[Page 1 of 1]\nhi\n");
}

#[test]
fn a_damaged_tree_still_gives_its_pages() {
    let mut bytes = one_page(packed(b"BT /F 9 Tf (found) Tj ET"), PLAIN_FONT, &[]);
    let at = memchr::memmem::find(&bytes, b"/Root").unwrap();
    bytes[at..at + 5].copy_from_slice(b"/Toor");
    // Without the tree a page has only its own resources.
    let document = read(&bytes);
    assert_eq!((document.parts, document.note.is_some()), (1, true));
}

#[test]
fn what_cannot_be_read_says_why() {
    let error = |bytes: &[u8]| text(bytes, &Limits::default(), &Cancel::never()).err().unwrap();
    assert_eq!(error(b"%PDF-1.4\nnothing"), "no page of it could be found");
    let mut bytes = one_page(packed(b""), PLAIN_FONT, &[]);
    bytes.extend(b"trailer << /Root 1 0 R /Encrypt 9 0 R >>");
    assert_eq!(error(&bytes), "it is encrypted");
    let empty = read(&one_page(packed(b"0 0 m 10 10 l S"), PLAIN_FONT, &[]));
    assert_eq!(empty.note.as_deref(), Some("[No text was found: the pages are probably pictures.]"));
}

#[test]
fn a_stream_that_unpacks_to_anything_is_cut() {
    let limits = Limits { pdf_unpacked_bytes: 1 << 20, ..Limits::default() };
    let bomb = one_page(packed(&b"BT /F 9 Tf (x) Tj ET ".repeat(500_000)), PLAIN_FONT, &[]);
    let document = text(&bomb, &limits, &Cancel::never()).unwrap();
    assert!(document.note.unwrap().starts_with("[The text ends in page 1"));
    assert!(document.text.len() < 1 << 20);
}

#[test]
fn text_is_bounded_and_forms_that_draw_themselves_end() {
    let form = stream("/Subtype /Form", b"/X Do /X Do /X Do BT /F 9 Tf (deep) Tj ET /X Do");
    let document = read(&one_page(packed(b"/X Do"), PLAIN_FONT, &[form]));
    assert!(document.text.len() < 100_000, "{}", document.text.len());
    let limits = Limits { document_text_bytes: 100, ..Limits::default() };
    let long = one_page(packed(&b"BT /F 9 Tf (words and words) Tj ET ".repeat(1_000)), PLAIN_FONT, &[]);
    assert!(text(&long, &limits, &Cancel::never()).unwrap().text.len() < 400);
}

#[test]
fn trees_that_contain_themselves_and_deep_nests_end() {
    let circle = pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [2 0 R 3 0 R 2 0 R] >>".to_vec(),
        b"<< /Type /Pages /Kids [2 0 R 3 0 R] >>".to_vec(),
    ]);
    assert!(text(&circle, &Limits::default(), &Cancel::never()).is_err());
    let nest = one_page(packed(&b"[".repeat(100_000)), PLAIN_FONT, &[]);
    read(&nest);
    let dicts = one_page(packed(&b"<</a".repeat(100_000)), PLAIN_FONT, &[]);
    read(&dicts);
    let chain = pdf(&[b"2 0 R".to_vec(), b"1 0 R".to_vec()]);
    assert!(text(&chain, &Limits::default(), &Cancel::never()).is_err());
}

#[test]
fn many_streams_without_an_end_are_not_searched_again_and_again() {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    for number in 0..20_000 {
        bytes.extend(format!("{number} 0 obj << /Type /ObjStm >> stream\n").as_bytes());
    }
    assert!(text(&bytes, &Limits::default(), &Cancel::never()).is_err());
}

#[test]
fn a_cancelled_reading_ends() {
    let (handle, cancel) = Cancel::pair();
    handle.cancel();
    let bytes = one_page(packed(b"BT /F 9 Tf (x) Tj ET"), PLAIN_FONT, &[]);
    assert!(text(&bytes, &Limits::default(), &cancel).is_err());
}

proptest! {
    #[test]
    fn any_operators_are_survived(operators in r#"([a-zA-Z*'"]{1,3}|/F|[0-9.-]{1,4}|\(|\)|<|>|\[|\]|<<|>>|%| |\n){0,80}"#) {
        content_of(&operators);
    }

    #[test]
    fn any_damage_is_survived(at in 0usize..600, with in any::<[u8; 3]>()) {
        let mut bytes = one_page(packed(b"BT /F 9 Tf (text) Tj ET"), PLAIN_FONT, &[]);
        let at = at.min(bytes.len() - 3);
        bytes[at..at + 3].copy_from_slice(&with);
        let _ = text(&bytes, &Limits::default(), &Cancel::never());
    }
}

#[test]
fn the_names_of_glyphs_are_sorted() {
    assert!(font::names_are_sorted());
}

/// A stream of `count` operators of a page whose resources list very many names in place.
fn with_many_names(kind: &str, operator: &str, count: usize) -> Vec<u8> {
    let names: String = (0..40_000).map(|n| format!("/n{n} 9 0 R ")).collect();
    let page = format!("<< /Type /Page /Contents 4 0 R /Resources << /{kind} << {names} >> >> >>");
    pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        page.into_bytes(),
        packed(operator.repeat(count).as_bytes()),
    ])
}

/// Each of these costs a second at the most, where looking through all names for each operator would take hours.
#[test]
fn names_are_found_soon_among_very_many() {
    let started = std::time::Instant::now();
    read(&with_many_names("XObject", "/a Do ", 200_000));
    read(&with_many_names("Font", "/a 1 Tf ", 200_000));
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

/// A text may be as long as a stream, and a character takes much more room than its code.
#[test]
fn only_as_many_characters_are_made_as_are_asked_for() {
    let text = vec![b'a'; 64 << 20];
    let started = std::time::Instant::now();
    assert_eq!(font::Font::default().glyphs(&text).take(2).count(), 2);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}
