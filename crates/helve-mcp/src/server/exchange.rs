//! One running request: its progress, its questions and its log go to the client while it runs, and the client can take it
//! back.
//!
//! Everything that goes out goes through the task that answers the request, so that a transport with several streams knows
//! to which of them it belongs. A client that does not listen holds nothing up: notes that find no room are dropped.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use helve_core::context::ProgressNote;
use helve_core::{BoxFuture, Cancel, ErrorKind, LogLevel, Peer, QuestionKind, ToolError};
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
    ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::levels;

/// So many notes wait to be sent.
const WAITING: usize = 64;
/// How long a client may take to answer a question: a person may have to.
const ANSWER_TIME: Duration = Duration::from_secs(10 * 60);
/// How long the last notes may take before the result is sent without them.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// So many questions may be open in one round.
const MOST_QUESTIONS: usize = 16;

/// What the work of a request gets of its client.
pub(super) struct Line {
    pub(super) cancel: Cancel,
    pub(super) progress: Option<mpsc::Sender<ProgressNote>>,
    pub(super) peer: Arc<dyn Peer>,
}

/// How a question reaches the client.
pub(super) enum Way {
    /// As a request of our own, which is waited for.
    Session,
    /// By ending the request; these are the answers that it brought.
    Rounds(BTreeMap<String, Value>),
}

/// What is left of the questions when the work is done.
#[derive(Default)]
pub(super) struct Left {
    /// What the client has to answer before it comes again.
    pub(super) open: BTreeMap<String, (QuestionKind, Value)>,
    /// The answers so far.
    pub(super) answers: BTreeMap<String, Value>,
    /// A kind of question that was asked although the client takes none.
    pub(super) missing: Option<QuestionKind>,
}

enum Said {
    Asked { kind: QuestionKind, params: Value, answer: oneshot::Sender<Result<Value, ToolError>> },
    Logged { level: LogLevel, logger: Option<String>, data: Value },
}

/// The client as a tool sees it.
struct Client {
    said: mpsc::Sender<Said>,
    takes: Vec<QuestionKind>,
    /// The least grave message that is sent; none for no messages at all.
    least: Option<LogLevel>,
    waits: bool,
    left: Arc<Mutex<Left>>,
}

impl Peer for Client {
    fn takes(&self, kind: QuestionKind) -> bool {
        self.takes.contains(&kind)
    }

    fn ask<'a>(
        &'a self,
        key: &'a str,
        kind: QuestionKind,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            if !self.takes(kind) {
                self.left.lock().unwrap_or_else(PoisonError::into_inner).missing = Some(kind);
                let message = format!("The client takes no questions of the kind '{}'.", method(kind));
                return Err(ToolError::new(ErrorKind::ApprovalRequired, message)
                    .hint("Use a client that declares this capability."));
            }
            if !self.waits {
                return self.ask_by_ending(key, kind, params);
            }
            let (to, answer) = oneshot::channel();
            let gone = || ToolError::new(ErrorKind::Cancelled, "The client is gone.");
            self.said.send(Said::Asked { kind, params, answer: to }).await.map_err(|_| gone())?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        })
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        if self.least.is_some_and(|least| level >= least) {
            let _ = self.said.try_send(Said::Logged { level, logger: logger.map(str::to_owned), data });
        }
    }
}

impl Client {
    fn ask_by_ending(&self, key: &str, kind: QuestionKind, params: Value) -> Result<Value, ToolError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = left.answers.get(key) {
            return Ok(answer.clone());
        }
        if left.open.len() >= MOST_QUESTIONS {
            let message = format!("A call asks at most {MOST_QUESTIONS} questions at once.");
            return Err(ToolError::new(ErrorKind::TooLarge, message));
        }
        left.open.insert(key.to_owned(), (kind, params));
        let message = "The client is asked first; it comes again with the answer.";
        Err(ToolError::new(ErrorKind::ApprovalRequired, message))
    }
}

/// The method of a question.
pub(super) fn method(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Form | QuestionKind::Url => "elicitation/create",
        QuestionKind::Sample => "sampling/createMessage",
        QuestionKind::Roots => "roots/list",
    }
}

/// The kinds of questions that a client takes.
fn takes(capabilities: Option<ClientCapabilities>) -> Vec<QuestionKind> {
    let capabilities = capabilities.unwrap_or_default();
    let mut kinds = Vec::new();
    if let Some(elicitation) = capabilities.elicitation {
        // A client that names neither takes forms, as all did before there was anything else.
        if elicitation.form.is_some() || elicitation.url.is_none() {
            kinds.push(QuestionKind::Form);
        }
        if elicitation.url.is_some() {
            kinds.push(QuestionKind::Url);
        }
    }
    if capabilities.sampling.is_some() {
        kinds.push(QuestionKind::Sample);
    }
    if capabilities.roots.is_some() {
        kinds.push(QuestionKind::Roots);
    }
    kinds
}

