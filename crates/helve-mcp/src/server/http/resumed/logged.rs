//! What a request logs, on the stream of that request.
//!
//! The SDK's sessions tell log messages on the stream that is nobody's, which not every client reads; of notices that take something
//! back they know on whose stream these belong. So a log message that says whose it is goes through them as one of those, and comes
//! out as what it was.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, JsonRpcMessage, LoggingMessageNotification,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::RxJsonRpcMessage;
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;

use super::super::super::exchange::OfRequest;

/// A log message on its way.
#[derive(Clone)]
struct Logged(LoggingMessageNotification);

/// The way into a session.
pub(in super::super) struct Routed<T>(pub(super) T);

impl<T: Transport<RoleServer>> Transport<RoleServer> for Routed<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.0.send(going_in(message))
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.0.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.0.close()
    }
}

fn going_in(message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    let JsonRpcMessage::Notification(notice) = &message else { return message };
    let ServerNotification::LoggingMessageNotification(log) = &notice.notification else { return message };
    let Some(OfRequest(request)) = log.extensions.get().cloned() else { return message };
    let mut through = CancelledNotification::new(CancelledNotificationParam::new(Some(request), None));
    through.extensions.insert(Logged(log.clone()));
    JsonRpcMessage::notification(through.into())
}

/// An event as it goes to the client.
pub(super) fn coming_out(event: ServerSseMessage) -> ServerSseMessage {
    let mut event = event;
    if let Some(JsonRpcMessage::Notification(notice)) = event.message.as_deref()
        && let ServerNotification::CancelledNotification(through) = &notice.notification
        && let Some(Logged(log)) = through.extensions.get().cloned()
    {
        event.message = Some(Arc::new(JsonRpcMessage::notification(log.into())));
    }
    event
}
