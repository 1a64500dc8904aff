//! The straight way in: a call that the transport has read goes to the client's host, and its answer to the way out, past the
//! protocol's loop. Calls that are done at once, or sent to a server, are taken together.

use std::sync::{Arc, Mutex, OnceLock};
use std::task::Context;

use helve_core::{BoxFuture, Call, CallResult, Cancel, CancelHandle, ErrorKind};
use rmcp::model::{ErrorData, Extensions, NumberOrString, ProgressToken, RequestId};
use rmcp::{Peer, RoleServer};
use serde_json::Value;

use super::aside::Aside;
use super::exchange::{self, Takes, Way, converse};
use super::face::{Face, Served, lock, plain};
use super::output::Outbox;
use super::progress::Notes;
use super::straight::{self, Asked};
use super::{AtOnce, Line, Stand, Taken, shown};

/// The straight way in, for a client that has introduced itself and has a session.
pub(super) struct Door {
    face: Arc<Face>,
    peer: Peer<RoleServer>,
    /// What the client calls itself.
    client: String,
    takes: Takes,
    /// The client, for calls that were sent.
    aside: Arc<Aside>,
    /// What takes calls together, once the first has come.
    at_once: OnceLock<Option<Together>>,
}

/// What takes calls together, and the host that it comes from.
struct Together {
    served: Arc<Served>,
    calls: Mutex<Box<dyn AtOnce>>,
}

/// A call that was sent.
pub(super) struct Sent {
    pub(super) id: RequestId,
    declared: bool,
    number: u64,
    /// How far it is, for a client that wants to hear that.
    notes: Option<Notes>,
}

/// A call that ran by itself, and its answer.
pub(super) struct Answered {
    pub(super) id: RequestId,
    /// Which of the calls of this id it is.
    pub(super) serial: u64,
    answer: Answer,
}

impl Answered {
    pub(super) fn write<W>(self, outbox: &Outbox<W>) {
        outbox.put(|out| write(out, &self.id, self.answer));
    }
}

/// A call that was taken with others and has to wait.
pub(super) struct Waiting {
    pub(super) id: RequestId,
    declared: bool,
    /// Under which the client wants to hear of its progress.
    token: Option<ProgressToken>,
    go_on: Box<dyn FnOnce(Line) -> BoxFuture<'static, Box<CallResult>> + Send>,
}

impl Door {
    /// None for a client that says with each request who it is.
    pub(super) fn new(face: Arc<Face>, peer: &Peer<RoleServer>) -> Option<Door> {
        let info = peer.peer_info()?;
        let (client, takes) = (plain(&info.client_info.name), Takes::of(&info.capabilities));
        let aside = Arc::new(Aside::new(Arc::clone(&face), peer.clone(), takes));
        Some(Door { face, peer: peer.clone(), client, takes, aside, at_once: OnceLock::new() })
    }

    /// Whether a call is taken with others.
    pub(super) fn is_at_once(&self, asked: &Asked) -> bool {
        self.together().is_some_and(|together| lock(&together.calls).takes(&asked.tool))
    }

    fn together(&self) -> Option<&Together> {
        let open = || {
            let served = self.face.served(&Extensions::new(), false).ok()?;
            let aside = Arc::clone(&self.aside) as Arc<dyn helve_core::Peer>;
            let calls = Mutex::new(served.host.at_once(&self.client, aside)?);
            Some(Together { served, calls })
        };
        self.at_once.get_or_init(open).as_ref()
    }

    /// Runs calls that are taken together and writes the answers of those that are done; gives back those that were sent, and
    /// those that have to wait.
    pub(super) fn answer_all<W>(
        &self,
        asked: impl ExactSizeIterator<Item = Asked>,
        outbox: &Outbox<W>,
    ) -> (Vec<Sent>, Vec<Waiting>) {
        let Some(Together { served, calls }) = self.together() else { return Default::default() };
        let listing = served.listing();
        let mut of = Vec::with_capacity(asked.len());
        let call = |Asked { id, tool, args, token }| {
            let (progress, notes) = token.clone().map(Notes::pair).unzip();
            of.push((id.clone(), listing.declares(&tool), token, notes));
            let call = Call { id: Some(value_of(&id)), ..Call::new(tool, Value::Object(args)) };
            Taken { call, progress }
        };
        let mut stands = lock(calls).calls(asked.map(call).collect()).into_iter();
        let (mut answers, mut sent, mut waiting) = (Vec::with_capacity(of.len()), Vec::new(), Vec::new());
        for (id, declared, token, notes) in of {
            match stands.next() {
                Some(Stand::Done(result)) => answers.push((id, known(result, declared))),
                Some(Stand::Sent(number)) => sent.push(Sent { id, declared, number, notes }),
                Some(Stand::Waits(go_on)) => waiting.push(Waiting { id, declared, token, go_on }),
                None => answers.push((id, Err(ErrorData::internal_error("The call was lost.", None)))),
            }
        }
        outbox.put(|out| answers.into_iter().for_each(|(id, answer)| write(out, &id, answer)));
        (sent, waiting)
    }