/// Runs the work of a request beside all that it has to say to the client meanwhile.
pub(super) async fn converse<T, W: Future<Output = T>>(
    context: &RequestContext<RoleServer>,
    way: Way,
    least: Option<LogLevel>,
    work: impl FnOnce(Line) -> W,
) -> (T, Left) {
    let (handle, cancel) = Cancel::pair();
    let (say, mut said) = mpsc::channel(WAITING);
    let (note, mut notes) = mpsc::channel(WAITING);
    let token = context.meta.get_progress_token();
    let waits = matches!(way, Way::Session);
    let answers = match way {
        Way::Session => BTreeMap::new(),
        Way::Rounds(answers) => answers,
    };
    let left = Arc::new(Mutex::new(Left { answers, ..Left::default() }));
    let client = Client {
        said: say,
        takes: takes(context.client_capabilities()),
        least,
        waits,
        left: Arc::clone(&left),
    };
    let progress = token.is_some().then_some(note);
    let mut work = pin!(work(Line { cancel, progress, peer: Arc::new(client) }));
    let mut reporter = Reporter { context, token, last: None, sending: None };
    let mut answering = FuturesUnordered::new();
    let mut taken_back = false;
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            () = context.ct.cancelled(), if !taken_back => {
                taken_back = true;
                handle.cancel();
            }
            () = reporter.sent() => {}
            Some(note) = notes.recv(), if reporter.is_free() => reporter.report(&note),
            Some(said) = said.recv(), if reporter.is_free() => match said {
                Said::Logged { level, logger, data } => reporter.log(level, logger, data),
                Said::Asked { kind, params, answer } => answering.push(async move {
                    let _ = answer.send(ask(context, kind, params).await);
                }),
            },
            Some(()) = answering.next() => {}
        }
    };
    if !taken_back {
        // What was said before the end is told before it.
        let _ = tokio::time::timeout(LAST_WORDS, async {
            reporter.sent_last().await;
            while let Ok(note) = notes.try_recv() {
                reporter.report(&note);
                reporter.sent_last().await;
            }
            while let Ok(said) = said.try_recv() {
                if let Said::Logged { level, logger, data } = said {
                    reporter.log(level, logger, data);
                    reporter.sent_last().await;
                }
            }
        })
        .await;
    }
    let left = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
    (done, left)
}

/// Asks a client that has a session, and waits for the answer.
async fn ask(
    context: &RequestContext<RoleServer>,
    kind: QuestionKind,
    params: Value,
) -> Result<Value, ToolError> {
    let request = json!({"method": method(kind), "params": params});
    let request: ServerRequest = serde_json::from_value(request)
        .map_err(|error| ToolError::failed(format!("The question does not fit the protocol: {error}.")))?;
    let unanswered = |error: rmcp::ServiceError| {
        let why: String = error.to_string().chars().take(500).collect();
        ToolError::failed(format!("The client did not answer the question: {why}."))
    };
    let options = PeerRequestOptions::with_timeout(ANSWER_TIME);
    let asked = context.peer.send_request_with_option(request, options).await.map_err(unanswered)?;
    let answer = asked.await_response().await.map_err(unanswered)?;
    serde_json::to_value(answer).map_err(|error| ToolError::failed(error.to_string()))
}

/// Sends notifications, one after the other.
struct Reporter<'c> {
    context: &'c RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    /// How far the client was told it is: that only ever grows.
    last: Option<f64>,
    sending: Option<BoxFuture<'c, ()>>,
}

impl Reporter<'_> {
    fn is_free(&self) -> bool {
        self.sending.is_none()
    }

    /// Waits for what is being sent; for ever if nothing is.
    async fn sent(&mut self) {
        match &mut self.sending {
            Some(sending) => sending.await,
            None => std::future::pending().await,
        }
        self.sending = None;
    }

    /// The same, at once if nothing is.
    async fn sent_last(&mut self) {
        if !self.is_free() {
            self.sent().await;
        }
    }

    fn report(&mut self, note: &ProgressNote) {
        let Some(token) = self.token.clone() else { return };
        let next = self.last.map_or(0.0, |last| last + 1.0);
        let progress = match (note.done, self.last) {
            (Some(done), None) => done,
            (Some(done), Some(last)) if done > last => done,
            _ => next,
        };
        self.last = Some(progress);
        let mut param = ProgressNotificationParam::new(token, progress);
        param.total = note.total.filter(|total| *total >= progress);
        param.message = Some(note.message.clone()).filter(|message| !message.is_empty());
        let peer = self.context.peer.clone();
        self.sending = Some(Box::pin(async move {
            let _ = peer.notify_progress(param).await;
        }));
    }

    fn log(&mut self, level: LogLevel, logger: Option<String>, data: Value) {
        let mut param = LoggingMessageNotificationParam::new(levels::theirs(level), data);
        param.logger = logger;
        let peer = self.context.peer.clone();
        self.sending = Some(Box::pin(async move {
            let _ = peer.notify_logging_message(param).await;
        }));
    }
}
