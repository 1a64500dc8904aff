//! `--approve`: what the owner agrees to beforehand, so that nobody has to be there. Each rule is a command pattern or the name
//! of a tool; a call is agreed to where every part of it that asks is covered. A command that can be allowed only once at a
//! time is never covered, and nothing here lifts a refusal: only questions come here.

use std::path::Path;
use std::sync::Arc;

use helve::{Answer, Approval, ApprovalRequest, Approver, BoxFuture};

use crate::failure::Failure;

/// Under this name answers are recorded.
const NAME: &str = "--approve";
/// The largest file of rules.
const FILE_BYTES: u64 = 1 << 20;
/// How a rule about a tool begins.
const TOOL: &str = "tool:";
/// The rule that asks because of who wrote what led to a call.
const TAINT: &str = "taint";

/// The rules, and who is asked where none says yes.
pub(super) struct Rules {
    patterns: Vec<String>,
    next: Option<Arc<dyn Approver>>,
}

/// Reads what stands behind `--approve`: a pattern, `tool:NAME`, or `@FILE` with one a line. None where there is neither a
/// rule nor anybody to ask.
pub(super) fn approver(
    words: &[String],
    next: Option<Arc<dyn Approver>>,
) -> Result<Option<Arc<dyn Approver>>, Failure> {
    let mut patterns = Vec::new();
    for word in words {
        match word.strip_prefix('@') {
            None => patterns.push(word.trim().to_owned()),
            Some(file) => {
                let text = read(Path::new(file))?;
                let lines = text.lines().map(str::trim);
                patterns.extend(
                    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned),
                );
            }
        }
    }
    if patterns.iter().any(|pattern| pattern.is_empty() || pattern == TOOL) {
        return Err(Failure::usage(
            "--approve takes a command pattern such as 'git push origin *', tool:NAME, or @FILE with one a line",
        ));
    }
    if patterns.is_empty() {
        return Ok(next);
    }
    Ok(Some(Arc::new(Rules { patterns, next })))
}

fn read(file: &Path) -> Result<String, Failure> {
    use std::io::Read as _;
    let wrong = |error: std::io::Error| {
        Failure::usage(format!("--approve: {} cannot be read: {error}", file.display()))
    };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(wrong)?;
    opened.take(FILE_BYTES).read_to_string(&mut text).map_err(wrong)?;
    Ok(text)
}

impl Rules {
    fn covers(&self, request: &ApprovalRequest) -> bool {
        let by = |part: usize, pattern: &String| match pattern.strip_prefix(TOOL) {
            Some(tool) => {
                let part = &request.parts[part];
                // Words of others led to it: nobody could have agreed to that beforehand.
                tool == request.tool && part.run.is_none() && part.rule != TAINT
            }
            None => request.accepts(part, pattern).is_ok(),
        };
        !request.parts.is_empty()
            && (0..request.parts.len()).all(|part| self.patterns.iter().any(|pattern| by(part, pattern)))
    }
}

impl Approver for Rules {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let answer = self.ask_many(std::slice::from_ref(request)).await.pop();
            answer.unwrap_or_else(|| Answer::new(NAME, Approval::Nobody))
        })
    }

    fn ask_many<'a>(&'a self, requests: &'a [ApprovalRequest]) -> BoxFuture<'a, Vec<Answer>> {
        Box::pin(async move {
            let covered: Vec<bool> = requests.iter().map(|request| self.covers(request)).collect();
            let open = requests.iter().zip(&covered).filter(|(_, covered)| !**covered);
            let open: Vec<ApprovalRequest> = open.map(|(request, _)| request.clone()).collect();
            let mut others = match &self.next {
                Some(next) if !open.is_empty() => next.ask_many(&open).await,
                _ => Vec::new(),
            }
            .into_iter();
            let answer = |covered: bool| match covered {
                true => Answer::new(NAME, Approval::Once),
                false => others.next().unwrap_or_else(|| Answer::new(NAME, Approval::Nobody)),
            };
            covered.into_iter().map(answer).collect()
        })
    }
}
