//! What is shown, kept or recorded of a call: no known secrets.

use helve_core::Decision;
use serde_json::Value;

/// How arguments and texts are shown: without secrets.
pub(crate) struct Shown<'a> {
    pub(crate) args: &'a dyn Fn(&Value) -> Value,
    pub(crate) text: &'a dyn Fn(&str) -> String,
}

impl Shown<'_> {
    /// A sentence or a grant; none if it holds a secret in a form that cannot be taken out of it, such as a regular
    /// expression with escapes.
    pub(super) fn cleaned(&self, text: &str) -> Option<String> {
        let text = (self.text)(text);
        let plain = text.replace('\\', "");
        (plain.len() == text.len() || (self.text)(&plain) == plain).then_some(text)
    }

    /// A decision; `same` says whether its places are places in what is shown.
    pub(super) fn clean(&self, decision: &mut Decision, same: bool) {
        for text in [&mut decision.reason, &mut decision.grant] {
            // Where a text was cut, half a secret may stand at its end.
            let whole = text.take().filter(|text| same || !text.ends_with('…'));
            *text = whole.and_then(|text| self.cleaned(&text));
        }
        decision.span = decision.span.filter(|_| same);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_secret_behind_escapes_is_not_shown() {
        let text = |text: &str| text.replace("hunter-2", "[REDACTED]");
        let shown = Shown { args: &Value::clone, text: &text };
        let mut decision = Decision::ask("r", "it says hunter-2").at((0, 3)).grant(r#"a = ["x hunter\\-2"]"#);
        shown.clean(&mut decision, true);
        let reason = Some("it says [REDACTED]".to_owned());
        assert_eq!(decision, Decision { reason, ..Decision::ask("r", "").at((0, 3)) });
        shown.clean(&mut decision, false);
        assert_eq!(decision.span, None);
        let mut cut = Decision::ask("r", "it says hunt…");
        shown.clean(&mut cut, false);
        assert_eq!(cut.reason, None);
        assert_eq!(shown.cleaned(r"a\-b").as_deref(), Some(r"a\-b"));
    }
}
