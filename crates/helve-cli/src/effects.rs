//! What a command does, as people read it: one line a kind of effect, those that matter most first.

use helve::EffectSummary;

/// Names and values, in order. Each value may hold text from outside.
pub(crate) fn lines<'e>(effects: &'e EffectSummary, command: &str) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let lists: [(&'static str, &[String]); 10] = [
        ("programs", &effects.programs),
        ("machine", &effects.machine),
        ("privileges", &effects.privilege),
        ("deletes", &effects.deletes),
        ("leaves behind", &effects.persistence),
        ("secrets", &effects.secrets),
        ("writes", &effects.writes),
        ("executes", &effects.executes),
        ("network", &effects.hosts),
        ("reads", &effects.reads),
    ];
    for (name, list) in lists {
        if !list.is_empty() {
            let shown = |entry: &'e String| match entry.as_str() {
                "?" | "?/**" => "(shows only when it runs)",
                known => known,
            };
            let entries: Vec<&str> = list.iter().map(shown).collect();
            lines.push((name, entries.join(", ")));
        }
    }
    for part in &effects.opaque {
        let about = part
            .span
            .and_then(|(from, to)| command.get(from..to))
            .filter(|text| !text.is_empty() && text.len() < command.len());
        let value = match about {
            Some(text) => format!("{}: {text}", part.reason),
            None => part.reason.clone(),
        };
        lines.push(("cannot tell", value));
    }
    if effects.more > 0 {
        lines.push(("and", format!("{} more that are not listed", effects.more)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve::OpaquePart;
    use pretty_assertions::assert_eq;

    #[test]
    fn every_list_has_its_line() {
        let list = |text: &str| vec![text.to_owned(), "?".to_owned()];
        let effects = EffectSummary {
            programs: list("rm"),
            reads: list("/a"),
            writes: list("/b"),
            deletes: list("/c/**"),
            executes: list("/d"),
            hosts: list("example.org"),
            privilege: list("sudo"),
            persistence: list("/e"),
            secrets: list("/f"),
            machine: list("stops it"),
            opaque: vec![
                OpaquePart { reason: "unknown".into(), span: Some((3, 5)) },
                OpaquePart { reason: "whole".into(), span: Some((0, 5)) },
                OpaquePart { reason: "taken out".into(), span: None },
            ],
            more: 3,
        };
        let lines = lines(&effects, "a; $x");
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "programs",
                "machine",
                "privileges",
                "deletes",
                "leaves behind",
                "secrets",
                "writes",
                "executes",
                "network",
                "reads",
                "cannot tell",
                "cannot tell",
                "cannot tell",
                "and"
            ]
        );
        assert_eq!(lines[0].1, "rm, (shows only when it runs)");
        let opaque: Vec<&str> = lines[10..13].iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(opaque, ["unknown: $x", "whole", "taken out"]);
        assert_eq!(super::lines(&EffectSummary::default(), ""), []);
    }
}
