//! `time`: the clock, and reading, converting, formatting and subtracting points in time.
//!
//! In come points in time as people and programs write them ([`instant`]) and names of time zones ([`zones`]); out
//! goes one readable line for each point, and the same as numbers in the details.
//!
//! A local time without a zone is never guessed at: it is an error that says which parameter to add. So is a local
//! time that a change of the clocks skips or repeats.

mod instant;
mod zones;

use helve_core::typed::schema_of;
use helve_core::{Output, Problem, ToolError, ToolSpec, TypedInstantTool};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) struct Time;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    #[default]
    Now,
    Parse,
    Convert,
    Format,
    Diff,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    #[schemars(
        description = "now: the current time. parse: read input. convert: input in to_timezone. format: input by a \
        strftime format. diff: from input to input2."
    )]
    #[serde(default)]
    operation: Operation,
    #[schemars(
        description = "A point in time: RFC 3339 (2026-03-04T05:06:07Z), local date and time (2026-03-04 05:06) or date \
        with a timezone, RFC 2822, or unix seconds or milliseconds. Absent or \"now\": the current time."
    )]
    #[schemars(extend("type" = ["string", "number"], "x-aliases" = ["timestamp"]))]
    input: Option<Value>,
    /// For diff: the second point in time. Absent or "now": the current time.
    #[schemars(extend("type" = ["string", "number"], "x-aliases" = ["timestamp2"]))]
    input2: Option<Value>,
    #[schemars(
        description = "The zone of a local input, and the zone of the result: an IANA name (Europe/Berlin), an offset \
        (+02:00), UTC, or local for the zone of this machine."
    )]
    timezone: Option<String>,
    /// The zone of a local input, if it is not the zone of the result.
    from_timezone: Option<String>,
    /// For convert: the zone of the result.
    to_timezone: Option<String>,
    /// For format: a strftime format such as %Y-%m-%d %H:%M:%S or %A, %d %B %Y.
    #[schemars(length(max = 500), extend("x-aliases" = ["format_string"]))]
    format: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Facts {
    /// What was done.
    operation: Operation,
    /// The point in time in RFC 3339, with the offset of its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    iso: Option<String>,
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    unix: Option<i64>,
    /// Milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    unix_millis: Option<i64>,
    /// The zone's name, or its offset if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    /// The zone's offset at that point, such as +02:00.
    #[serde(skip_serializing_if = "Option::is_none")]
    utc_offset: Option<String>,
    /// For diff: whole seconds; negative if input2 is the earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<i64>,
    /// For diff: whole milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<i64>,
}

impl TypedInstantTool for Time {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "time",
            "Tells the current time and works with points in time: parse, convert between time zones, format, \
             difference. Use it instead of doing calendar arithmetic yourself. Days in a difference have 24 hours.",
            parameters,
        )
        .title("Time")
        .read_only()
        .output_schema(schema_of::<Facts>())
    }

    fn answer(&self, args: Args) -> Result<Output, ToolError> {
        answer(&args, Timestamp::now())
    }
}

fn answer(args: &Args, now: Timestamp) -> Result<Output, ToolError> {
    let zone = zone_of(args.timezone.as_deref())?;
    let from = zone_of(args.from_timezone.as_deref())?.or_else(|| zone.clone());
    let read = |input: &Option<Value>| -> Result<Zoned, ToolError> {
        match input {
            None | Some(Value::Null) => Ok(now.to_zoned(TimeZone::UTC)),
            Some(input) => instant::read(input, from.as_ref(), now),
        }
    };
    let shown_in = |point: Zoned| match &zone {
        Some(zone) => point.with_time_zone(zone.clone()),
        None => point,
    };
    match args.operation {
        Operation::Now => {
            let zone = zone.unwrap_or(TimeZone::UTC);
            Ok(point_output(args.operation, &now.to_zoned(zone)))
        }
        Operation::Parse => {
            if args.input.is_none() {
                return Err(missing("/input", "a point in time to parse"));
            }
            Ok(point_output(args.operation, &shown_in(read(&args.input)?)))
        }
        Operation::Convert => {
            let Some(to) = zone_of(args.to_timezone.as_deref())? else {
                return Err(missing("/to_timezone", "the zone to convert to, such as Europe/Berlin"));
            };
            let from = read(&args.input)?;
            let to = from.with_time_zone(to);
            let output = point_output(args.operation, &to);
            let text = format!("{}\n= {}", line(&from), output.joined_text());
            Ok(Output::text(text).with_details(output.details))
        }
        Operation::Format => {
            let Some(format) = &args.format else {
                return Err(missing("/format", "a strftime format such as %Y-%m-%d"));
            };
            let point = shown_in(read(&args.input)?);
            let text = formatted(format, &point)?;
            Ok(Output::text(text).with_details(point_output(args.operation, &point).details))
        }
        Operation::Diff => {
            if args.input.is_none() {
                return Err(missing("/input", "the first point in time"));
            }
            Ok(difference(&read(&args.input)?, &read(&args.input2)?))
        }
    }
}

