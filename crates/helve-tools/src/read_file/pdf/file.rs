//! Where the objects of a PDF are, and what its streams hold.
//!
//! Objects are found by looking through the bytes for `12 0 obj`, the last of a number counting: that needs no table,
//! which may be damaged or lie. Objects that are packed into streams are found in those.

use std::collections::BTreeMap;

use memchr::memmem;

use super::Budget;
use super::object::{Dict, Object, Reader, from_hex, is_space};

/// How many objects are looked at.
const OBJECTS: usize = 300_000;
/// How long a chain of references may be.
const CHAIN: usize = 16;
/// Copying one value takes as long as parsing so many bytes.
const COPY: usize = 16;
/// How many filters a stream may have one after another.
const FILTERS: usize = 4;

/// Where an object begins.
#[derive(Clone, Copy, Debug)]
enum Place {
    File(usize),
    /// In an unpacked stream.
    Packed {
        stream: usize,
        at: usize,
    },
}

/// A PDF.
pub(super) struct File<'a> {
    bytes: &'a [u8],
    /// Unpacked streams that hold objects.
    packed: Vec<Vec<u8>>,
    objects: BTreeMap<u32, Place>,
    /// The number of the catalog.
    pub(super) root: Option<u32>,
}

impl<'a> File<'a> {
    /// Finds the objects. An encrypted file is an error.
    pub(super) fn open(bytes: &'a [u8], budget: &mut Budget<'_>) -> Result<File<'a>, String> {
        let mut file = File { bytes, packed: Vec::new(), objects: BTreeMap::new(), root: None };
        // In the order of the file.
        let found = file.find_objects();
        for (number, at) in &found {
            file.objects.insert(*number, Place::File(*at));
        }
        file.find_packed(&found, budget);
        file.find_root(&found, budget)?;
        Ok(file)
    }

    fn find_objects(&self) -> Vec<(u32, usize)> {
        let mut found = Vec::new();
        for at in memmem::find_iter(self.bytes, b"obj") {
            let before = &self.bytes[..at];
            if let Some(number) = object_number(before) {
                found.push((number, at + 3));
            }
            if found.len() >= OBJECTS {
                break;
            }
        }
        found
    }

    /// The object that a byte of the file belongs to.
    fn owner(found: &[(u32, usize)], at: usize) -> Option<(u32, usize)> {
        let count = found.partition_point(|(_, start)| *start <= at);
        count.checked_sub(1).and_then(|last| found.get(last)).copied()
    }

    fn find_packed(&mut self, found: &[(u32, usize)], budget: &mut Budget<'_>) {
        let mut last = None;
        for at in memmem::find_iter(self.bytes, b"/ObjStm") {
            let Some((_, start)) = Self::owner(found, at).filter(|owner| last != Some(owner.1)) else {
                continue;
            };
            last = Some(start);
            let Some((dict, unpacked)) = self.stream_at(start, budget) else { continue };
            let count = dict.number(b"N").unwrap_or(0.0).max(0.0) as usize;
            let first = dict.number(b"First").unwrap_or(0.0).max(0.0) as usize;
            let stream = self.packed.len();
            let mut reader = Reader::new(&unpacked, 0);
            for _ in 0..count.min(OBJECTS) {
                let number = reader.object(budget).and_then(|object| object.number());
                let offset = reader.object(budget).and_then(|object| object.number());
                let (Some(number), Some(offset)) = (number, offset) else { break };
                // What is written later in the file counts.
                let newer = match self.objects.get(&(number as u32)) {
                    Some(Place::File(other)) => start > *other,
                    _ => true,
                };
                if newer && self.objects.len() < OBJECTS {
                    let at = first.saturating_add(offset as usize);
                    self.objects.insert(number as u32, Place::Packed { stream, at });
                }
            }
            self.packed.push(unpacked);
            if budget.is_spent() {
                return;
            }
        }
    }

    fn find_root(&mut self, found: &[(u32, usize)], budget: &mut Budget<'_>) -> Result<(), String> {
        let tables = memmem::find_iter(self.bytes, b"trailer").map(|at| at + 7);
        let streams =
            memmem::find_iter(self.bytes, b"/XRef").filter_map(|at| Some(Self::owner(found, at)?.1));
        let mut places: Vec<usize> = tables.chain(streams).collect();
        places.sort_unstable();
        for at in places.into_iter().rev().take(64) {
            let Some(Object::Dict(dict)) = Reader::new(self.bytes, at).object(budget) else { continue };
            if matches!(dict.get(b"Encrypt"), Some(Object::Ref(_) | Object::Dict(_))) {
                return Err("it is encrypted".to_owned());
            }
            if let (None, Some(Object::Ref(root))) = (self.root, dict.get(b"Root")) {
                self.root = Some(*root);
            }
        }
        Ok(())
    }

    /// The numbers of all objects.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.objects.keys().copied()
    }

    fn object(&self, number: u32, budget: &mut Budget<'_>) -> Object {
        let object = match self.objects.get(&number) {
            Some(Place::File(at)) => Reader::new(self.bytes, *at).object(budget),
            Some(Place::Packed { stream, at }) => {
                self.packed.get(*stream).and_then(|bytes| Reader::new(bytes, *at).object(budget))
            }
            None => None,
        };
        object.unwrap_or_default()
    }

    /// What an object stands for, references followed.
    pub(super) fn resolve(&self, object: &Object, budget: &mut Budget<'_>) -> Object {
        // What is written in place is not parsed again, and copying it has its price too.
        if !matches!(object, Object::Ref(_)) && !budget.parse(object.parts().saturating_mul(COPY)) {
            return Object::Null;
        }
        let mut object = object.clone();
        for _ in 0..CHAIN {
            match object {
                Object::Ref(number) => object = self.object(number, budget),
                object => return object,
            }
        }
        Object::Null
    }

    pub(super) fn resolve_dict(&self, object: &Object, budget: &mut Budget<'_>) -> Option<Dict> {
        match self.resolve(object, budget) {
            Object::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    pub(super) fn dict(&self, number: u32, budget: &mut Budget<'_>) -> Option<Dict> {
        self.resolve_dict(&Object::Ref(number), budget)
    }

    /// A stream and its dictionary, by the object that refers to it.
    pub(super) fn stream(&self, object: &Object, budget: &mut Budget<'_>) -> Option<(Dict, Vec<u8>)> {
        let mut number = match object {
            Object::Ref(number) => *number,
            _ => return None,
        };
        for _ in 0..CHAIN {
            match self.objects.get(&number)? {
                Place::File(at) => {
                    if let Some(Object::Ref(next)) = Reader::new(self.bytes, *at).object(budget) {
                        number = next;
                        continue;
                    }
                    return self.stream_at(*at, budget);
                }
                Place::Packed { .. } => return None,
            }
        }
        None
    }

    fn stream_at(&self, at: usize, budget: &mut Budget<'_>) -> Option<(Dict, Vec<u8>)> {
        let mut reader = Reader::new(self.bytes, at);
        let Some(Object::Dict(dict)) = reader.object(budget) else { return None };
        let before = reader.at;
        reader.skip_space();
        budget.parse(reader.at - before);
        if reader.word() != b"stream" {
            return None;
        }
        let mut start = reader.at;
        start += usize::from(self.bytes.get(start) == Some(&b'\r'));
        start += usize::from(self.bytes.get(start) == Some(&b'\n'));
        let rest = self.bytes.get(start..)?;
        let claimed = dict.get(b"Length").map(|len| self.resolve(len, budget)).and_then(|len| len.number());
        let raw = match claimed.map(|len| len.max(0.0) as usize).and_then(|len| Some((len, rest.get(len..)?)))
        {
            Some((len, after)) if is_stream_end(after) => &rest[..len],
            _ => {
                let found = memmem::find(rest, b"endstream");
                budget.parse(found.unwrap_or(rest.len()));
                &rest[..found?]
            }
        };
        let unpacked = self.unpack(&dict, raw, budget)?;
        Some((dict, unpacked))
    }

    /// What a stream holds, if its filters are known here.
    fn unpack(&self, dict: &Dict, raw: &[u8], budget: &mut Budget<'_>) -> Option<Vec<u8>> {
        let filters = match dict.get(b"Filter").map(|filter| self.resolve(filter, budget)) {
            None | Some(Object::Null) => Vec::new(),
            Some(Object::Name(name)) => vec![name],
            Some(Object::Array(names)) => {
                let names = names.into_iter().map(|name| match self.resolve(&name, budget) {
                    Object::Name(name) => Some(name),
                    _ => None,
                });
                names.collect::<Option<Vec<_>>>()?
            }
            Some(_) => return None,
        };
        if filters.len() > FILTERS {
            return None;
        }
        let mut data = std::borrow::Cow::Borrowed(raw);
        for filter in &filters {
            let next = match filter.as_slice() {
                b"FlateDecode" | b"Fl" => inflate(&data, budget.unpacked),
                b"ASCIIHexDecode" | b"AHx" => from_hex(&data),
                b"ASCII85Decode" | b"A85" => from_ascii85(&data),
                b"RunLengthDecode" | b"RL" => from_runs(&data, budget.unpacked),
                _ => return None,
            };
            budget.unpacked = budget.unpacked.saturating_sub(next.len());
            data = std::borrow::Cow::Owned(next);
        }
        if filters.is_empty() {
            budget.unpacked = budget.unpacked.saturating_sub(raw.len());
        }
        Some(data.into_owned())
    }
}

fn is_stream_end(after: &[u8]) -> bool {
    let space = after.iter().take(4).take_while(|byte| is_space(**byte)).count();
    after[space..].starts_with(b"endstream")
}

/// The number of the object whose `obj` comes next: `12 0 ` before it.
fn object_number(before: &[u8]) -> Option<u32> {
    let (before, _) = digits_behind(trim_space(before)?)?;
    let (_, number) = digits_behind(trim_space(before)?)?;
    Some(number)
}

/// The bytes without the white space at their end, of which there has to be some, but little.
fn trim_space(bytes: &[u8]) -> Option<&[u8]> {
    let count = bytes.iter().rev().take(16).take_while(|byte| is_space(**byte)).count();
    (count > 0).then(|| &bytes[..bytes.len() - count])
}

fn digits_behind(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let count = bytes.iter().rev().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = bytes.split_at(bytes.len() - count);
    Some((before, std::str::from_utf8(digits).ok()?.parse().ok()?))
}

/// Unpacks at most `most` bytes; what is damaged gives what came before.
fn inflate(data: &[u8], most: usize) -> Vec<u8> {
    match miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(data, most) {
        Ok(bytes) => bytes,
        Err(error) => error.output,
    }
}

fn from_ascii85(data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.len() / 5 * 4);
    let (mut group, mut count) = (0u32, 0);
    for byte in data {
        match byte {
            b'z' if count == 0 => bytes.extend([0; 4]),
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                count += 1;
                if count == 5 {
                    bytes.extend(group.to_be_bytes());
                    (group, count) = (0, 0);
                }
            }
            b'~' => break,
            _ => {}
        }
    }
    if count > 1 {
        for _ in count..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        bytes.extend(&group.to_be_bytes()[..count - 1]);
    }
    bytes
}

fn from_runs(data: &[u8], most: usize) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while let Some(length) = data.get(at) {
        let count = usize::from(*length);
        match count {
            0..=127 => {
                bytes.extend(data.iter().skip(at + 1).take(count + 1));
                at += count + 2;
            }
            128 => break,
            _ => {
                bytes.extend(std::iter::repeat_n(data.get(at + 1).copied().unwrap_or(0), 257 - count));
                at += 2;
            }
        }
        if bytes.len() >= most {
            break;
        }
    }
    bytes
}
