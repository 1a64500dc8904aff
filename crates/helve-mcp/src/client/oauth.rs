//! Signing in at a server with OAuth 2.1.
//!
//! The protocol (discovery, registration, PKCE, resource indicator, issuer check, refreshing) is the SDK's. Here are its two
//! ends: the owner, who is shown an address and whose answer comes to a port of this machine, and the store of tokens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use helve_core::servers::HttpServer;
use helve_core::{ErrorKind, ToolError};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, CredentialStore, OAuthState, StoredCredentials,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::failure::{chain, words};
use super::http::scope_of;
use super::keep::{Owner, TokenStore};

/// How long the owner may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes of a request to the port that are read.
const REQUEST: usize = 16 << 10;
const CALLBACK: &str = "/callback";

/// What is kept of a sign-in, under a key of the server's name and address: a token never goes to another address.
#[derive(Clone)]
struct Kept {
    tokens: Arc<dyn TokenStore>,
    key: String,
}

fn store_failed(error: &ToolError) -> AuthError {
    AuthError::InternalError(error.message.clone())
}

#[async_trait]
impl CredentialStore for Kept {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = self.clone();
        let text =
            off_loop(move || kept.tokens.get(&kept.key)).await.map_err(|error| store_failed(&error))?;
        // What cannot be read is as good as nothing: the owner signs in again.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials)
            .map_err(|error| AuthError::InternalError(error.to_string()))?;
        let kept = self.clone();
        off_loop(move || kept.tokens.set(&kept.key, &text)).await.map_err(|error| store_failed(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let kept = self.clone();
        off_loop(move || kept.tokens.remove(&kept.key)).await.map_err(|error| store_failed(&error))
    }
}

/// Runs what may wait for a disk off the event loop.
pub(crate) async fn off_loop<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(ToolError::internal("Reading or writing what is kept of an MCP server crashed."))
    })
}

/// Who signs in, and where.
pub(crate) struct SignIn {
    pub(crate) server: String,
    pub(crate) tokens: Arc<dyn TokenStore>,
    pub(crate) owner: Option<Arc<dyn Owner>>,
}

impl SignIn {
    fn kept(&self, http: &HttpServer) -> Kept {
        Kept { tokens: Arc::clone(&self.tokens), key: format!("mcp/{}/{}", self.server, http.url) }
    }

    /// What to ask for; nothing where the server's own word decides. A server that wants more rights gets asked for those
    /// beside what the owner has agreed to before, so that nothing is lost by it.
    async fn scopes(&self, http: &HttpServer, challenge: Option<&str>) -> Vec<String> {
        let mut scopes = http.oauth_client.as_ref().map(|client| client.scopes.clone()).unwrap_or_default();
        let more = challenge.filter(|challenge| challenge.contains("insufficient_scope")).and_then(scope_of);
        if let Some(more) = more {
            let granted = self.kept(http).load().await.ok().flatten().map(|kept| kept.granted_scopes);
            scopes.extend(granted.unwrap_or_default());
            scopes.extend(more.split_whitespace().map(str::to_owned));
        }
        let mut seen = BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    /// A manager with what is kept of an earlier sign-in.
    pub(crate) async fn manager(&self, http: &HttpServer) -> Result<AuthorizationManager, ToolError> {
        let mut manager =
            AuthorizationManager::new(http.url.as_str()).await.map_err(|error| self.failed(&error))?;
        manager.set_credential_store(self.kept(http));
        // Nothing kept, or what is kept is of no use any more: the server's challenge leads on.
        let _ = manager.initialize_from_store().await;
        Ok(manager)
    }

    /// Sends the owner through the sign-in that a challenge asks for.
    pub(crate) async fn sign_in(
        &self,
        http: &HttpServer,
        challenge: Option<&str>,
    ) -> Result<AuthorizationManager, ToolError> {
        let Some(owner) = &self.owner else { return Err(self.nobody_there()) };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| self.no_port(&error))?;
        let port = listener.local_addr().map_err(|error| self.no_port(&error))?.port();
        let mut state = OAuthState::Unauthorized(self.manager(http).await?);
        let mut request = AuthorizationRequest::new(format!("http://127.0.0.1:{port}{CALLBACK}"))
            .with_client_name("Helve")
            .with_application_type("native");
        if let Some(challenge) = challenge {
            request = request.with_challenge(challenge);
        }
        request.scopes = self.scopes(http, challenge).await;
        if let Some(client) = &http.oauth_client {
            request.client_id.clone_from(&client.id);
            request.client_secret.clone_from(&client.secret);
            request.client_metadata_url.clone_from(&client.metadata_url);
        }
        state.start_authorization(request).await.map_err(|error| self.failed(&error))?;
        let url = state.get_authorization_url().await.map_err(|error| self.failed(&error))?;
        super::http::address(&self.server, &url)?;
        owner.open(&self.server, &url);
        let answer = tokio::time::timeout(PATIENCE, callback(&listener, port)).await;
        let answer = answer.map_err(|_| self.nobody_there())?.map_err(|error| self.no_port(&error))?;
        state.handle_callback_url(&answer).await.map_err(|error| self.failed(&error))?;
        state.into_authorization_manager().ok_or_else(|| {
            ToolError::internal(format!("The sign-in at the MCP server '{}' did not end.", self.server))
        })
    }

