//! A call that was sent to a server and that nobody waits for by itself.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use helve_core::{BoxFuture, SentCall, ServerCall, ServerReply, ToolError};
use rmcp::ServiceError;

use super::connection::{Connection, Pending};
use super::failure::timed_out;
use super::more::quoted;
use super::questions::Underway;
use super::seat::Session;
use super::slot::{Slot, Turn};
use super::straight::Asked;

/// A call that went straight to a server.
pub(super) struct Sent {
    slot: Arc<Slot>,
    connection: Arc<Connection>,
    tool: String,
    pending: Pending<Arc<Connection>>,
    asked: Asked,
    underway: Underway,
    from: Instant,
    within: Duration,
    /// Given back as soon as the call is over: who has the answer may let go of this later.
    turn: Option<Turn>,
    /// Why there is no answer, once that is being found out.
    failing: Option<BoxFuture<'static, ToolError>>,
}

impl Sent {
    /// Sends a call, if that can be done straight. `within` is the server's time.
    pub(super) fn new(
        slot: &Arc<Slot>,
        connection: Arc<Connection>,
        call: &ServerCall,
        session: Session,
        turn: Turn,
    ) -> Option<Sent> {
        let straight = connection.straight.as_ref().filter(|_| call.act.is_call())?;
        let (underway, from) = (Underway::of(call, session), Instant::now());
        let (asked, pending) = Connection::ask(Arc::clone(&connection), straight, call, &underway).ok()?;
        let (slot, within) = (Arc::clone(slot), slot.spec.call_timeout);
        let tool = call.tool.clone();
        let (turn, failing) = (Some(turn), None);
        Some(Sent { slot, connection, tool, asked, pending, underway, from, within, turn, failing })
    }

    /// Finds out why there is no answer.
    fn fails(&self, error: ServiceError) -> BoxFuture<'static, ToolError> {
        let (slot, connection) = (Arc::clone(&self.slot), Arc::clone(&self.connection));
        let tool = self.tool.clone();
        Box::pin(async move {
            let failure = connection.call_failure(&quoted(&tool), &error).await;
            slot.failed(failure)
        })
    }
}

impl SentCall for Sent {
    fn poll_reply(&mut self, poller: &mut Context<'_>) -> Poll<Result<ServerReply, ToolError>> {
        if let Some(failing) = &mut self.failing {
            return failing.as_mut().poll(poller).map(Err);
        }
        match self.asked.poll_answer(poller) {
            Poll::Ready(Ok(answer)) => {
                self.pending.is_done = true;
                self.turn = None;
                let reply = self.connection.reply(&self.tool, answer);
                Poll::Ready(reply.map_err(|failure| self.slot.failed(failure)))
            }
            Poll::Ready(Err(error)) => {
                self.pending.is_done = true;
                self.turn = None;
                let failing = self.failing.insert(self.fails(error));
                failing.as_mut().poll(poller).map(Err)
            }
            Poll::Pending if self.left() == Some(Duration::ZERO) => {
                self.pending.give_up("the time for the call is up");
                self.turn = None;
                Poll::Ready(Err(timed_out(&self.slot.spec.name, "answer", self.within)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// While somebody is asked on the server's behalf, its time does not pass.
    fn left(&self) -> Option<Duration> {
        if self.failing.is_some() {
            return None;
        }
        Some((self.within + self.underway.asking.so_far()).saturating_sub(self.from.elapsed()))
    }

    fn is_seen(&self) -> bool {
        self.failing.is_none() && self.asked.is_seen()
    }
}

/// What is asked on behalf of a call that is over is not answered any more.
impl Drop for Sent {
    fn drop(&mut self) {
        self.underway.asking.end();
    }
}
