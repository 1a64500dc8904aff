//! A serde serializer that writes canonical JSON directly, so that no tree of values has to be built first.
//!
//! The members of an object are written as they come; when the object ends and they were out of order, their bytes are
//! put into order. Most of the cost of sorting is thus a copy. Where members begin is kept for all open objects in one place,
//! and their keys are compared where they were written.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use helve_core::json_text::{write_string, write_u64};

use super::{MAX_DEPTH, utf16_order, write_f64, write_i64};
use crate::StoreError;

/// Why a value cannot be written. Small, because each part of a value hands on whether it was.
#[derive(Debug)]
pub(super) struct Fault(Box<StoreError>);

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault(Box::new(error))
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        *fault.0
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for Fault {}

impl serde::ser::Error for Fault {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        StoreError::NotJson(message.to_string()).into()
    }
}

/// Writes one value.
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// The members of the objects that are open, the innermost last.
    members: &'o mut Vec<Member>,
    depth_left: usize,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>, members: &'o mut Vec<Member>, depth_left: usize) -> Self {
        Writer { out, members, depth_left }
    }

    #[inline]
    fn deeper(self) -> Result<Self, Fault> {
        let depth_left =
            self.depth_left.checked_sub(1).ok_or_else(|| Fault::from(StoreError::TooDeep(MAX_DEPTH)))?;
        Ok(Writer { depth_left, ..self })
    }

    /// The same for a value inside.
    #[inline]
    fn inner(&mut self) -> Writer<'_> {
        Writer { out: self.out, members: self.members, depth_left: self.depth_left }
    }

    #[inline]
    fn literal(self, text: &[u8]) -> Result<(), Fault> {
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// `{"variant":` — closed by whoever writes the inside.
    fn variant(self, name: &str) -> Result<Self, Fault> {
        let writer = self.deeper()?;
        writer.out.push(b'{');
        let _ = write_string(writer.out, name);
        writer.out.push(b':');
        Ok(writer)
    }

    #[inline]
    fn array(self, close: &'static [u8]) -> Result<Array<'o>, Fault> {
        let writer = self.deeper()?;
        writer.out.push(b'[');
        Ok(Array { writer, first: true, close })
    }

    #[inline]
    fn object(self, close: &'static [u8]) -> Result<Object<'o>, Fault> {
        let writer = self.deeper()?;
        writer.out.push(b'{');
        let first = writer.members.len();
        Ok(Object { writer, first, is_sorted: true, close })
    }
}

impl<'o> Serializer for Writer<'o> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Array<'o>;
    type SerializeTuple = Array<'o>;
    type SerializeTupleStruct = Array<'o>;
    type SerializeTupleVariant = Array<'o>;
    type SerializeMap = Object<'o>;
    type SerializeStruct = Object<'o>;
    type SerializeStructVariant = Object<'o>;

    fn serialize_bool(self, value: bool) -> Result<(), Fault> {
        self.literal(if value { b"true" } else { b"false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Fault> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Fault> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Fault> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Fault> {
        write_i64(self.out, value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Fault> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Fault> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Fault> {
        self.serialize_u64(value.into())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<(), Fault> {
        write_u64(self.out, value);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Fault> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Fault> {
        if !value.is_finite() {
            return Err(Fault::custom("a number that is not finite has no place in JSON"));
        }
        write_f64(self.out, value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        let _ = write_string(self.out, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Fault> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Fault> {
        self.literal(b"null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        self.literal(b"null")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Fault> {
        self.literal(b"null")
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Fault> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        let mut writer = self.variant(variant)?;
        value.serialize(writer.inner())?;
        writer.literal(b"}")
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Array<'o>, Fault> {
        self.array(b"]")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Array<'o>, Fault> {
        self.array(b"]")
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Array<'o>, Fault> {
        self.array(b"]")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Array<'o>, Fault> {
        self.variant(variant)?.array(b"]}")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Object<'o>, Fault> {
        self.object(b"}")
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Object<'o>, Fault> {
        self.object(b"}")
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Object<'o>, Fault> {
        self.variant(variant)?.object(b"}}")
    }
}

/// An array on its way.
pub(super) struct Array<'o> {
    writer: Writer<'o>,
    first: bool,
    close: &'static [u8],
}

impl Array<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(b',');
        }
        value.serialize(self.writer.inner())
    }

    fn close(self) -> Result<(), Fault> {
        self.writer.literal(self.close)
    }
}

/// An object on its way.
pub(super) struct Object<'o> {
    writer: Writer<'o>,
    /// Where its members begin among those of all open objects.
    first: usize,
    is_sorted: bool,
    close: &'static [u8],
}

/// A member that is written: where it begins in the output, and where its key ends. It ends where the next begins.
#[derive(Clone, Copy)]
pub(super) struct Member {
    start: usize,
    key_end: usize,
    /// Whether the key is written as it is.
    plain: bool,
}

impl Member {
    /// The key as it is written in `out`, which begins with the byte `from` of the output.
    #[inline]
    fn written<'k>(&self, out: &'k [u8], from: usize) -> &'k [u8] {
        out.get(self.start + 1 - from..self.key_end - 1 - from).unwrap_or_default()
    }

    fn key<'k>(&self, out: &'k [u8], from: usize) -> Cow<'k, [u8]> {
        let quoted = out.get(self.start - from..self.key_end - from).unwrap_or_default();
        match self.plain {
            true => Cow::Borrowed(self.written(out, from)),
            false => Cow::Owned(serde_json::from_slice::<String>(quoted).unwrap_or_default().into_bytes()),
        }
    }
}

/// The order of two members in `out`, which begins with the byte `from` of the output.
#[inline]
fn order(one: &Member, other: &Member, out: &[u8], from: usize) -> Ordering {
    if one.plain && other.plain {
        return utf16_order(one.written(out, from), other.written(out, from));
    }
    utf16_order(&one.key(out, from), &other.key(out, from))
}

impl Object<'_> {
    /// Says that a key stands from `start` on.
    #[inline]
    fn has_key(&mut self, start: usize, plain: bool) {
        let Writer { out, members, .. } = &mut self.writer;
        let member = Member { start, key_end: out.len(), plain };
        if members.len() > self.first
            && let Some(before) = members.last()
        {
            self.is_sorted = self.is_sorted && order(before, &member, out, 0).is_le();
        }
        members.push(member);
        out.push(b':');
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
        let start = self.writer.out.len();
        let plain = write_string(self.writer.out, key);
        self.has_key(start, plain);
        self.has_value(value)
    }

    #[inline]
    fn has_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        value.serialize(self.writer.inner())?;
        self.writer.out.push(b',');
        Ok(())
    }

    fn close(self) -> Result<(), Fault> {
        let Writer { out, members, .. } = self.writer;
        let own = members.get_mut(self.first..).unwrap_or_default();
        if !self.is_sorted {
            let bytes = own.first().map_or(0, |first| out.len() - first.start);
            if own.len() <= FEW && bytes <= SHORT { turn(out, own) } else { reorder(out, own) }
        }
        if !own.is_empty() {
            // The comma behind the last member.
            out.pop();
        }
        members.truncate(self.first);
        out.extend_from_slice(self.close);
        Ok(())
    }
}

