//! A gate over any transport: a server that floods this end is held back, and one that does not know `server/discover`
//! and does not say so is taken for one of the older era.
//!
//! What passes goes on unchanged. Requests of the server have a rate; over it they are left out. Notifications likewise.
//! Far over it the connection ends.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::time::Instant;

use super::failure::Broken;
use super::frame::Ending;
use super::rate::Bucket;

/// How many messages may be left out before the connection ends.
const LEFT_OUT: u32 = 100_000;

/// A transport behind the gate.
pub(crate) struct Gate<T> {
    inner: T,
    ending: Ending,
    requests: Bucket,
    notifications: Bucket,
    left_out: u32,
    patience: Duration,
    /// The first question whether the server knows the newer era, and until when it is waited for.
    asked: Option<(RequestId, Instant)>,
    /// The one that was given up: its answer, should it come, is nobody's.
    given_up: Option<RequestId>,
}

impl<T> Gate<T> {
    pub(crate) fn new(inner: T, ending: Ending, patience: Duration) -> Gate<T> {
        Gate {
            inner,
            ending,
            requests: Bucket::new(256, 64.0),
            notifications: Bucket::new(4096, 1024.0),
            left_out: 0,
            patience,
            asked: None,
            given_up: None,
        }
    }

    /// Whether a message goes on.
    fn passes(&mut self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(_) => self.requests.take(1),
            JsonRpcMessage::Notification(_) => self.notifications.take(1),
            JsonRpcMessage::Response(response) => self.is_awaited(Some(&response.id)),
            JsonRpcMessage::Error(error) => self.is_awaited(error.id.as_ref()),
        }
    }

    fn is_awaited(&mut self, id: Option<&RequestId>) -> bool {
        if self.asked.as_ref().is_some_and(|(asked, _)| id.is_none_or(|id| id == asked)) {
            self.asked = None;
        }
        id.is_none() || id != self.given_up.as_ref()
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Gate<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.asked = Some((request.id.clone(), Instant::now() + self.patience));
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let until = self.asked.as_ref().map(|(_, until)| *until);
            let message = tokio::select! {
                message = self.inner.receive() => message?,
                () = until_then(until), if until.is_some() => {
                    let (id, _) = self.asked.take()?;
                    self.given_up = Some(id.clone());
                    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer to server/discover", None);
                    return Some(ServerJsonRpcMessage::error(error, Some(id)));
                }
            };
            if self.passes(&message) {
                return Some(message);
            }
            self.left_out += 1;
            if self.left_out > LEFT_OUT {
                self.ending.because(Broken::Flood);
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

async fn until_then(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{ClientConfig, DiscoverRequest, DiscoverRequestParams};
    use std::collections::VecDeque;

    /// Gives what it was given, then waits for ever.
    struct Canned(VecDeque<ServerJsonRpcMessage>);

    impl Transport<RoleClient> for Canned {
        type Error = std::io::Error;

        fn send(
            &mut self,
            _message: ClientJsonRpcMessage,
        ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
            std::future::ready(Ok(()))
        }

        async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
            match self.0.pop_front() {
                Some(message) => Some(message),
                None => std::future::pending().await,
            }
        }

        async fn close(&mut self) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    fn message(text: &str) -> ServerJsonRpcMessage {
        serde_json::from_str(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_to_discover_is_the_older_era_and_a_late_answer_is_nobodys() {
        let late = message(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"late"}}"#);
        let other = message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let mut gate = Gate::new(Canned(VecDeque::new()), Ending::default(), Duration::from_secs(2));
        let _ = ClientConfig::default();
        let ask = ClientJsonRpcMessage::request(
            ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {})),
            RequestId::Number(0),
        );
        gate.send(ask).await.unwrap();
        let Some(JsonRpcMessage::Error(error)) = gate.receive().await else { panic!("no error") };
        assert_eq!((error.id, error.error.code), (Some(RequestId::Number(0)), ErrorCode::METHOD_NOT_FOUND));
        gate.inner.0.extend([late, other]);
        let Some(JsonRpcMessage::Response(response)) = gate.receive().await else { panic!("no response") };
        assert_eq!(response.id, RequestId::Number(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_then_ends_it() {
        // No time passes, so nothing fills up again.
        for (text, most) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, 256),
            (r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#, 4096),
        ] {
            let one = message(text);
            let flood = (0..LEFT_OUT + 10_000).map(|_| one.clone()).collect();
            let ending = Ending::default();
            let mut gate = Gate::new(Canned(flood), ending.clone(), Duration::from_secs(2));
            let mut passed = 0;
            while gate.receive().await.is_some() {
                passed += 1;
            }
            assert_eq!(passed, most, "{text}");
            assert_eq!(ending.why(), Some(Broken::Flood));
        }
    }
}
