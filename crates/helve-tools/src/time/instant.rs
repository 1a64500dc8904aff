//! A point in time, read from what people and programs write.

use helve_core::ToolError;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::fmt::temporal::{DateTimeParser, Pieces};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};
use serde_json::Value;

use super::zones;

const FORMS: &str = "Write it as 2026-03-04T05:06:07Z, as 2026-03-04 05:06 or 2026-03-04 with a timezone, in RFC 2822, or \
                     as unix seconds or milliseconds.";

/// From this number on, unix time is in milliseconds: as seconds it would lie beyond the year 5000.
const MILLISECONDS_FROM: u64 = 100_000_000_000;

/// The longest text that any of the forms needs, with room to spare.
const MAX_LENGTH: usize = 120;

/// Reads `input`. `zone` is that of a text which carries neither an offset nor a zone.
pub(super) fn read(input: &Value, zone: Option<&TimeZone>, now: Timestamp) -> Result<Zoned, ToolError> {
    let text = match input {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => return unix(&number.to_string()),
        other => return Err(unreadable(&other.to_string(), "it is neither text nor a number")),
    };
    if text.eq_ignore_ascii_case("now") {
        return Ok(now.to_zoned(TimeZone::UTC));
    }
    if text.len() > MAX_LENGTH {
        return Err(unreadable(&text, "it is too long"));
    }
    if is_number(&text) {
        if text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unreadable(&text, "it could be a date or unix seconds").hint(
                "Write a date with dashes, such as 2026-03-04, and unix seconds as a number without quotes.",
            ));
        }
        return unix(&text);
    }
    match Pieces::parse(&text) {
        Ok(pieces) => from_pieces(&text, &pieces, zone),
        Err(why) => rfc2822::parse(&text).map_err(|of_mail| {
            // Only a date as in mail begins with a day of the week.
            let why = if begins_with_weekday(&text) { of_mail } else { why };
            unreadable(&text, &why.to_string())
        }),
    }
}

fn begins_with_weekday(text: &str) -> bool {
    let first = text.get(..3).unwrap_or_default();
    ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].iter().any(|day| first.eq_ignore_ascii_case(day))
}

fn from_pieces(text: &str, pieces: &Pieces<'_>, zone: Option<&TimeZone>) -> Result<Zoned, ToolError> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    if pieces.time_zone_annotation().is_some() {
        return PARSER.parse_zoned(text).map_err(|why| unreadable(text, &why.to_string()));
    }
    let datetime = pieces.date().to_datetime(pieces.time().unwrap_or_default());
    if let Some(offset) = pieces.to_numeric_offset() {
        let timestamp = offset.to_timestamp(datetime).map_err(|why| unreadable(text, &why.to_string()))?;
        let is_utc = offset.is_zero();
        return Ok(timestamp.to_zoned(if is_utc { TimeZone::UTC } else { TimeZone::fixed(offset) }));
    }
    let Some(zone) = zone else {
        return Err(ToolError::failed(format!("'{text}' has no UTC offset, and no time zone is given."))
            .hint("Add timezone (such as Europe/Berlin or UTC), or write an offset such as Z or +02:00 at the end."));
    };
    if pieces.time().is_none() {
        // A day begins with its first instant, whatever the clocks do at midnight.
        return pieces.date().to_zoned(zone.clone()).map_err(|why| unreadable(text, &why.to_string()));
    }
    local(text, datetime, zone)
}

/// The one instant that a clock in `zone` shows as `datetime`, if there is exactly one.
fn local(text: &str, datetime: DateTime, zone: &TimeZone) -> Result<Zoned, ToolError> {
    let candidates = zone.to_ambiguous_zoned(datetime);
    let place = zone.iana_name().unwrap_or("this zone");
    match candidates.offset() {
        AmbiguousOffset::Unambiguous { .. } => {
            candidates.unambiguous().map_err(|why| unreadable(text, &why.to_string()))
        }
        AmbiguousOffset::Gap { before, after } => {
            let (before, after) = (zones::offset_text(before), zones::offset_text(after));
            Err(ToolError::failed(format!(
                "'{text}' does not exist in {place}: the clocks go forward over it, from {before} to {after}."
            ))
            .hint(format!("Write the offset that is meant: {datetime}{before} or {datetime}{after}.")))
        }
        AmbiguousOffset::Fold { before, after } => {
            let (before, after) = (zones::offset_text(before), zones::offset_text(after));
            Err(ToolError::failed(format!(
                "'{text}' is ambiguous in {place}: the clocks show it twice, first at {before}, then at {after}."
            ))
            .hint(format!("Write the offset that is meant: {datetime}{before} or {datetime}{after}.")))
        }
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    all_digits(whole) && all_digits(fraction)
}

/// Unix seconds or milliseconds, by their size.
fn unix(text: &str) -> Result<Zoned, ToolError> {
    let timestamp =
        exact(text).or_else(|| rounded(text)).and_then(|nanos| Timestamp::from_nanosecond(nanos).ok());
    match timestamp {
        Some(timestamp) => Ok(timestamp.to_zoned(TimeZone::UTC)),
        None => Err(unreadable(text, "as unix time it lies outside the years -9999 to 9999")),
    }
}

/// Plain digits, read without loss to the nanosecond.
fn exact(text: &str) -> Option<i128> {
    if !is_number(text) {
        return None;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = whole.parse().ok()?;
    let unit: i128 = if whole >= MILLISECONDS_FROM { 1_000_000 } else { 1_000_000_000 };
    let billionths: i128 = format!("{fraction:0<9.9}").parse().ok()?;
    let nanos = i128::from(whole) * unit + billionths * unit / 1_000_000_000;
    Some(if text.starts_with('-') { -nanos } else { nanos })
}

/// A number in scientific form, read to the millisecond.
fn rounded(text: &str) -> Option<i128> {
    let number: f64 = text.parse().ok()?;
    let is_seconds = number.abs() < MILLISECONDS_FROM as f64;
    let millis = if is_seconds { number * 1_000.0 } else { number }.round();
    (millis.abs() < 1e15).then(|| millis as i128 * 1_000_000)
}

fn unreadable(text: &str, why: &str) -> ToolError {
    let shown: String = text.chars().take(MAX_LENGTH).collect();
    ToolError::failed(format!("Cannot read '{shown}' as a point in time: {why}.")).hint(FORMS)
}
