//! When a provider is asked again: as it says itself, else after pauses that grow and are not the same for everybody.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::Patience;

/// The longest pause that nobody asked for.
const LONGEST: Duration = Duration::from_secs(30);

/// How long the provider wants to be left alone, as its headers say: milliseconds, seconds or a date.
pub(super) fn asked_for(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str, unit: f64| {
        let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0)?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(pause) = text("retry-after-ms").and_then(|text| number(text, 0.001)) {
        return Some(pause);
    }
    let after = text(RETRY_AFTER.as_str())?;
    number(after, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(after).ok()?;
        // A date that has passed means: now.
        Some(date.duration_since(now).unwrap_or_default())
    })
}

/// The pause before the next try, if the provider names none: twice as long each time, up to a quarter shorter by chance.
pub(super) fn pause(patience: &Patience, tries: u32) -> Duration {
    let whole = patience.first_pause.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST);
    // The only source of chance in the standard library; it has to be different, not secret.
    let chance = RandomState::new().hash_one(0u8) % 1000;
    whole - whole.mul_f64(chance as f64 / 4000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use pretty_assertions::assert_eq;

    #[test]
    fn what_headers_ask_for() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let seconds = |number: f64| Some(Duration::from_secs_f64(number));
        for (headers, expected) in [
            (vec![], None),
            (vec![("retry-after", "7")], seconds(7.0)),
            (vec![("retry-after", " 0.5 ")], seconds(0.5)),
            (vec![("retry-after", "9"), ("retry-after-ms", "250")], seconds(0.25)),
            (vec![("retry-after", "9"), ("retry-after-ms", "soon")], seconds(9.0)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")], seconds(10.0)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], seconds(0.0)),
            (vec![("retry-after", "-3")], None),
            (vec![("retry-after", "NaN")], None),
            (vec![("retry-after", "1e300")], None),
            (vec![("retry-after", "tomorrow")], None),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in &headers {
                map.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(asked_for(&map, now), expected, "{headers:?}");
        }
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let patience = Patience { first_pause: Duration::from_secs(1), ..Patience::default() };
        for (tries, whole) in [(1, 1), (2, 2), (3, 4), (4, 8), (9, 30), (u32::MAX, 30)] {
            let (pause, whole) = (pause(&patience, tries), Duration::from_secs(whole));
            assert!(pause <= whole && pause >= whole.mul_f64(0.75), "{tries}: {pause:?}");
        }
    }
}
