//! One running request: its progress, its questions and its log go to the client while it runs, and the client can take it
//! back.
//!
//! Everything that goes out goes through the task that answers the request, so that a transport with several streams knows
//! to which of them it belongs; only calls that were sent on two streams have nobody who answers for them (`aside`). A client
//! that does not listen holds nothing up: notes that find no room are dropped.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use futures::task::AtomicWaker;
use helve_core::context::ProgressNote;
use helve_core::{BoxFuture, Cancel, CancelHandle, ErrorKind, LogLevel, Peer, QuestionKind, ToolError};
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ElicitationCapability, LoggingMessageNotification, LoggingMessageNotificationParam,
    ProgressToken, RequestId, RootsCapabilities, SamplingCapability, ServerRequest,
};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::levels;

use super::Line;
use super::progress::Steps;

/// So many notes wait to be sent.
pub(super) const WAITING: usize = 64;
/// How long a client may take to answer a question: a person may have to.
const ANSWER_TIME: Duration = Duration::from_secs(10 * 60);
/// How long the last notes may take before the result is sent without them.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// So many questions may be open in one round.
const MOST_QUESTIONS: usize = 16;

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

/// The kinds of questions that a client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Takes {
    form: bool,
    url: bool,
    sample: bool,
    roots: bool,
}

impl Takes {
    pub(super) fn of(capabilities: &ClientCapabilities) -> Takes {
        let elicitation = capabilities.elicitation.as_ref();
        Takes {
            // A client that names neither takes forms, as all did before there was anything else.
            form: elicitation.is_some_and(|asked| asked.form.is_some() || asked.url.is_none()),
            url: elicitation.is_some_and(|asked| asked.url.is_some()),
            sample: capabilities.sampling.is_some(),
            roots: capabilities.roots.is_some(),
        }
    }

    pub(super) fn takes(self, kind: QuestionKind) -> bool {
        match kind {
            QuestionKind::Form => self.form,
            QuestionKind::Url => self.url,
            QuestionKind::Sample => self.sample,
            QuestionKind::Roots => self.roots,
        }
    }
}

/// The request that a log message belongs to, for a transport with several streams.
#[derive(Clone)]
pub(super) struct OfRequest(pub(super) RequestId);

/// The client of a request.
pub(super) struct With<'c> {
    pub(super) peer: &'c rmcp::Peer<RoleServer>,
    /// The id of the request, where it can have a stream of its own.
    pub(super) request: Option<RequestId>,
    /// Under which its progress is told; none if the client did not ask for it.
    pub(super) token: Option<ProgressToken>,
    pub(super) takes: Takes,
    /// The least grave message that is sent; none for no messages at all.
    pub(super) least: Option<LogLevel>,
}

/// What the work has said and the client has not heard yet. Most requests are done without a word, so that nothing is made
/// beforehand.
#[derive(Default)]
struct Talk {
    kept: Mutex<Kept>,
    waits: AtomicWaker,
}

#[derive(Default)]
struct Kept {
    said: VecDeque<Said>,
    left: Left,
    /// Nobody listens any more.
    is_over: bool,
}

