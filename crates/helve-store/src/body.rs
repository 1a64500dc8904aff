//! The members of an entry's body that the store itself looks at.
//!
//! What a body means is the runtime's business; rows of the index show a few members, and a check follows the name of
//! a blob. They stay raw and everything else is passed over, so that neither a long nor a deeply nested body costs
//! memory.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A body, or an object in it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Body<'a> {
    #[serde(borrow)]
    pub(crate) tool: Option<&'a RawValue>,
    pub(crate) args: Option<&'a RawValue>,
    pub(crate) caller: Option<&'a RawValue>,
    pub(crate) decision: Option<&'a RawValue>,
    pub(crate) verdict: Option<&'a RawValue>,
    pub(crate) ok: Option<&'a RawValue>,
    pub(crate) error: Option<&'a RawValue>,
    pub(crate) kind: Option<&'a RawValue>,
    pub(crate) duration_us: Option<&'a RawValue>,
    pub(crate) truncated: Option<&'a RawValue>,
    pub(crate) bytes: Option<&'a RawValue>,
    pub(crate) blob: Option<&'a RawValue>,
}

impl<'a> Body<'a> {
    pub(crate) fn read(json: &'a [u8]) -> Body<'a> {
        // An array would be taken for the members in their order.
        if json.first() == Some(&b'{') {
            serde_json::from_slice(json).unwrap_or_default()
        } else {
            Body::default()
        }
    }

    pub(crate) fn inside(member: Option<&'a RawValue>) -> Body<'a> {
        member.map(|json| Body::read(json.get().as_bytes())).unwrap_or_default()
    }
}

/// A member as a value; `None` when it is absent or of another type.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(json: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(json?.get()).ok()
}
