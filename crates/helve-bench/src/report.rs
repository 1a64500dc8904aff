//! The table for people, the JSON for programs.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value, json};

/// What was promised of a row.
#[derive(Clone, Copy)]
pub(crate) enum Promise {
    /// The ratio to the reference is at most this.
    Ratio(f64),
    /// At least so many a second.
    PerSecond(f64),
    /// At most so many MiB.
    Mib(f64),
    /// Shown, not promised.
    None,
}

/// One measurement.
pub(crate) struct Row {
    pub(crate) name: Cow<'static, str>,
    pub(crate) subject: Duration,
    pub(crate) reference: Option<(&'static str, Duration)>,
    pub(crate) promise: Promise,
    /// MiB, where memory is what counts.
    pub(crate) mib: Option<f64>,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        let (_, reference) = self.reference?;
        Some(self.subject.as_secs_f64() / reference.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    fn per_second(&self) -> f64 {
        1.0 / self.subject.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Whether the promise holds.
    pub(crate) fn holds(&self) -> bool {
        match self.promise {
            Promise::Ratio(limit) => self.ratio().is_some_and(|ratio| ratio <= limit),
            Promise::PerSecond(limit) => self.per_second() >= limit,
            Promise::Mib(limit) => self.mib.is_some_and(|mib| mib <= limit),
            Promise::None => true,
        }
    }

    fn promised(&self) -> String {
        match self.promise {
            Promise::Ratio(limit) => format!("<= {limit}x"),
            Promise::PerSecond(limit) => format!(">= {limit:.0}/s"),
            Promise::Mib(limit) => format!("<= {limit} MiB"),
            Promise::None => String::new(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "microseconds": self.subject.as_secs_f64() * 1e6,
            "reference": self.reference.map(|(name, _)| name),
            "reference_microseconds": self.reference.map(|(_, time)| time.as_secs_f64() * 1e6),
            "ratio": self.ratio(),
            "mib": self.mib,
            "promise": self.promised(),
            "holds": self.holds(),
        })
    }
}

/// Prints the rows.
#[expect(clippy::print_stdout, reason = "the report is this program's output")]
pub(crate) fn print(rows: &[Row], json: bool) {
    if json {
        println!("{}", Value::Array(rows.iter().map(Row::json).collect()));
        return;
    }
    println!("{:<46} {:>12} {:<34} {:>12} {:>8}  promise", "what", "takes", "beside", "takes", "ratio");
    for row in rows {
        let takes = row.mib.map_or_else(|| shown(row.subject), |mib| format!("{mib:.1} MiB"));
        let (name, reference) = row.reference.map_or(("", String::new()), |(name, time)| (name, shown(time)));
        let ratio = row.ratio().map(|ratio| format!("{ratio:.2}x")).unwrap_or_default();
        let mark = if row.holds() { "" } else { "  MISSED" };
        println!(
            "{:<46} {takes:>12} {name:<34} {reference:>12} {ratio:>8}  {}{mark}",
            row.name,
            row.promised()
        );
    }
}

/// Says what the table does not.
#[expect(clippy::print_stdout, reason = "the report is this program's output")]
pub(crate) fn remark(text: &str) {
    println!("\n{text}");
}

/// Says what went wrong.
#[expect(clippy::print_stderr, reason = "errors of a program go to standard error")]
pub(crate) fn complain(message: &str) {
    eprintln!("helve-bench: {message}");
}

fn shown(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    if us < 1000.0 { format!("{us:.2} us") } else { format!("{:.2} ms", us / 1000.0) }
}