fn missing(pointer: &str, expected: &str) -> ToolError {
    ToolError::invalid("time", vec![Problem::new(pointer, expected, "nothing")])
}

fn zone_of(name: Option<&str>) -> Result<Option<TimeZone>, ToolError> {
    name.map(zones::find).transpose()
}

fn iso(point: &Zoned) -> String {
    if point.time_zone() == &TimeZone::UTC {
        return point.timestamp().to_string();
    }
    point.timestamp().display_with_offset(point.offset()).to_string()
}

/// A point in time for a reader: `2026-03-04T06:06:07+01:00 (Wednesday, Europe/Berlin)`.
fn line(point: &Zoned) -> String {
    format!("{} ({}, {})", iso(point), point.strftime("%A"), zones::name(point))
}

fn point_output(operation: Operation, point: &Zoned) -> Output {
    let facts = Facts {
        operation,
        iso: Some(iso(point)),
        unix: Some(point.timestamp().as_second()),
        unix_millis: Some(point.timestamp().as_millisecond()),
        timezone: Some(zones::name(point)),
        utc_offset: Some(zones::offset_text(point.offset())),
        seconds: None,
        milliseconds: None,
    };
    Output::text(line(point)).with_details(crate::details(&facts))
}

fn formatted(format: &str, point: &Zoned) -> Result<String, ToolError> {
    let hint = "Use strftime directives: %Y year, %m month, %d day, %H hour, %M minute, %S second, %A weekday, %B month \
                name, %z offset, %Z zone, %s unix seconds, %% a percent sign.";
    if !format.contains('%') {
        return Err(ToolError::failed(format!("The format '{format}' has no % directive.")).hint(hint));
    }
    strtime::format(format, point).map_err(|error| {
        ToolError::failed(format!("The format '{format}' cannot be used: {error}.")).hint(hint)
    })
}

fn difference(first: &Zoned, second: &Zoned) -> Output {
    let duration = first.timestamp().duration_until(second.timestamp());
    let text = format!("{}\nto {}\n= {}", line(first), line(second), human(duration));
    let facts = Facts {
        operation: Operation::Diff,
        iso: None,
        unix: None,
        unix_millis: None,
        timezone: None,
        utc_offset: None,
        seconds: Some(duration.as_secs()),
        milliseconds: i64::try_from(duration.as_millis()).ok(),
    };
    Output::text(text).with_details(crate::details(&facts))
}

/// `1 day, 2 hours, 3 seconds (93603 seconds)`; a day has 24 hours.
fn human(duration: SignedDuration) -> String {
    let total = duration.unsigned_abs();
    let seconds = total.as_secs();
    let units = [(seconds / 86_400, "day"), (seconds / 3_600 % 24, "hour"), (seconds / 60 % 60, "minute")];
    let mut parts: Vec<String> =
        units.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| counted(*count, unit)).collect();
    let fraction = decimal(seconds % 60, total.subsec_nanos());
    if parts.is_empty() || fraction != "0" {
        let unit = if fraction == "1" { "second" } else { "seconds" };
        parts.push(format!("{fraction} {unit}"));
    }
    let sign = if duration.is_negative() { "-" } else { "" };
    let earlier = if duration.is_negative() { " back" } else { "" };
    format!("{}{earlier} ({sign}{} seconds)", parts.join(", "), decimal(seconds, total.subsec_nanos()))
}

fn counted(count: u64, unit: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

fn decimal(seconds: u64, nanos: u32) -> String {
    let text = format!("{seconds}.{nanos:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
