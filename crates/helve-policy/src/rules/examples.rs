//! The examples of a rule: commands that it has to decide as they say, checked when it is loaded.
//!
//! Each rule is held against its examples alone, wherever and until whenever it holds, so that no other rule can break
//! them. A list named after the rule's own verdict holds commands that it is about; the other lists hold commands that
//! it leaves alone.

use std::path::Path;
use std::time::SystemTime;

use helve_core::Verdict;
use helve_shell::analysis::Setting;
use helve_shell::tree::Dialect;

use super::rule::{EXEC, Rule, Scope};
use super::{Rules, Subject};

/// Where the examples are taken to run.
const WORKSPACE: &str = "/workspace";

/// What is wrong with the examples of a rule.
pub(super) fn problems(rule: &Rule, home: Option<&Path>) -> Vec<String> {
    let examples = &rule.examples;
    let lists = [
        ("allows", Verdict::Allow, &examples.allows),
        ("asks", Verdict::Ask, &examples.asks),
        ("denies", Verdict::Deny, &examples.denies),
    ];
    if lists.iter().all(|(.., commands)| commands.is_empty()) {
        return Vec::new();
    }
    let alone = Alone::new(rule);
    let mut problems = Vec::new();
    for (key, wanted, commands) in lists {
        for command in commands {
            if let Some(problem) = alone.judge(command, wanted, home) {
                problems.push(format!(
                    "`{}` in {}: `{key}` has {command:?}, but {problem}",
                    rule.name, rule.origin
                ));
            }
        }
    }
    problems
}

/// A rule by itself.
struct Alone {
    verdict: Verdict,
    tool: String,
    rules: Rules,
}

impl Alone {
    fn new(rule: &Rule) -> Self {
        let tool = rule.matchers.tools.as_ref().and_then(|tools| tools.first()).map_or(EXEC, String::as_str);
        let rule = Rule { scope: Scope::default(), ..rule.clone() };
        // Without an allowance nothing goes ahead, so that a chain is allowed only where every part is.
        let otherwise = if rule.lists_commands() { Verdict::Ask } else { Verdict::Allow };
        Alone { verdict: rule.verdict, tool: tool.to_owned(), rules: Rules::new(vec![rule], Some(otherwise)) }
    }

    /// What is wrong with one example.
    fn judge(&self, command: &str, wanted: Verdict, home: Option<&Path>) -> Option<String> {
        let workspace = Path::new(WORKSPACE);
        let setting = Setting { dialect: Dialect::Bash, directory: workspace, workspace, home };
        let analysis = helve_shell::analyze(command, &setting);
        let findings = self.rules.judge(&Subject {
            tool: &self.tool,
            text: command,
            analysis: &analysis,
            workspace,
            session: None,
            now: SystemTime::UNIX_EPOCH,
            contained: true,
        });
        let own = findings.iter().any(|finding| finding.origin.is_some());
        let strictest = findings.strictest();
        let is_about = match self.verdict {
            Verdict::Allow => own && strictest.is_none_or(|finding| finding.verdict == Verdict::Allow),
            verdict => strictest.is_some_and(|finding| finding.verdict == verdict),
        };
        match (self.verdict, wanted) {
            (verdict, wanted) if verdict == wanted => (!is_about).then(|| match strictest {
                Some(finding) if finding.verdict > Verdict::Allow => {
                    format!("it does not {}: {}", said(verdict), finding.reason)
                }
                _ => format!("it does not {}: the rule is not about this command", said(verdict)),
            }),
            // A rule that allows only leaves alone what it does not allow; one that asks or denies leaves the rest.
            (Verdict::Allow, _) | (_, Verdict::Allow) => {
                is_about.then(|| format!("the rule does {} it", said(self.verdict)))
            }
            (verdict, _) => Some(format!(
                "a rule that does {} cannot say so; move it to a rule of that verdict, or to `allows` if this rule is not \
                 about it",
                said(verdict)
            )),
        }
    }
}

fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask about",
        Verdict::Deny => "deny",
    }
}
