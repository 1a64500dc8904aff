//! Calls as nearly all of them are written: what a call needs, in any order, and nothing else.
//!
//! In comes a line, out comes its call, or nothing, which says nothing: whoever gets that reads the line in full. No name of a
//! member is compared twice, and no text is looked at for an escape that is not there.

use rmcp::model::{NumberOrString, ProgressToken};
use serde_json::{Map, Value};

use super::{Asked, Meta};
use crate::scan::Scan;

/// Arguments that nest deeper than this are read in full, where depth is counted from the line's beginning.
const MOST_NESTED: usize = 100;

/// The call of a line.
pub(super) fn call(line: &[u8]) -> Option<Asked> {
    let mut scan = Scan::new(line);
    let (mut id, mut of, mut version, mut method) = (None, None, None, None);
    scan.byte(b'{')?;
    loop {
        match scan.name()? {
            b"jsonrpc" if version.is_none() => version = Some(scan.text()?),
            b"id" if id.is_none() => id = Some(scan.number()?),
            b"method" if method.is_none() => method = Some(scan.text()?),
            b"params" if of.is_none() => of = Some(params(&mut scan)?),
            _ => return None,
        }
        if scan.is_last()? {
            break;
        }
    }
    let (tool, args, token) = of?;
    let is_call = version == Some(b"2.0".as_slice()) && method == Some(b"tools/call".as_slice());
    (is_call && scan.is_over()).then_some(Asked { id: NumberOrString::Number(id?), tool, args, token })
}

fn params(scan: &mut Scan<'_>) -> Option<(String, Map<String, Value>, Option<ProgressToken>)> {
    let (mut name, mut args, mut meta) = (None, None, None);
    scan.byte(b'{')?;
    loop {
        match scan.name()? {
            b"name" if name.is_none() => name = Some(std::str::from_utf8(scan.text()?).ok()?.to_owned()),
            b"arguments" if args.is_none() => args = Some(arguments(scan)?),
            b"_meta" if meta.is_none() => meta = Some(scan.value::<Meta>()?.0),
            _ => return None,
        }
        if scan.is_last()? {
            return Some((name?, args.unwrap_or_default(), meta.unwrap_or_default().token));
        }
    }
}

fn arguments(scan: &mut Scan<'_>) -> Option<Map<String, Value>> {
    if let Some(arguments) = scan.try_read(Scan::flat) {
        return Some(arguments);
    }
    let (arguments, read) = scan.value::<Map<String, Value>>()?;
    // What is short has no room for depth.
    let is_flat = read < 2 * MOST_NESTED || arguments.values().all(|value| is_flat(value, MOST_NESTED));
    is_flat.then_some(arguments)
}

/// Whether a value nests no deeper than this.
fn is_flat(value: &Value, most: usize) -> bool {
    match (value, most.checked_sub(1)) {
        (Value::Array(items), Some(left)) => items.iter().all(|item| is_flat(item, left)),
        (Value::Object(members), Some(left)) => members.values().all(|member| is_flat(member, left)),
        (Value::Array(_) | Value::Object(_), None) => false,
        _ => true,
    }
}
