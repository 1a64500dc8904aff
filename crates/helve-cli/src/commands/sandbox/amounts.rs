//! Amounts as people write them on a command line: bytes, lengths of time, counts.

use std::time::Duration;

/// Bytes: a whole number, and K, M, G or T for powers of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || {
        "write a whole number of bytes above 0, with K, M, G or T for powers of 1024, such as 512M".to_owned()
    };
    let (digits, unit) = split(text);
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB") {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    count.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// A length of time as `timeout` takes it: a number, whole or with a point, of seconds, or with s, m, h or d.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a length of time above 0, such as 90, 1.5s, 10m, 2h or 1d".to_owned();
    let (digits, unit) = split(text);
    let seconds = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let count: f64 = digits.parse().map_err(|_| wrong())?;
    let length = Duration::try_from_secs_f64(count * seconds).map_err(|_| wrong())?;
    if length.is_zero() { Err(wrong()) } else { Ok(length) }
}

/// A whole number above 0.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "write a whole number above 0".to_owned())
}

/// The number at the start and what follows it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|ch: char| !ch.is_ascii_digit() && ch != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Bytes in the largest unit in which they are a whole number.
pub(super) fn show_bytes(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{bytes} bytes"), |(shift, name)| format!("{} {name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn bytes_have_units_of_1024() {
        let good = [("1", 1), ("64k", 64 << 10), ("512M", 512 << 20), ("2G", 2 << 30), ("1TiB", 1 << 40)];
        for (text, expected) in good {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "0M", "-1", "1.5G", "M", "12X", "1 G", "99999999T", "١"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_is_written_as_timeout_takes_it() {
        let ms = Duration::from_millis;
        let good = [
            ("2", 2_000),
            ("0.5", 500),
            (".5s", 500),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ];
        for (text, expected) in good {
            assert_eq!(duration(text), Ok(ms(expected)), "{text}");
        }
        for text in ["", "0", "0s", "-1", "1e3", "inf", "nan", "1w", "1.2.3", "s", "9999999999999999999999d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_begin_at_1() {
        assert_eq!((count("1"), count("4096")), (Ok(1), Ok(4096)));
        assert!(["", "0", "-1", "1.0", "x"].iter().all(|text| count(text).is_err()));
    }

    proptest! {
        #[test]
        fn shown_bytes_are_the_same_amount(amount in 1_u64..u64::MAX) {
            let shown = show_bytes(amount).replace(" bytes", "").replace(' ', "");
            prop_assert_eq!(bytes(&shown), Ok(amount));
        }

        #[test]
        fn any_text_is_an_amount_or_a_message(text in "\\PC{0,12}") {
            let _ = (bytes(&text), duration(&text), count(&text));
        }
    }
}