impl Talk {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, said: Said) {
        let mut kept = self.kept();
        // Who asks waits for the answer, so that there are never more questions than somebody holds.
        let has_room = matches!(said, Said::Asked { .. }) || kept.said.len() < WAITING;
        if has_room && !kept.is_over {
            kept.said.push_back(said);
            drop(kept);
            self.waits.wake();
        }
    }

    /// The next that was said; waits for it.
    async fn heard(&self) -> Said {
        std::future::poll_fn(|poller| {
            self.waits.register(poller.waker());
            self.kept().said.pop_front().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The same without waiting.
    fn left_to_say(&self) -> Option<Said> {
        self.kept().said.pop_front()
    }

    fn has_more(&self) -> bool {
        !self.kept().said.is_empty()
    }

    fn end(&self) -> Left {
        let mut kept = self.kept();
        kept.is_over = true;
        // Whoever still waits for an answer hears that there is none.
        kept.said.clear();
        std::mem::take(&mut kept.left)
    }
}

/// Ends a talk that nobody listens to any more, however that came.
struct Listening(Arc<Client>);

impl Listening {
    fn talk(&self) -> &Talk {
        &self.0.talk
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.talk().end();
    }
}

/// The client as a tool sees it.
struct Client {
    talk: Talk,
    takes: Takes,
    least: Option<LogLevel>,
    waits: bool,
}

impl Peer for Client {
    fn takes(&self, kind: QuestionKind) -> bool {
        self.takes.takes(kind)
    }

    fn ask<'a>(
        &'a self,
        key: &'a str,
        kind: QuestionKind,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            if !self.takes(kind) {
                self.talk.kept().left.missing = Some(kind);
                return Err(not_taken(kind));
            }
            if !self.waits {
                return self.ask_by_ending(key, kind, params);
            }
            let (to, answer) = oneshot::channel();
            self.talk.say(Said::Asked { kind, params, answer: to });
            let gone = |_| Err(ToolError::new(ErrorKind::Cancelled, "The client is gone."));
            answer.await.unwrap_or_else(gone)
        })
    }

    fn has_answer(&self, key: &str) -> bool {
        !self.waits && self.talk.kept().left.answers.contains_key(key)
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        if self.least.is_some_and(|least| level >= least) {
            self.talk.say(Said::Logged { level, logger: logger.map(str::to_owned), data });
        }
    }
}

impl Client {
    fn ask_by_ending(&self, key: &str, kind: QuestionKind, params: Value) -> Result<Value, ToolError> {
        let left = &mut self.talk.kept().left;
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

pub(super) fn not_taken(kind: QuestionKind) -> ToolError {
    let message = format!("The client takes no questions of the kind '{}'.", method(kind));
    ToolError::new(ErrorKind::ApprovalRequired, message).hint("Use a client that declares this capability.")
}

/// The method of a question.
pub(super) fn method(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Form | QuestionKind::Url => "elicitation/create",
        QuestionKind::Sample => "sampling/createMessage",
        QuestionKind::Roots => "roots/list",
    }
}

/// The capability behind a kind of question.
pub(super) fn capability(kind: QuestionKind) -> ClientCapabilities {
    let mut needed = ClientCapabilities::default();
    match kind {
        QuestionKind::Form | QuestionKind::Url => needed.elicitation = Some(ElicitationCapability::default()),
        QuestionKind::Sample => needed.sampling = Some(SamplingCapability::default()),
        QuestionKind::Roots => needed.roots = Some(RootsCapabilities::default()),
    }
    needed
}

/// Runs the work of a request beside all that it has to say to the client meanwhile. `cancel` takes the work back, and
/// `taken_back` is when the client does. The work is begun at once, so that nothing of what it came with has to be kept until
/// somebody waits for it.
pub(super) fn converse<'c, T, W: Future<Output = T>>(
    with: With<'c>,
    way: Way,
    (handle, cancel): (CancelHandle, Cancel),
    taken_back: impl Future<Output = ()> + 'c,
    work: impl FnOnce(Line) -> W,
) -> impl Future<Output = (T, Left)> {
    let With { peer, request, token, takes, least } = with;
    let waits = matches!(way, Way::Session);
    let mut talk = Talk::default();
    if let (Way::Rounds(answers), Ok(kept)) = (way, talk.kept.get_mut()) {
        kept.left.answers = answers;
    }
    let client = Listening(Arc::new(Client { talk, takes, least, waits }));
    // Only who listens to progress pays for a way to tell it.
    let (progress, notes) = match &token {
        Some(_) => {
            let (note, notes) = mpsc::channel(WAITING);
            (Some(note), Some(notes))
        }
        None => (None, None),
    };
    let work = work(Line { cancel: cancel.clone(), progress, peer: Arc::clone(&client.0) as Arc<dyn Peer> });
    async move {
        let (mut work, mut taken_back, mut notes) = (pin!(work), pin!(taken_back), notes);
        let mut reporter = Reporter { peer, request, steps: token.map(Steps::new), sending: None };
        // Few requests ask anything.
        let mut answering: Option<FuturesUnordered<BoxFuture<'_, ()>>> = None;
        let done = loop {
            tokio::select! {
                // Most work is done at the first look.
                biased;
                done = &mut work => break done,
                () = &mut taken_back, if !cancel.is_cancelled() => handle.cancel(),
                () = reporter.sent() => {}
                Some(note) = next_note(&mut notes), if reporter.is_free() => reporter.report(note),
                said = client.talk().heard(), if reporter.is_free() => match said {
                    Said::Logged { level, logger, data } => reporter.log(level, logger, data),
                    Said::Asked { kind, params, answer } => {
                        answering.get_or_insert_default().push(Box::pin(async move {
                            let _ = answer.send(ask(peer, kind, params).await);
                        }));
                    }
                },
                Some(()) = next_answer(&mut answering) => {}
            }
        };
        let has_last_words = !reporter.is_free()
            || notes.as_ref().is_some_and(|notes| !notes.is_empty())
            || client.talk().has_more();
        if has_last_words && !cancel.is_cancelled() {
            // What was said before the end is told before it. Boxed, as few requests need it.
            let last_words = Box::pin(async {
                reporter.sent_last().await;
                while let Some(note) = notes.as_mut().and_then(|notes| notes.try_recv().ok()) {
                    reporter.report(note);
                    reporter.sent_last().await;
                }
                while let Some(said) = client.talk().left_to_say() {
                    if let Said::Logged { level, logger, data } = said {
                        reporter.log(level, logger, data);
                        reporter.sent_last().await;
                    }
                }
            });
            let _ = Box::pin(tokio::time::timeout(LAST_WORDS, last_words)).await;
        }
        (done, client.talk().end())
    }
}

