//! The older HTTP with two addresses: events come from one, and the first of them names the other, to which messages go.
//! That other one must be of the same origin.

use std::collections::HashMap;

use futures::StreamExt;
use futures::stream::BoxStream;
use helve_core::ToolError;
use http::header::ACCEPT;
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use url::Url;

use super::cause::Cause;
use super::failure::{Broken, chain, unreachable, words};
use super::frame::{Ending, Said, read};
use super::http::{Http, events};

/// A connection.
pub(crate) struct TwoAddresses {
    http: Http,
    events: BoxStream<'static, Result<Sse, SseError>>,
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
        return Err(unreachable(server, Cause::of_status(status.as_u16(), format!("HTTP {status}"))));
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
    Ok(TwoAddresses { http, events, post_to, headers, bearer, ending })
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
        loop {
            let event = match self.events.next().await {
                Some(Ok(event)) => event,
                Some(Err(_)) | None => {
                    self.ending.because(Broken::Ended);
                    return None;
                }
            };
            let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
            if let Some(data) = event.data.filter(|_| is_message)
                && let Said::Message(message) = read(data.as_bytes())
            {
                return Some(*message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
