//! The older HTTP with two addresses: events come from one, and the first of them names the other, to which messages go.
//! That other one must be of the same origin.

use std::collections::HashMap;

use futures::StreamExt;
use helve_core::ToolError;
use http::header::ACCEPT;
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use url::Url;

use super::cause::Cause;
use super::events::{Events, events, is_too_long};
use super::failure::{Broken, chain, unreachable, words};
use super::frame::{EMPTY_LINES, Ending, NO_MESSAGES, Said, read};
use super::http::{Http, leads_to};

/// A connection.
pub(crate) struct TwoAddresses {
    http: Http,
    events: Events,
    cap: usize,
    /// Events since the last message that were none, and empty ones.
    garbage: u32,
    empty: u32,
    post_to: Url,
    headers: HashMap<HeaderName, HeaderValue>,
    bearer: Option<String>,
    ending: Ending,
}

/// Opens the stream and waits for the other address.
pub(crate) async fn open(
    server: &str,
    http: Http,
    url: Url,
    headers: HashMap<HeaderName, HeaderValue>,
    bearer: Option<String>,
    cap: usize,
    ending: Ending,
) -> Result<TwoAddresses, ToolError> {
    let failed = |why: String| {
        ToolError::failed(format!("The MCP server '{server}' could not be reached: {}", words(&why)))
    };
    let mut request = http
        .plain()
        .get(url.clone())
        .header(ACCEPT, "text/event-stream")
        .headers(headers.clone().into_iter().collect());
    if let Some(bearer) = &bearer {
        request = request.bearer_auth(bearer);
    }
    let response = request.send().await.map_err(|error| unreachable(server, Cause::of_request(&error)))?;
    if !response.status().is_success() {
        let status = response.status();
        let leads = leads_to(&response).map(|to| format!(": it leads to {to}, which is not followed"));
        let said = format!("HTTP {status}{}", leads.unwrap_or_default());
        return Err(unreachable(server, Cause::of_status(status.as_u16(), said)));
    }
    let mut events = events(response, cap);
    let post_to = loop {
        match events.next().await {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                let place = event.data.unwrap_or_default();
                break url
                    .join(place.trim())
                    .map_err(|error| failed(format!("its second address: {error}")))?;
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(failed(chain(&error))),
            None => return Err(failed("it named no second address".to_owned())),
        }
    };
    if post_to.origin() != url.origin() {
        return Err(failed("its second address is of another origin".to_owned()));
    }
    Ok(TwoAddresses { http, events, cap, garbage: 0, empty: 0, post_to, headers, bearer, ending })
}

impl TwoAddresses {
    /// The next message; else why there is none.
    async fn next(&mut self) -> Result<ServerJsonRpcMessage, Broken> {
        loop {
            let event = match self.events.next().await {
                Some(Ok(event)) => event,
                Some(Err(error)) if is_too_long(&error) => return Err(Broken::FrameTooLong(self.cap)),
                Some(Err(_)) | None => return Err(Broken::Ended),
            };
            let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
            let data = event.data.filter(|_| is_message).unwrap_or_default();
            match read(data.as_bytes()) {
                Said::Message(message) => {
                    (self.garbage, self.empty) = (0, 0);
                    return Ok(*message);
                }
                Said::Nothing => {
                    self.empty += 1;
                    if self.empty > EMPTY_LINES {
                        return Err(Broken::Garbage("empty events and nothing else".to_owned()));
                    }
                }
                Said::Garbage(why) => {
                    self.garbage += 1;
                    if self.garbage > NO_MESSAGES {
                        return Err(Broken::Garbage(why));
                    }
                }
            }
        }
    }
}

impl Transport<RoleClient> for TwoAddresses {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let mut request =
            self.http.plain().post(self.post_to.clone()).headers(self.headers.clone().into_iter().collect());
        if let Some(bearer) = &self.bearer {
            request = request.bearer_auth(bearer);
        }
        async move {
            let body = serde_json::to_vec(&message)?;
            let request = request.header(http::header::CONTENT_TYPE, "application/json").body(body);
            let response = request.send().await.map_err(std::io::Error::other)?;
            match response.status() {
                status if status.is_success() => Ok(()),
                status => Err(std::io::Error::other(format!("HTTP {status}"))),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        match self.next().await {
            Ok(message) => Some(message),
            Err(broken) => {
                self.ending.because(broken);
                None
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