/// The next note of progress; waits for it.
async fn next_note(notes: &mut Option<mpsc::Receiver<ProgressNote>>) -> Option<ProgressNote> {
    match notes {
        Some(notes) => notes.recv().await,
        None => None,
    }
}

/// The next question that is answered; waits for it.
async fn next_answer(answering: &mut Option<FuturesUnordered<BoxFuture<'_, ()>>>) -> Option<()> {
    match answering {
        Some(answering) => answering.next().await,
        None => None,
    }
}

/// Asks a client that has a session, and waits for the answer.
pub(super) async fn ask(
    peer: &rmcp::Peer<RoleServer>,
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
    let asked = peer.send_request_with_option(request, options).await.map_err(unanswered)?;
    let answer = asked.await_response().await.map_err(unanswered)?;
    serde_json::to_value(answer).map_err(|error| ToolError::failed(error.to_string()))
}

/// What a client is told of something that was logged.
pub(super) fn message(
    level: LogLevel,
    logger: Option<String>,
    data: Value,
) -> LoggingMessageNotificationParam {
    let mut param = LoggingMessageNotificationParam::new(levels::theirs(level), data);
    param.logger = logger;
    param
}

/// Sends notifications, one after the other.
struct Reporter<'c> {
    peer: &'c rmcp::Peer<RoleServer>,
    request: Option<RequestId>,
    steps: Option<Steps>,
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

    fn report(&mut self, note: ProgressNote) {
        let Some(param) = self.steps.as_mut().and_then(|steps| steps.next(note)) else { return };
        let peer = self.peer;
        self.sending = Some(Box::pin(async move {
            let _ = peer.notify_progress(param).await;
        }));
    }

    fn log(&mut self, level: LogLevel, logger: Option<String>, data: Value) {
        let mut log = LoggingMessageNotification::new(message(level, logger, data));
        if let Some(request) = &self.request {
            log.extensions.insert(OfRequest(request.clone()));
        }
        let peer = self.peer;
        self.sending = Some(Box::pin(async move {
            let _ = peer.send_notification(log.into()).await;
        }));
    }
}
