//! How authorization servers are reached on behalf of an MCP server on this machine.
//!
//! The SDK's own client sends everything to the proxy that the environment names. What goes to this machine stays on it here, and
//! what goes beyond it is encrypted. No redirect is followed: none of these requests needs one.

use std::time::Duration;

use helve_core::ToolError;
use http::Response;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use crate::client::http::{is_this_machine, permitted, plain_client};

/// What an answer may have, in bytes.
const CAP: usize = 1 << 20;
/// How long one request may take.
const TIME: Duration = Duration::from_secs(30);

/// A client for this machine, and one for everything else.
pub(super) struct Reach {
    here: reqwest::Client,
    beyond: reqwest::Client,
}

impl Reach {
    pub(super) fn new(server: &str) -> Result<Reach, ToolError> {
        let client = |direct: bool| {
            plain_client(server, direct, |builder| {
                builder.timeout(TIME).redirect(reqwest::redirect::Policy::none())
            })
        };
        Ok(Reach { here: client(true)?, beyond: client(false)? })
    }
}

impl OAuthHttpClient for Reach {
    fn execute(&self, asked: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(asked.request)?;
            let url = permitted(request.url().as_str())?;
            let client = if is_this_machine(&url) { &self.here } else { &self.beyond };
            let mut response = client.execute(request).await?;
            let mut answer = Response::builder().status(response.status()).version(response.version());
            for (name, value) in response.headers() {
                answer = answer.header(name, value);
            }
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                if body.len() + chunk.len() > CAP {
                    return Err(format!("an answer of more than {CAP} bytes").into());
                }
                body.extend_from_slice(&chunk);
            }
            Ok(answer.body(body)?)
        })
    }
}
