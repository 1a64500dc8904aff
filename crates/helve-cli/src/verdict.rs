//! A verdict as people read it.

use anstyle::Style;
use helve::Verdict;

use crate::ui;

/// As rules spell it.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

/// The style that tells them apart.
pub(crate) fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Allow => ui::GOOD,
        Verdict::Ask => ui::CAREFUL,
        Verdict::Deny => ui::BAD,
    }
}

/// The word in its style, filled up with spaces to the longest of them.
pub(crate) fn column(verdict: Verdict) -> String {
    ui::styled(style(verdict), &format!("{:5}", word(verdict)))
}
