//! Time zones by name: IANA names and offsets, and the nearest names when there is none.

use helve_core::ToolError;
use jiff::Zoned;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// Names that people use and the database does not know as a zone. Only ever suggested, never taken.
const HABITS: &[(&str, &str)] = &[
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("PT", "America/Los_Angeles"),
    ("MDT", "America/Denver"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("EDT", "America/New_York"),
    ("ET", "America/New_York"),
    ("BST", "Europe/London"),
    ("CEST", "Europe/Berlin"),
    ("EEST", "Europe/Helsinki"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("AEST", "Australia/Sydney"),
];

/// The zone that `name` means.
pub(super) fn find(name: &str) -> Result<TimeZone, ToolError> {
    let name = name.trim();
    if name.eq_ignore_ascii_case("local") {
        return TimeZone::try_system().map_err(|why| {
            ToolError::failed(format!("The time zone of this machine is not known: {why}."))
                .hint("Name the zone, such as Europe/Berlin.")
        });
    }
    let found = match name.as_bytes() {
        b"Z" | b"z" => Some(TimeZone::UTC),
        [b'+' | b'-', ..] => offset(name).map(TimeZone::fixed),
        _ if name.eq_ignore_ascii_case("UTC") => Some(TimeZone::UTC),
        // An installed database may be newer; one that is incomplete must not hide the zones that Helve carries.
        _ => jiff::tz::db().get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok(),
    };
    found.ok_or_else(|| unknown(name))
}

/// `+2`, `+02`, `+0200`, `+02:00`.
fn offset(text: &str) -> Option<Offset> {
    let digits: String = text.get(1..)?.chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = match digits.len() {
        1 | 2 => (digits.parse().ok()?, 0),
        4 => (digits.get(..2)?.parse().ok()?, digits.get(2..)?.parse().ok()?),
        _ => return None,
    };
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes): (i32, i32) = (hours, minutes);
    if hours > 23 || minutes > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()
}

fn unknown(name: &str) -> ToolError {
    let shown: String = name.chars().take(60).collect();
    let near = nearest(&shown);
    let meant = match near.as_slice() {
        [] => String::new(),
        near => format!("Did you mean {}? ", near.join(" or ")),
    };
    ToolError::failed(format!("Unknown time zone '{shown}'."))
        .hint(format!("{meant}Use an IANA name like Europe/Berlin, an offset like +02:00, or UTC."))
}

/// At most three names that `name` could have meant, best first.
fn nearest(name: &str) -> Vec<String> {
    let habit = HABITS.iter().find(|(habit, _)| habit.eq_ignore_ascii_case(name));
    if let Some((_, zone)) = habit {
        return vec![(*zone).to_owned()];
    }
    let wanted = name.to_lowercase().replace(' ', "_");
    let mut scored: Vec<(f64, String)> = TimeZoneDatabase::bundled()
        .available()
        .map(|zone| zone.as_str().to_owned())
        // The signs of Etc/GMT+2 are the other way round: nobody should be led there.
        .filter(|zone| zone.contains('/') && !zone.starts_with("Etc/"))
        .filter_map(|zone| {
            let score = likeness(&wanted, &zone.to_lowercase());
            (score > 0.85).then_some((score, zone))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.truncate(3);
    scored.into_iter().map(|(_, zone)| zone).collect()
}

fn likeness(wanted: &str, zone: &str) -> f64 {
    let city = zone.rsplit('/').next().unwrap_or(zone);
    if city == wanted {
        return 2.0;
    }
    let wanted_city = wanted.rsplit('/').next().unwrap_or(wanted);
    let whole = strsim::jaro_winkler(wanted, zone);
    let by_city = strsim::jaro_winkler(wanted_city, city);
    // A wrong region with the right city is likelier than the right region with another city.
    whole.max(if city == wanted_city { 1.0 } else { by_city * 0.95 })
}

/// The zone's name, or its offset if it has no name.
pub(super) fn name(point: &Zoned) -> String {
    match point.time_zone().iana_name() {
        Some(name) => name.to_owned(),
        None => offset_text(point.offset()),
    }
}

/// `+02:00`; with seconds only where there are some.
pub(super) fn offset_text(offset: Offset) -> String {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let total = seconds.unsigned_abs();
    let mut text = format!("{sign}{:02}:{:02}", total / 3_600, total / 60 % 60);
    if !total.is_multiple_of(60) {
        text.push_str(&format!(":{:02}", total % 60));
    }
    text
}
