//! A serde serializer that writes canonical JSON directly, so that no tree of values has to be built first.
//!
//! The members of an object are written as they come; when the object ends and they were out of order, their bytes are
//! put into order. Most of the cost of sorting is thus a copy.

use std::borrow::Cow;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use serde_json::Value;

use super::{MAX_DEPTH, utf16_order, write_f64, write_i64, write_string, write_u64};
use crate::StoreError;

impl serde::ser::Error for StoreError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        StoreError::NotJson(message.to_string())
    }
}

/// Writes one value.
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    depth_left: usize,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        Writer { out, depth_left: MAX_DEPTH }
    }

    fn deeper(self) -> Result<Self, StoreError> {
        let depth_left = self.depth_left.checked_sub(1).ok_or(StoreError::TooDeep(MAX_DEPTH))?;
        Ok(Writer { out: self.out, depth_left })
    }

    fn literal(self, text: &[u8]) -> Result<(), StoreError> {
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// `{"variant":` — closed by whoever writes the inside.
    fn variant(self, name: &str) -> Result<Self, StoreError> {
        let writer = self.deeper()?;
        writer.out.push(b'{');
        write_string(writer.out, name);
        writer.out.push(b':');
        Ok(writer)
    }

    fn array(self, close: &'static [u8]) -> Result<Array<'o>, StoreError> {
        let writer = self.deeper()?;
        writer.out.push(b'[');
        Ok(Array { writer, first: true, close })
    }

    fn object(self, close: &'static [u8]) -> Result<Object<'o>, StoreError> {
        let writer = self.deeper()?;
        writer.out.push(b'{');
        Ok(Object { writer, members: Vec::new(), key: None, close })
    }
}

impl<'o> Serializer for Writer<'o> {
    type Ok = ();
    type Error = StoreError;
    type SerializeSeq = Array<'o>;
    type SerializeTuple = Array<'o>;
    type SerializeTupleStruct = Array<'o>;
    type SerializeTupleVariant = Array<'o>;
    type SerializeMap = Object<'o>;
    type SerializeStruct = Object<'o>;
    type SerializeStructVariant = Object<'o>;

    fn serialize_bool(self, value: bool) -> Result<(), StoreError> {
        self.literal(if value { b"true" } else { b"false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), StoreError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), StoreError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), StoreError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), StoreError> {
        write_i64(self.out, value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), StoreError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), StoreError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), StoreError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), StoreError> {
        write_u64(self.out, value);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), StoreError> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), StoreError> {
        if !value.is_finite() {
            return Err(StoreError::custom("a number that is not finite has no place in JSON"));
        }
        write_f64(self.out, value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), StoreError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), StoreError> {
        write_string(self.out, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), StoreError> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), StoreError> {
        self.literal(b"null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), StoreError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), StoreError> {
        self.literal(b"null")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), StoreError> {
        self.literal(b"null")
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), StoreError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), StoreError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), StoreError> {
        let writer = self.variant(variant)?;
        value.serialize(Writer { out: &mut *writer.out, depth_left: writer.depth_left })?;
        writer.literal(b"}")
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Array<'o>, StoreError> {
        self.array(b"]")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Array<'o>, StoreError> {
        self.array(b"]")
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Array<'o>, StoreError> {
        self.array(b"]")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Array<'o>, StoreError> {
        self.variant(variant)?.array(b"]}")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Object<'o>, StoreError> {
        self.object(b"}")
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Object<'o>, StoreError> {
        self.object(b"}")
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Object<'o>, StoreError> {
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
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(b',');
        }
        value.serialize(Writer { out: self.writer.out, depth_left: self.writer.depth_left })
    }

    fn close(self) -> Result<(), StoreError> {
        self.writer.literal(self.close)
    }
}

/// An object on its way.
pub(super) struct Object<'o> {
    writer: Writer<'o>,
    members: Vec<Member>,
    key: Option<Cow<'static, str>>,
    close: &'static [u8],
}

/// A member that is written: its key, and where it begins in the output. It ends where the next begins.
struct Member {
    key: Cow<'static, str>,
    start: usize,
}

impl Object<'_> {
    fn member<T: Serialize + ?Sized>(&mut self, key: Cow<'static, str>, value: &T) -> Result<(), StoreError> {
        let start = self.writer.out.len();
        write_string(self.writer.out, &key);
        self.writer.out.push(b':');
        value.serialize(Writer { out: self.writer.out, depth_left: self.writer.depth_left })?;
        self.writer.out.push(b',');
        self.members.push(Member { key, start });
        Ok(())
    }

    fn close(self) -> Result<(), StoreError> {
        let Object { writer, members, close, .. } = self;
        let out = writer.out;
        if members.windows(2).any(|pair| utf16_order(&pair[0].key, &pair[1].key).is_gt()) {
            reorder(out, &members);
        }
        if !members.is_empty() {
            // The comma behind the last member.
            out.pop();
        }
        out.extend_from_slice(close);
        Ok(())
    }
}

fn reorder(out: &mut Vec<u8>, members: &[Member]) {
    let Some(first) = members.first() else { return };
    let written = out.split_off(first.start);
    let ends = members.iter().skip(1).map(|next| next.start).chain([first.start + written.len()]);
    let mut parts: Vec<(&str, &[u8])> = members
        .iter()
        .zip(ends)
        .map(|(member, end)| (&*member.key, &written[member.start - first.start..end - first.start]))
        .collect();
    parts.sort_by(|a, b| utf16_order(a.0, b.0));
    for (_, bytes) in parts {
        out.extend_from_slice(bytes);
    }
}

/// serde names each kind of array and of object by a trait of its own; here they are written alike.
macro_rules! alike {
    ($($kind:ident::$method:ident for Array;)+) => {$(
        impl $kind for Array<'_> {
            type Ok = ();
            type Error = StoreError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), StoreError> {
                self.item(value)
            }

            fn end(self) -> Result<(), StoreError> {
                self.close()
            }
        }
    )+};
    ($($kind:ident::$method:ident for Object;)+) => {$(
        impl $kind for Object<'_> {
            type Ok = ();
            type Error = StoreError;

            fn $method<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), StoreError> {
                self.member(Cow::Borrowed(key), value)
            }

            fn end(self) -> Result<(), StoreError> {
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
    type Error = StoreError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), StoreError> {
        let wrong = || StoreError::custom("a key of an object must be text, a number or a boolean");
        let key = match serde_json::to_value(key).map_err(|_| wrong())? {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => return Err(wrong()),
        };
        self.key = Some(Cow::Owned(key));
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), StoreError> {
        let key = self.key.take().ok_or_else(|| StoreError::custom("a value came without its key"))?;
        self.member(key, value)
    }

    fn end(self) -> Result<(), StoreError> {
        self.close()
    }
}
