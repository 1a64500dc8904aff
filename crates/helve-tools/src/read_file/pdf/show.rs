//! The text that a page shows. Operators are followed as far as they say which characters come where: a jump to another
//! height is a new line, a gap in a line is a space.

use std::collections::HashMap;
use std::rc::Rc;

use super::Budget;
use super::file::File;
use super::font::Font;
use super::object::{Dict, Object, Reader, Token};

/// How deep forms may draw forms.
const FORMS: usize = 6;
/// How many states may be saved.
const SAVED: usize = 64;
/// How many fonts are kept.
const FONTS: usize = 128;
/// How many values an operator takes.
const VALUES: usize = 1_000;

/// Fonts that were read, by the number of their object.
#[derive(Default)]
pub(super) struct Fonts(HashMap<u32, Rc<Font>>);

/// A matrix: `[a b c d e f]`.
type Matrix = [f32; 6];
const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// What `q` saves.
#[derive(Clone)]
struct State {
    page: Matrix,
    font: Option<Rc<Font>>,
    size: f32,
    leading: f32,
    between_characters: f32,
    between_words: f32,
    stretch: f32,
}

/// What the operators of one stream name: it is looked up once.
#[derive(Default)]
struct Own {
    /// The fonts of the resources, and those that were read.
    fonts: Option<Dict>,
    named: HashMap<Vec<u8>, Rc<Font>>,
    objects: Option<Dict>,
}

/// A page while its text is taken.
struct Show<'a, 'b, 'c> {
    file: &'a File<'b>,
    fonts: &'a mut Fonts,
    budget: &'a mut Budget<'c>,
    out: &'a mut String,
    state: State,
    saved: Vec<State>,
    text: Matrix,
    line: Matrix,
    /// Where the last character ended, and its height.
    last: Option<(f32, f32, f32)>,
}

/// Takes the text of a page.
pub(super) fn page(
    file: &File<'_>,
    page: &Dict,
    resources: &Dict,
    fonts: &mut Fonts,
    budget: &mut Budget<'_>,
    out: &mut String,
) {
    let contents = match page.get(b"Contents") {
        Some(Object::Array(streams)) => streams.clone(),
        Some(other) => match file.resolve(other, budget) {
            Object::Array(streams) => streams,
            _ => vec![other.clone()],
        },
        None => return,
    };
    let state = State {
        page: IDENTITY,
        font: None,
        size: 1.0,
        leading: 0.0,
        between_characters: 0.0,
        between_words: 0.0,
        stretch: 1.0,
    };
    let (saved, last) = (Vec::new(), None);
    let mut show = Show { file, fonts, budget, out, state, saved, text: IDENTITY, line: IDENTITY, last };
    for stream in contents {
        if show.budget.is_spent() {
            return;
        }
        if let Some((_, data)) = file.stream(&stream, show.budget) {
            show.run(&data, resources, 0);
        }
    }
}