    fn nobody_there(&self) -> ToolError {
        let server = &self.server;
        ToolError::new(
            ErrorKind::ApprovalRequired,
            format!("The MCP server '{server}' wants the owner to sign in."),
        )
        .hint(format!("The owner runs `helve mcp test {server}` and opens the address that it shows."))
    }

    fn failed(&self, error: &AuthError) -> ToolError {
        ToolError::failed(format!(
            "Signing in at the MCP server '{}' failed: {}",
            self.server,
            words(&chain(error))
        ))
    }

    fn no_port(&self, error: &std::io::Error) -> ToolError {
        ToolError::failed(format!(
            "Signing in at the MCP server '{}' needs a port of this machine: {error}",
            self.server
        ))
    }
}

/// Waits for the answer of the authorization server, which the owner's browser brings.
async fn callback(listener: &TcpListener, port: u16) -> std::io::Result<String> {
    loop {
        let (stream, _) = listener.accept().await?;
        // Whoever else knocks is told that nothing is here, and may not take long over it.
        let asked = tokio::time::timeout(Duration::from_secs(5), answered(stream)).await;
        if let Ok(Ok(Some(target))) = asked {
            return Ok(format!("http://127.0.0.1:{port}{target}"));
        }
    }
}

/// Answers one request; gives its target if that is the callback.
async fn answered(mut stream: TcpStream) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > REQUEST || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let text = String::from_utf8_lossy(&head);
    let target = text
        .strip_prefix("GET ")
        .and_then(|rest| rest.split(' ').next())
        .filter(|target| target.split('?').next() == Some(CALLBACK) && target.contains('?'))
        .map(str::to_owned);
    let (status, body) = match target {
        Some(_) => ("200 OK", "You can close this page and go back to Helve."),
        None => ("404 Not Found", "Nothing is here."),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[tokio::test]
    async fn only_the_callback_is_taken() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ask = |target: &'static str| async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer.lines().next().unwrap_or_default().to_owned()
        };
        let waiting = callback(&listener, port);
        let asking = async {
            [ask("/favicon.ico").await, ask("/callback").await, ask("/callback?code=1&state=2").await]
        };
        let (url, said) = tokio::join!(waiting, asking);
        assert_eq!(url.unwrap(), format!("http://127.0.0.1:{port}/callback?code=1&state=2"));
        assert_eq!(said, ["HTTP/1.1 404 Not Found", "HTTP/1.1 404 Not Found", "HTTP/1.1 200 OK"]);
    }
}