    /// Writes the answers of calls that were sent and are done; those are sent no longer. Whether there were any.
    pub(super) fn poll_sent<W>(
        &self,
        sent: &mut Vec<Sent>,
        outbox: &Outbox<W>,
        poller: &mut Context<'_>,
    ) -> bool {
        let together = self.at_once.get().and_then(Option::as_ref);
        let results = match together.filter(|_| !sent.is_empty()) {
            Some(together) => lock(&together.calls).poll(poller),
            None => Vec::new(),
        };
        // What a server has said so far goes before its answer.
        self.aside.tell(outbox, poller);
        sent.iter_mut().filter_map(|sent| sent.notes.as_mut()).for_each(|notes| notes.tell(outbox, poller));
        let any = !results.is_empty();
        for (number, result) in results {
            if let Some(at) = sent.iter().position(|sent| sent.number == number) {
                let Sent { id, declared, .. } = sent.remove(at);
                outbox.put(|out| write(out, &id, known(result, declared)));
            }
        }
        any
    }

    /// What is left to do for calls whose answers are on their way.
    pub(super) fn settle(&self) {
        if let Some(together) = self.at_once.get().and_then(Option::as_ref) {
            lock(&together.calls).settle();
        }
    }

    /// Whether polling sees every answer to a call that was sent as soon as it has come.
    pub(super) fn sees(&self) -> bool {
        let together = self.at_once.get().and_then(Option::as_ref);
        together.is_some_and(|together| lock(&together.calls).sees())
    }

    /// Whether only the next call or answer is looked for from here on.
    pub(super) fn stays(&self, stays: bool) {
        if let Some(together) = self.at_once.get().and_then(Option::as_ref) {
            let mut calls = lock(&together.calls);
            if stays { calls.stay() } else { calls.rest() }
        }
    }

    /// Takes a call back that was sent, and answers it: not the client wants that, but the server ends.
    pub(super) fn give_up<W>(&self, sent: &Sent, outbox: &Outbox<W>) {
        self.take_back(sent);
        let refused = ErrorData::internal_error("The server ends; the call was taken back.", None);
        outbox.put(|out| straight::refusal(out, &sent.id, refused));
    }

    /// Takes a call back that was sent.
    pub(super) fn take_back(&self, sent: &Sent) {
        if let Some(together) = self.together() {
            lock(&together.calls).take_back(sent.number);
        }
    }

    /// Runs a call to its answer.
    pub(super) async fn answer(
        self: Arc<Self>,
        asked: Asked,
        cancel: (CancelHandle, Cancel),
        beside: bool,
        serial: u64,
    ) -> Answered {
        let Asked { id, tool, args, token } = asked;
        let answer = match self.face.served(&Extensions::new(), false) {
            Err(refused) => Err(refused),
            Ok(served) => {
                let call = Call { id: Some(value_of(&id)), ..Call::new(tool, Value::Object(args)) };
                let (client, never) = ((self.client.clone(), beside), std::future::pending());
                let (result, _, declared) =
                    served.call(call, client, self.with(token), Way::Session, cancel, never).await;
                known(result, declared)
            }
        };
        Answered { id, serial, answer }
    }

    /// The same for a call that was taken with others and has to wait.
    pub(super) async fn answer_later(
        self: Arc<Self>,
        waiting: Waiting,
        cancel: (CancelHandle, Cancel),
        serial: u64,
    ) -> Answered {
        let Waiting { id, declared, token, go_on } = waiting;
        let never = std::future::pending();
        let (result, _) = converse(self.with(token), Way::Session, cancel, never, go_on).await;
        Answered { id, serial, answer: known(result, declared) }
    }

    /// The client of a call that wants to hear of its progress under this token.
    fn with(&self, token: Option<ProgressToken>) -> exchange::With<'_> {
        let least = Some(*lock(&self.face.least));
        exchange::With { peer: &self.peer, request: None, token, takes: self.takes, least }
    }
}

fn value_of(id: &RequestId) -> Value {
    match id {
        NumberOrString::Number(number) => Value::from(*number),
        NumberOrString::String(text) => Value::from(&**text),
    }
}

/// What is answered: a result, and whether the tool publishes a schema of it.
type Answer = Result<(Box<CallResult>, bool), ErrorData>;

/// The protocol has its own word for a tool that is not there.
fn known(result: Box<CallResult>, declared: bool) -> Answer {
    match &result.error {
        Some(error) if error.kind == ErrorKind::UnknownTool => Err(shown::refused(&error.clone().into())),
        _ => Ok((result, declared)),
    }
}

fn write(out: &mut Vec<u8>, id: &RequestId, answer: Answer) {
    match answer {
        Ok((result, declared)) => straight::answer(out, id, &result, declared),
        Err(refused) => straight::refusal(out, id, refused),
    }
}
