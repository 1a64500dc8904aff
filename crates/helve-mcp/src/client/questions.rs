//! What a server asks of this end: words of a model, a person's answer, the roots. Each only if the owner lets this server
//! ask it, at a rate, of the one who made the call that it belongs to, and as the words of that server ([`shown`]).

mod shown;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve_core::servers::ServerMay;
use helve_core::{Peer, Progress, QuestionKind, ServerCall, ToolError};
use rmcp::model::{ErrorCode, ErrorData, NumberOrString, ProgressToken, RequestId};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::keep::ServerLog;
use super::rate::Bucket;
use super::seat::Session;

/// Questions in a row, and how many a minute after that.
const AT_ONCE: u32 = 10;
const PER_MINUTE: f64 = 10.0;
/// So many notes of progress are kept for calls that are not known yet.
const EARLY: usize = 64;
/// So long after a call of a session what a server says without naming a call may still be about that one.
const LINGERS: Duration = Duration::from_secs(5);

/// A call under way.
#[derive(Clone)]
pub(crate) struct Underway {
    pub(crate) progress: Progress,
    pub(crate) peer: Option<Arc<dyn Peer>>,
    pub(crate) asking: Arc<Asking>,
    pub(crate) session: Session,
}

impl Underway {
    pub(crate) fn of(call: &ServerCall, session: Session) -> Underway {
        let (progress, peer) = (call.progress.clone(), call.peer.clone());
        Underway { progress, peer, asking: Arc::default(), session }
    }

    /// The key of its next question. Questions are counted, so that a call that runs again asks under the same keys.
    pub(crate) fn next_key(&self) -> String {
        let mut waited = self.asking.waited();
        waited.asked += 1;
        format!("question-{}", waited.asked)
    }
}

/// How long a call has waited for answers to the server's questions. That time is not the server's.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    waited: Mutex<Waited>,
    /// Wakes who asks on behalf of a call that is over.
    ends: Notify,
}

#[derive(Debug, Default)]
struct Waited {
    before: Duration,
    asked: u32,
    open: u32,
    since: Option<Instant>,
    /// The call is over: what is answered now is nobody's.
    is_over: bool,
}

impl Asking {
    fn waited(&self) -> MutexGuard<'_, Waited> {
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call is over.
    pub(crate) fn end(&self) {
        self.waited().is_over = true;
        self.ends.notify_waiters();
    }

    /// Waits until the call is over.
    async fn over(&self) {
        loop {
            let ends = self.ends.notified();
            if self.waited().is_over {
                return;
            }
            ends.await;
        }
    }

    /// A question is open until what this gives is dropped.
    pub(crate) fn ask(&self) -> Open<'_> {
        let mut waited = self.waited();
        waited.open += 1;
        waited.since.get_or_insert_with(Instant::now);
        Open(self)
    }

    /// The time so far.
    pub(crate) fn so_far(&self) -> Duration {
        let waited = self.waited();
        waited.before + waited.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A question that is open.
pub(crate) struct Open<'a>(&'a Asking);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut waited = self.0.waited();
        waited.open -= 1;
        if waited.open == 0
            && let Some(since) = waited.since.take()
        {
            waited.before += since.elapsed();
        }
    }
}

/// The calls under way at one connection, with what a message of the server can name them with. They are few: each client's calls
/// are bounded by its workers.
#[derive(Default)]
pub(crate) struct Calls {
    named: Vec<Named>,
    /// What was told under numbers of which no call is known yet, the oldest first.
    early: Vec<Early>,
    /// The sessions whose calls are over, and when the last of each was.
    over: Vec<(Session, Instant)>,
}

/// How far a call is that is not written down yet: the loop sends a request before who makes it is told its number.
struct Early {
    number: i64,
    done: f64,
    total: Option<f64>,
    message: String,
}

struct Named {
    token: ProgressToken,
    request: RequestId,
    call: Underway,
}

impl Calls {
    pub(crate) fn begin(&mut self, token: ProgressToken, request: RequestId, call: Underway) {
        if let NumberOrString::Number(number) = token.0 {
            for early in self.early.extract_if(.., |early| early.number == number) {
                call.progress.step(early.done, early.total, early.message);
            }
        }
        self.named.push(Named { token, request, call });
    }

    pub(crate) fn end(&mut self, request: &RequestId) {
        let Some(at) = self.named.iter().position(|named| named.request == *request) else { return };
        let (session, now) = (self.named.remove(at).call.session, Instant::now());
        match self.over.iter_mut().find(|(own, _)| *own == session) {
            Some((_, last)) => *last = now,
            None => {
                self.over.retain(|(_, last)| now.duration_since(*last) < LINGERS);
                self.over.push((session, now));
            }
        }
    }

