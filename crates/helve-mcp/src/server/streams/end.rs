//! The end of a client: of what it says, or of the server.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt as _;
use rmcp::RoleServer;
use rmcp::service::RxJsonRpcMessage;
use tokio::io::AsyncWrite;

use super::super::running::TAKEN_BACK;
use super::Streams;
use crate::ends::Source;

/// How long calls may go on once the client says nothing more; then they are taken back.
const LAST_CALLS: Duration = Duration::from_secs(5);

impl<R, W> Streams<R, W>
where
    R: Source,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Waits for the last calls and their answers; not for ever. Those that go on for too long are taken back, and so are all where
    /// the server ends.
    pub(super) fn poll_end(
        &mut self,
        all_is_sent: bool,
        poller: &mut Context<'_>,
    ) -> Poll<Option<RxJsonRpcMessage<RoleServer>>> {
        let is_waited_for = self.lines.has_more() && self.handed.is_full(poller);
        let is_idle =
            !is_waited_for && self.calls.is_empty() && self.sent.is_empty() && self.running.poll_none(poller);
        if is_idle && all_is_sent {
            return Poll::Ready(None);
        }
        if !self.is_taken_back && self.running.over().is_cancelled() {
            self.take_all_back();
        }
        loop {
            let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(LAST_CALLS)));
            if patience.as_mut().poll(poller).is_pending() {
                return Poll::Pending;
            }
            if is_idle || self.is_taken_back {
                return Poll::Ready(None);
            }
            self.take_all_back();
        }
    }

    /// Takes all calls back. They are recorded and answered, for which there is a moment.
    fn take_all_back(&mut self) {
        self.is_taken_back = true;
        self.running.take_back();
        self.under_way.values().for_each(|(_, handle)| handle.cancel());
        if let Some(door) = self.door.get() {
            self.sent.drain(..).for_each(|sent| door.give_up(&sent, &self.outbox));
        }
        self.patience = Some(Box::pin(tokio::time::sleep(TAKEN_BACK)));
    }
}

/// Calls that still run are taken back. They go on by themselves until they have ended what they began and recorded it.
impl<R, W: AsyncWrite + Unpin> Drop for Streams<R, W> {
    fn drop(&mut self) {
        self.under_way.values().for_each(|(_, handle)| handle.cancel());
        if let Some(door) = self.door.get() {
            self.sent.iter().for_each(|sent| door.take_back(sent));
        }
        let mut calls = std::mem::take(&mut self.calls);
        if let (false, Ok(runtime)) = (calls.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { while calls.next().await.is_some() {} });
        }
    }
}