/// So many members of so many bytes are put into order where they stand.
const FEW: usize = 8;
const SHORT: usize = 512;

/// Puts a few short members into order: each in turn to its place among those before it.
fn turn(out: &mut [u8], members: &mut [Member]) {
    let end = out.len();
    for at in 1..members.len() {
        let moved = members[at];
        let before = &members[..at];
        let place =
            before.iter().rposition(|one| order(one, &moved, out, 0).is_le()).map_or(0, |last| last + 1);
        if place == at {
            continue;
        }
        let behind = members.get(at + 1).map_or(end, |next| next.start);
        let (length, start) = (behind - moved.start, members[place].start);
        out[start..behind].rotate_right(length);
        members[place..=at].rotate_right(1);
        members[place] = Member { start, key_end: start + (moved.key_end - moved.start), ..moved };
        for later in &mut members[place + 1..=at] {
            later.start += length;
            later.key_end += length;
        }
    }
}

fn reorder(out: &mut Vec<u8>, members: &[Member]) {
    let Some(first) = members.first() else { return };
    let written = out.split_off(first.start);
    let ends = members.iter().skip(1).map(|next| next.start).chain([first.start + written.len()]);
    let mut parts: Vec<(&Member, &[u8])> = members
        .iter()
        .zip(ends)
        .map(|(member, end)| (member, &written[member.start - first.start..end - first.start]))
        .collect();
    parts.sort_by(|a, b| order(a.0, b.0, &written, first.start));
    for (_, bytes) in parts {
        out.extend_from_slice(bytes);
    }
}

/// serde names each kind of array and of object by a trait of its own; here they are written alike.
macro_rules! alike {
    ($($kind:ident::$method:ident for Array;)+) => {$(
        impl $kind for Array<'_> {
            type Ok = ();
            type Error = Fault;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
                self.item(value)
            }

            fn end(self) -> Result<(), Fault> {
                self.close()
            }
        }
    )+};
    ($($kind:ident::$method:ident for Object;)+) => {$(
        impl $kind for Object<'_> {
            type Ok = ();
            type Error = Fault;

            fn $method<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), Fault> {
                self.close()
            }
        }
    )+};
}

alike! {
    SerializeSeq::serialize_element for Array;
    SerializeTuple::serialize_element for Array;
    SerializeTupleStruct::serialize_field for Array;
    SerializeTupleVariant::serialize_field for Array;
}

alike! {
    SerializeStruct::serialize_field for Object;
    SerializeStructVariant::serialize_field for Object;
}

impl SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        let start = self.writer.out.len();
        key.serialize(self.writer.inner())?;
        let written = self.writer.out.get(start..).unwrap_or_default();
        match written.first() {
            Some(b'"') => {}
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.writer.out.insert(start, b'"');
                self.writer.out.push(b'"');
            }
            _ => return Err(Fault::custom("a key of an object must be text, a number or a boolean")),
        }
        let plain = !self.writer.out.get(start..).unwrap_or_default().contains(&b'\\');
        self.has_key(start, plain);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.has_value(value)
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}
