//! The blocks of a result that are not plain text: bounded, and their words cleaned like all others.

use helve_core::harmless::harmless;
use helve_core::output::{About, Content, EmbeddedResource, Output, ResourceLink};
use serde_json::Value;

use super::Governor;
use crate::pipeline::normalize::weight;

/// So many blocks has a result; a tool that gives more gives them in one.
const MOST_BLOCKS: usize = 1024;
/// So long may an address, a title or a description be.
const MAX_WORD_CHARS: usize = 4_000;
/// So much may be said about a block beside its content.
const MAX_ABOUT_BYTES: u64 = 16 << 10;

/// The text of a block that the model reads as text.
pub(super) fn text(block: &mut Content) -> Option<&mut String> {
    match block {
        Content::Text { text, .. } => Some(text),
        Content::Resource { resource: EmbeddedResource { text: Some(text), .. }, .. } => Some(text),
        _ => None,
    }
}

impl Governor {
    /// Bounds and cleans everything in blocks that [`text`] does not give.
    pub(super) fn blocks(&self, output: &mut Output, notes: &mut Vec<String>) {
        let beyond = output.content.len().saturating_sub(MOST_BLOCKS);
        if beyond > 0 {
            output.content.truncate(MOST_BLOCKS);
            notes.push(format!("{beyond} blocks beyond the first {MOST_BLOCKS} were left out"));
        }
        output.content.retain_mut(|block| self.block(block, notes));
    }

    /// Whether a block stays.
    fn block(&self, block: &mut Content, notes: &mut Vec<String>) -> bool {
        match block {
            Content::Text { about, .. } => self.about(about, notes),
            Content::Image { data, mime_type, about } => {
                self.word(mime_type);
                self.about(about, notes);
                return self.fits("picture", data, notes);
            }
            Content::Audio { data, mime_type, about } => {
                self.word(mime_type);
                self.about(about, notes);
                return self.fits("sound", data, notes);
            }
            Content::Resource { resource, about } => {
                self.word(&mut resource.uri);
                resource.mime_type.iter_mut().for_each(|word| self.word(word));
                self.extra(&mut resource.meta, notes);
                self.about(about, notes);
                return resource.blob.as_ref().is_none_or(|blob| self.fits("resource", blob, notes));
            }
            Content::ResourceLink(link) => {
                let ResourceLink { uri, name, title, description, mime_type, size: _, icons, about } =
                    &mut **link;
                self.word(uri);
                self.word(name);
                let words = [title, description, mime_type];
                words.into_iter().flatten().for_each(|word| self.word(word));
                self.extra(icons, notes);
                self.about(about, notes);
            }
        }
        true
    }

    fn fits(&self, what: &str, data: &str, notes: &mut Vec<String>) -> bool {
        let limit = self.limits.image_bytes;
        let fits = data.len() as u64 <= limit;
        if !fits {
            notes.push(format!("a {what} of {} bytes (limit {limit}) was left out", data.len()));
        }
        fits
    }

    fn word(&self, word: &mut String) {
        *word = self.clean_short(word, MAX_WORD_CHARS);
    }

    fn about(&self, about: &mut Option<Box<About>>, notes: &mut Vec<String>) {
        if let Some(said) = about {
            self.extra(&mut said.annotations, notes);
            self.extra(&mut said.meta, notes);
        }
    }

    fn extra(&self, value: &mut Option<Value>, notes: &mut Vec<String>) {
        let Some(said) = value else { return };
        if weight(said) > MAX_ABOUT_BYTES {
            notes.push(format!(
                "what was said about a block is longer than {MAX_ABOUT_BYTES} bytes and was left out"
            ));
            *value = None;
            return;
        }
        self.clean_deep(said);
    }

    /// A value without secrets in which every text is harmless.
    pub(super) fn clean_deep(&self, value: &mut Value) {
        self.clean_value(value);
        make_harmless(value);
    }
}

fn make_harmless(value: &mut Value) {
    match value {
        Value::String(text) => *text = harmless(text),
        Value::Array(items) => items.iter_mut().for_each(make_harmless),
        Value::Object(members) => {
            if members.keys().any(|key| !key.chars().all(helve_core::harmless::is_harmless)) {
                *members =
                    std::mem::take(members).into_iter().map(|(key, value)| (harmless(&key), value)).collect();
            }
            members.values_mut().for_each(make_harmless);
        }
        _ => {}
    }
}
