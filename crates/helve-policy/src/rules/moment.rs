//! The date until which a rule holds: RFC 3339, or a day, which counts to its end.

use std::time::{Duration, SystemTime};

const DAY: u64 = 24 * 3600;

/// The moment that the text names. The error says what to write.
pub(super) fn parse(text: &str) -> Result<SystemTime, String> {
    let seconds = seconds(text).ok_or_else(|| {
        format!(
            "expected a day such as 2031-12-31 or a moment such as 2031-12-31T18:00:00Z, received {text:?}"
        )
    })?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Seconds since 1970, in UTC.
fn seconds(text: &str) -> Option<u64> {
    let day = text.get(..10)?;
    let midnight = days(day)?.checked_mul(DAY)?;
    let rest = text.get(10..)?;
    if rest.is_empty() {
        return Some(midnight + DAY);
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, zone) = rest.split_at_checked(8)?;
    let [hour, minute, second] = numbers(clock, ':')?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Fractions of a second do not matter to a rule.
    let zone = match zone.strip_prefix('.') {
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            fraction.get(digits..).filter(|_| digits > 0)?
        }
        None => zone,
    };
    let local = midnight + hour * 3600 + minute * 60 + second;
    if matches!(zone, "Z" | "z") {
        return Some(local);
    }
    let east = zone.starts_with('+');
    let [hours, minutes] = numbers(zone.strip_prefix(['+', '-'])?, ':')?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = hours * 3600 + minutes * 60;
    if east { local.checked_sub(offset) } else { local.checked_add(offset) }
}

/// Days since 1970 of `YYYY-MM-DD`.
fn days(text: &str) -> Option<u64> {
    let (year, rest) = text.split_once('-')?;
    let [year] = (year.len() == 4).then(|| number(year)).flatten().map(|year| [year])?;
    let [month, day] = numbers(rest, '-')?;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |month: u64| match month {
        2 => 28 + u64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year < 1970 || !(1..=12).contains(&month) || day == 0 || day > length(month) {
        return None;
    }
    let before: u64 = (1970..year).map(|year| 365 + u64::from(leap(year))).sum();
    Some(before + (1..month).map(length).sum::<u64>() + day - 1)
}

/// Numbers of two digits each.
fn numbers<const N: usize>(text: &str, between: char) -> Option<[u64; N]> {
    let parts: Option<Vec<u64>> =
        text.split(between).map(|part| (part.len() == 2).then(|| number(part)).flatten()).collect();
    parts?.try_into().ok()
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_to_their_end_and_moments_are_exact() {
        for (text, expected) in [
            ("1970-01-01", DAY),
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-02 00:00:01Z", DAY + 1),
            ("2000-02-29", 951_868_800),
            ("2024-02-29T12:34:56Z", 1_709_210_096),
            ("2024-02-29T12:34:56.789+02:00", 1_709_202_896),
            ("2024-02-29T12:34:56-00:30", 1_709_211_896),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_an_error() {
        for text in [
            "",
            "tomorrow",
            "2023-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-1-1",
            "1969-12-31",
            "2024-02-29T12:34:56",
            "2024-02-29T25:00:00Z",
            "2024-02-29T12:34Z",
            "2024-02-29T12:34:56.Z",
            "2024-02-29T12:34:56+2:00",
            "+024-01-01",
            "2024-02-29T12:34:56ZZ",
            "2024-02-2é",
            "1970-01-01T00:00:00+01:00",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