impl Show<'_, '_, '_> {
    fn run(&mut self, data: &[u8], resources: &Dict, depth: usize) {
        let mut reader = Reader::new(data, 0);
        let mut values: Vec<Object> = Vec::new();
        let mut own = Own::default();
        while let Some(token) = reader.token(self.budget) {
            let operator = match token {
                Token::Value(value) => {
                    if values.len() < VALUES {
                        values.push(value);
                    }
                    continue;
                }
                Token::Operator(operator) => operator,
            };
            match operator.as_slice() {
                b"Tf" => {
                    if let Some(Object::Name(name)) = values.first() {
                        self.state.font = self.font(name, resources, &mut own);
                    }
                    self.state.size = number(&values, 1);
                }
                b"Do" if depth < FORMS => {
                    if let Some(Object::Name(name)) = values.first() {
                        self.form(name, resources, &mut own, depth);
                    }
                }
                b"ID" => skip_picture(&mut reader),
                other => self.operator(other, &values),
            }
            values.clear();
            if self.budget.is_spent() {
                return;
            }
        }
    }

    fn operator(&mut self, name: &[u8], values: &[Object]) {
        let given = |at| number(values, at);
        match name {
            b"q" if self.saved.len() < SAVED => self.saved.push(self.state.clone()),
            b"Q" => {
                if let Some(state) = self.saved.pop() {
                    self.state = state;
                }
            }
            b"cm" => self.state.page = multiply(&matrix(values), &self.state.page),
            b"BT" => (self.text, self.line) = (IDENTITY, IDENTITY),
            b"Tc" => self.state.between_characters = given(0),
            b"Tw" => self.state.between_words = given(0),
            b"Tz" => self.state.stretch = given(0) / 100.0,
            b"TL" => self.state.leading = given(0),
            b"Td" => self.next_line(given(0), given(1)),
            b"TD" => {
                self.state.leading = -given(1);
                self.next_line(given(0), given(1));
            }
            b"Tm" => (self.text, self.line) = (matrix(values), matrix(values)),
            b"T*" => self.next_line(0.0, -self.state.leading),
            b"Tj" => self.show_value(values.first()),
            b"'" => {
                self.next_line(0.0, -self.state.leading);
                self.show_value(values.first());
            }
            b"\"" => {
                (self.state.between_words, self.state.between_characters) = (given(0), given(1));
                self.next_line(0.0, -self.state.leading);
                self.show_value(values.get(2));
            }
            b"TJ" => {
                let Some(Object::Array(parts)) = values.first() else { return };
                for part in parts {
                    match part {
                        Object::Number(back) => {
                            let by = -back / 1000.0 * self.state.size * self.state.stretch;
                            self.advance(by);
                        }
                        part => self.show_value(Some(part)),
                    }
                }
            }
            _ => {}
        }
    }

    fn next_line(&mut self, x: f32, y: f32) {
        self.line = multiply(&[1.0, 0.0, 0.0, 1.0, x, y], &self.line);
        self.text = self.line;
    }

    fn advance(&mut self, by: f32) {
        self.text = multiply(&[1.0, 0.0, 0.0, 1.0, by, 0.0], &self.text);
    }

    fn show_value(&mut self, value: Option<&Object>) {
        let (Some(Object::Text(codes)), Some(font)) = (value, self.state.font.clone()) else { return };
        for glyph in font.glyphs(codes) {
            if self.budget.text == 0 {
                return;
            }
            self.separate(&glyph.text);
            self.budget.text = self.budget.text.saturating_sub(glyph.text.len());
            for c in glyph.text.chars() {
                // Ligatures of Latin letters are those letters.
                match c {
                    '\u{fb00}' => self.out.push_str("ff"),
                    '\u{fb01}' => self.out.push_str("fi"),
                    '\u{fb02}' => self.out.push_str("fl"),
                    '\u{fb03}' => self.out.push_str("ffi"),
                    '\u{fb04}' => self.out.push_str("ffl"),
                    '\u{a0}' => self.out.push(' '),
                    c if c.is_control() => {}
                    c => self.out.push(c),
                }
            }
            let words = if glyph.is_space { self.state.between_words } else { 0.0 };
            let width = glyph.width / 1000.0 * self.state.size + self.state.between_characters + words;
            self.advance(width * self.state.stretch);
            let (x, y, height) = self.place();
            self.last = Some((x, y, height));
        }
    }

    /// Where the next character comes, and how high it is.
    fn place(&self) -> (f32, f32, f32) {
        let whole = multiply(&self.text, &self.state.page);
        let height = self.state.size.abs() * (whole[2].powi(2) + whole[3].powi(2)).sqrt();
        (whole[4], whole[5], height.max(0.01))
    }

    /// Puts a line's end or a space between the last character and the next one, where the page has room between them.
    fn separate(&mut self, next: &str) {
        let (x, y, height) = self.place();
        let Some((last_x, last_y, last_height)) = self.last else { return };
        let size = height.max(last_height);
        if (y - last_y).abs() > size * 0.4 || x < last_x - size * 2.0 {
            if !self.out.ends_with('\n') {
                self.out.push('\n');
            }
        } else if x - last_x > size * 0.17 && !self.out.ends_with([' ', '\n']) && !next.starts_with(' ') {
            self.out.push(' ');
        }
        self.budget.text = self.budget.text.saturating_sub(1);
    }

    fn font(&mut self, name: &[u8], resources: &Dict, own: &mut Own) -> Option<Rc<Font>> {
        if let Some(font) = own.named.get(name) {
            return Some(Rc::clone(font));
        }
        let fonts = own.fonts.get_or_insert_with(|| self.listed(resources, b"Font"));
        let entry = fonts.get(name)?;
        let font = match entry {
            Object::Ref(number) if self.fonts.0.contains_key(number) => Rc::clone(self.fonts.0.get(number)?),
            _ => {
                let dict = self.file.resolve_dict(entry, self.budget)?;
                Rc::new(Font::read(self.file, &dict, self.budget))
            }
        };
        if let Object::Ref(number) = entry {
            if self.fonts.0.len() >= FONTS {
                self.fonts.0.clear();
            }
            self.fonts.0.insert(*number, Rc::clone(&font));
        }
        if own.named.len() >= FONTS {
            own.named.clear();
        }
        own.named.insert(name.to_vec(), Rc::clone(&font));
        Some(font)
    }

    /// What resources list under a name.
    fn listed(&mut self, resources: &Dict, name: &[u8]) -> Dict {
        resources.get(name).and_then(|list| self.file.resolve_dict(list, self.budget)).unwrap_or_default()
    }

    /// A form is a page in the page.
    fn form(&mut self, name: &[u8], resources: &Dict, own: &mut Own, depth: usize) {
        let objects = own.objects.get_or_insert_with(|| self.listed(resources, b"XObject"));
        // A form is a stream, and a stream is always referred to.
        let Some(entry @ Object::Ref(_)) = objects.get(name).cloned() else { return };
        // A picture is not unpacked to find out that it is one.
        let is_form = self
            .file
            .resolve_dict(&entry, self.budget)
            .is_some_and(|dict| dict.name(b"Subtype") == Some(b"Form"));
        if !is_form {
            return;
        }
        let Some((dict, data)) = self.file.stream(&entry, self.budget) else { return };
        let inner = dict.get(b"Resources").and_then(|inner| self.file.resolve_dict(inner, self.budget));
        let (state, text, line) = (self.state.clone(), self.text, self.line);
        let saved = std::mem::take(&mut self.saved);
        if let Some(Object::Array(values)) = dict.get(b"Matrix") {
            self.state.page = multiply(&matrix(values), &self.state.page);
        }
        self.run(&data, inner.as_ref().unwrap_or(resources), depth + 1);
        (self.state, self.text, self.line, self.saved) = (state, text, line, saved);
    }
}

/// Passes over the bytes of a picture that is written between operators.
fn skip_picture(reader: &mut Reader<'_>) {
    let rest = &reader.bytes[reader.at..];
    let end = memchr::memmem::find_iter(rest, b"EI").find(|at| {
        let edge = |at: Option<&u8>| at.is_none_or(|byte| super::object::is_space(*byte));
        *at > 0 && edge(rest.get(at - 1)) && edge(rest.get(at + 2))
    });
    reader.at += end.map_or(rest.len(), |at| at + 2);
}

fn number(values: &[Object], at: usize) -> f32 {
    values.get(at).and_then(Object::number).unwrap_or(0.0)
}

fn matrix(values: &[Object]) -> Matrix {
    std::array::from_fn(|at| number(values, at))
}

fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    ]
}
