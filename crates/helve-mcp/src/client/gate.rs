//! A gate over any transport: a server that floods this end is held back, and one that does not know `server/discover`
//! and does not say so is taken for one of the older era.
//!
//! What passes goes on unchanged, but for what is [heard](Notices) here. Requests of the server have a rate; over it they are left out. Notifications likewise, and
//! answers to what nobody has asked. Far over it the connection ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::task::coop;
use tokio::time::Instant;

use super::failure::Broken;
use super::frame::Ending;
use super::notices::{AT_A_TIME, Heard, Notices};
use super::rate::Bucket;

/// How many messages may be left out before the connection ends.
const LEFT_OUT: u32 = 100_000;

/// A transport behind the gate.
pub(crate) struct Gate<T> {
    inner: T,
    ending: Ending,
    requests: Bucket,
    notifications: Bucket,
    /// What is heard here, before the loop takes what stands behind it.
    notices: Arc<Notices>,
    heard: u32,
    /// Answers to what was not asked, or was taken back: one may come late, many are a flood.
    unasked: Bucket,
    /// What was asked through this gate, and neither answered nor taken back.
    open: HashSet<RequestId>,
    left_out: u32,
    patience: Duration,
    /// The first question whether the server knows the newer era, and until when it is waited for.
    asked: Option<(RequestId, Instant)>,
    /// The one that was given up: its answer, should it come, is nobody's.
    given_up: Option<RequestId>,
}

impl<T> Gate<T> {
    pub(crate) fn new(inner: T, ending: Ending, patience: Duration, notices: Arc<Notices>) -> Gate<T> {
        Gate {
            inner,
            ending,
            requests: Bucket::new(256, 64.0),
            notifications: Bucket::new(4096, 1024.0),
            notices,
            heard: 0,
            unasked: Bucket::new(256, 64.0),
            open: HashSet::new(),
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
        let is_open = id.is_some_and(|id| self.open.remove(id));
        (id.is_none() || id != self.given_up.as_ref()) && (is_open || self.unasked.take(1))
    }

    /// Notes what this end says.
    fn says(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.open.insert(request.id.clone());
                if matches!(request.request, ClientRequest::DiscoverRequest(_)) {
                    self.asked = Some((request.id.clone(), Instant::now() + self.patience));
                }
            }
            JsonRpcMessage::Notification(told) => {
                if let ClientNotification::CancelledNotification(taken_back) = &told.notification
                    && let Some(id) = &taken_back.params.request_id
                {
                    self.open.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Gate<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.says(&message);
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
            match self.notices.hear(&message) {
                Heard::Not => {}
                Heard::Done => {
                    self.heard = self.heard.wrapping_add(1);
                    if self.heard.is_multiple_of(AT_A_TIME) {
                        tokio::task::yield_now().await;
                    }
                    continue;
                }
                Heard::Flood => {
                    self.ending.because(Broken::Flood);
                    return None;
                }
            }
            if self.passes(&message) {
                return Some(message);
            }
            self.left_out += 1;
            if self.left_out > LEFT_OUT {
                self.ending.because(Broken::Flood);
                return None;
            }
            // Others have their turn.
            coop::consume_budget().await;
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
    use super::super::fake::Memory;
    use super::*;
    use rmcp::model::{
        CancelledNotification, CancelledNotificationParam, ClientConfig, DiscoverRequest,
        DiscoverRequestParams,
    };
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

    fn notices() -> Arc<Notices> {
        Arc::new(Notices::new("s", Arc::new(Memory::default())))
    }

    fn message(text: &str) -> ServerJsonRpcMessage {
        serde_json::from_str(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_to_discover_is_the_older_era_and_a_late_answer_is_nobodys() {
        let late = message(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"late"}}"#);
        let other = message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let mut gate =
            Gate::new(Canned(VecDeque::new()), Ending::default(), Duration::from_secs(2), notices());
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
    async fn what_was_asked_is_answered_whatever_else_comes() {
        let answer = |id: i64| message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        let mut gate =
            Gate::new(Canned(VecDeque::new()), Ending::default(), Duration::from_secs(2), notices());
        for id in [1, 2, 3] {
            let ask = ClientRequest::PingRequest(Default::default());
            gate.send(ClientJsonRpcMessage::request(ask, RequestId::Number(id))).await.unwrap();
        }
        let taken_back = CancelledNotificationParam::new(Some(RequestId::Number(2)), None);
        let taken_back = ClientNotification::CancelledNotification(CancelledNotification::new(taken_back));
        gate.send(ClientJsonRpcMessage::notification(taken_back)).await.unwrap();
        // 256 that nobody asked for pass, then only what was asked and was neither taken back nor answered before.
        let flood = (0..500).map(|_| answer(1_000));
        gate.inner.0.extend(flood.chain([1, 2, 3, 1, 2, 3].map(answer)));
        let mut heard = Vec::new();
        while let Ok(Some(JsonRpcMessage::Response(response))) =
            tokio::time::timeout(Duration::from_millis(1), gate.receive()).await
        {
            heard.push(response.id);
        }
        assert_eq!(heard[..256], vec![RequestId::Number(1_000); 256]);
        assert_eq!(heard[256..], [RequestId::Number(1), RequestId::Number(3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_then_ends_it() {
        // No time passes, so nothing fills up again.
        for (text, most) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, 256),
            (r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#, 4096),
            (r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#, 0),
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, 256),
            (r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}"#, 256),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}"#, 256),
        ] {
            let one = message(text);
            let flood = (0..LEFT_OUT + 10_000).map(|_| one.clone()).collect();
            let ending = Ending::default();
            let mut gate = Gate::new(Canned(flood), ending.clone(), Duration::from_secs(2), notices());
            let mut turns = 0;
            let passed = async {
                let mut passed = 0;
                while gate.receive().await.is_some() {
                    passed += 1;
                }
                passed
            };
            let others = async {
                loop {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
            };
            let passed = tokio::select! {
                passed = passed => passed,
                () = others => 0,
            };
            assert_eq!(passed, most, "{text}");
            assert_eq!(ending.why(), Some(Broken::Flood));
            assert!(turns > 100, "others had {turns} turns");
        }
    }
}
