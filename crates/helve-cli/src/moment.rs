//! Time as people write and read it. Everything is UTC, as the names of sessions are.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};

/// Today's date, the name of a session that nobody named.
pub(crate) fn today() -> String {
    Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Now, in a form that can stand in the name of a session and sorts as time does.
pub(crate) fn stamp() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%S").to_string()
}

/// Microseconds since 1970 as date and time.
pub(crate) fn show(at_us: u64) -> String {
    let moment = i64::try_from(at_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    moment.map_or_else(|| "?".to_owned(), |moment| moment.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A length of time in the unit that suits it.
pub(crate) fn show_duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        1_000_000..60_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        _ => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}

/// A length of time such as `90d`, `12h`, `30m` or `10s`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a length of time: write a whole number and s, m, h, d or w, such as 90d");
    let split = text.find(|ch: char| !ch.is_ascii_digit()).ok_or_else(wrong)?;
    let (digits, unit) = text.split_at(split);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// A moment in microseconds since 1970: `2h` (ago), `2026-01-31`, `2026-01-31 13:00` or RFC 3339.
pub(crate) fn parse_since(text: &str) -> Result<u64, String> {
    since(text, Timestamp::now())
}

fn since(text: &str, now: Timestamp) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not a moment: write 2h, 3d (ago), 2026-01-31, \"2026-01-31 13:00\" or RFC 3339, in UTC"
        )
    };
    let moment = if let Ok(ago) = parse_duration(text) {
        now.checked_sub(ago).map_err(|_| wrong())?
    } else if let Ok(moment) = text.parse::<Timestamp>() {
        moment
    } else if let Ok(time) = text.parse::<DateTime>() {
        utc(time).ok_or_else(wrong)?
    } else {
        let date: Date = text.parse().map_err(|_| wrong())?;
        utc(date.at(0, 0, 0, 0)).ok_or_else(wrong)?
    };
    let moment = moment.round(Unit::Microsecond).map_err(|_| wrong())?;
    u64::try_from(moment.as_microsecond()).map_err(|_| wrong())
}

fn utc(time: DateTime) -> Option<Timestamp> {
    TimeZone::UTC.to_timestamp(time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn lengths_of_time_are_read() {
        assert_eq!(parse_duration("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        for bad in ["", "d", "90", "9 d", "-1d", "1y", "99999999999999999999d", "9999999999999999w"] {
            assert!(parse_duration(bad).is_err_and(|error| error.contains("90d")), "{bad}");
        }
    }

    #[test]
    fn moments_are_read_in_every_form() {
        let now = "2026-01-31T12:00:00Z".parse().unwrap();
        let expected = 1_769_853_600_000_000;
        for text in ["2h", "2026-01-31T10:00:00Z", "2026-01-31T11:00:00+01:00", "2026-01-31 10:00"] {
            assert_eq!(since(text, now), Ok(expected), "{text}");
        }
        assert_eq!(since("2026-01-31", now), Ok(1_769_817_600_000_000));
        for bad in ["", "yesterday", "2026-13-01", "9999999w", "1969-01-01"] {
            assert!(since(bad, now).is_err(), "{bad}");
        }
    }

    #[test]
    fn moments_and_lengths_are_shown() {
        assert_eq!(show(1_769_853_600_999_999), "2026-01-31 10:00:00");
        assert_eq!(show(u64::MAX), "?");
        assert_eq!(
            [7, 1_834, 2_590_000, 61_000_000].map(show_duration),
            ["7 µs", "1.8 ms", "2.5 s", "1 min 1 s"]
        );
    }
}