    /// Tells a call how far it is, by its token.
    pub(crate) fn tell(&mut self, token: &ProgressToken, done: f64, total: Option<f64>, message: String) {
        if let Some(named) = self.named.iter().find(|named| named.token == *token) {
            named.call.progress.step(done, total, message);
            return;
        }
        // Tokens of ours are numbers. One of a call that is over is pushed out by others.
        if let NumberOrString::Number(number) = token.0 {
            if self.early.len() == EARLY {
                self.early.remove(0);
            }
            self.early.push(Early { number, done, total, message });
        }
    }

    /// The call that a question belongs to: the one that is named, or the only one. Where several calls of somebody are under
    /// way and none is named, nobody is asked: one caller's question is not another's, nor is one call's time.
    pub(crate) fn of_question(&self, named: Option<&RequestId>) -> Option<Underway> {
        match named {
            Some(request) => {
                let of_request = self.named.iter().find(|named| named.request == *request);
                of_request.map(|named| named.call.clone())
            }
            None => self.of_all().filter(|call| call.peer.is_none() || self.named.len() == 1),
        }
    }

    /// A call of the one who makes all of them, and who has made all of those that a server may still speak of.
    pub(crate) fn of_all(&self) -> Option<Underway> {
        let mut calls = self.named.iter().map(|named| &named.call);
        let first = calls.next()?;
        let same = |other: &Underway| match (&first.peer, &other.peer) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => true,
            _ => false,
        };
        let is_alone = calls.all(|call| call.session == first.session && same(call));
        let speaks_of =
            |(session, last): &(Session, Instant)| *session != first.session && last.elapsed() < LINGERS;
        (is_alone && !self.over.iter().any(speaks_of)).then(|| first.clone())
    }
}

/// Answers the questions of one server.
pub(crate) struct Questions {
    pub(crate) server: String,
    pub(crate) may: ServerMay,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) log: Arc<dyn ServerLog>,
    rate: Mutex<Bucket>,
}

impl Questions {
    pub(crate) fn new(
        server: String,
        may: ServerMay,
        workspace: Option<PathBuf>,
        log: Arc<dyn ServerLog>,
    ) -> Questions {
        Questions { server, may, workspace, log, rate: Mutex::new(Bucket::new(AT_ONCE, PER_MINUTE / 60.0)) }
    }

    /// The answer to one question of a call.
    pub(crate) async fn answer(
        &self,
        key: &str,
        kind: QuestionKind,
        params: Value,
        call: Option<&Underway>,
    ) -> Result<Value, ErrorData> {
        let (allowed, method, key_of_policy) = match kind {
            QuestionKind::Sample => (self.may.sample, "sampling/createMessage", "may_sample"),
            QuestionKind::Roots => (self.may.roots, "roots/list", "may_read_roots"),
            QuestionKind::Form | QuestionKind::Url => (self.may.elicit, "elicitation/create", "may_elicit"),
        };
        if !allowed {
            self.note(&format!("{method} was refused: the owner has not set {key_of_policy}"));
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("{method}: not allowed by the owner of this client"),
                None,
            ));
        }
        let key = format!("mcp/{}/{key}", self.server);
        let peer = call.and_then(|call| call.peer.as_ref());
        // An answer that the call brings was counted when it was asked for.
        let is_new = peer.is_none_or(|peer| !peer.has_answer(&key));
        if is_new && !self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(1) {
            self.note(&format!("{method} was refused: too many questions"));
            return Err(ErrorData::invalid_request(
                format!("{method}: too many questions; ask less often"),
                None,
            ));
        }
        if kind == QuestionKind::Roots {
            return Ok(self.roots());
        }
        let Some(call) = call else {
            self.note(&format!("{method} was refused: it belongs to no call"));
            return Err(ErrorData::invalid_request(format!("{method}: belongs to no call under way"), None));
        };
        let Some(peer) = peer.filter(|peer| peer.takes(kind)) else {
            self.note(&format!("{method} was refused: the caller takes no such questions"));
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("{method}: nobody is there to answer"),
                None,
            ));
        };
        let params = shown::shown(&self.server, kind, params).map_err(|why| {
            self.note(&format!("{method} was refused: {why}"));
            ErrorData::invalid_params(format!("{method}: {why}"), None)
        })?;
        let _open = call.asking.ask();
        tokio::select! {
            biased;
            () = call.asking.over() => {
                Err(ErrorData::invalid_request(format!("{method}: the call is over"), None))
            }
            answer = peer.ask(&key, kind, params) => answer.map_err(|error| unanswered(method, &error)),
        }
    }

    /// The workspace as the one root.
    fn roots(&self) -> Value {
        let roots: Vec<Value> = self
            .workspace
            .iter()
            .filter_map(|path| url::Url::from_file_path(path).ok())
            .map(|url| json!({"uri": url.as_str(), "name": "workspace"}))
            .collect();
        json!({ "roots": roots })
    }

    fn note(&self, text: &str) {
        self.log.event(&self.server, "refused", text);
    }
}

fn unanswered(method: &str, error: &ToolError) -> ErrorData {
    ErrorData::internal_error(format!("{method}: {}", error.message), None)
}

#[cfg(test)]
mod tests;
