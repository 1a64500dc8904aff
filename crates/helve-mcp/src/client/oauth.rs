//! Signing in at a server with OAuth 2.1.
//!
//! The protocol (discovery, registration, PKCE, resource indicator, issuer check, refreshing) is the SDK's. Here are its two
//! ends: the owner, who is shown an address and whose answer comes to a port of this machine, and the store of tokens.

mod callback;
mod kept;
mod reach;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use helve_core::servers::HttpServer;
use helve_core::{ErrorKind, ToolError};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    OAuthClientConfig,
};

use self::callback::{Callback, state_of};
use self::kept::Kept;
use self::reach::Reach;
use super::failure::{chain, words};
use super::http::{address, is_this_machine, permitted, scope_of, with_tls};
use super::keep::{Owner, TokenStore};

/// How long the owner may take.
const PATIENCE: Duration = Duration::from_secs(300);

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
        Kept::new(&self.tokens, &self.server, &http.url)
    }

    /// What to ask for; nothing where the server's own word decides. A server that wants more rights gets asked for those
    /// beside what the owner has agreed to before, so that nothing is lost by it.
    async fn scopes(&self, http: &HttpServer, challenge: Option<&str>) -> Vec<String> {
        let mut scopes = http.oauth_client.as_ref().map(|client| client.scopes.clone()).unwrap_or_default();
        let more = challenge.filter(|challenge| challenge.contains("insufficient_scope")).and_then(scope_of);
        if let Some(more) = more {
            let granted = self.kept(http).credentials().await.map(|kept| kept.granted_scopes);
            scopes.extend(granted.unwrap_or_default());
            scopes.extend(more.split_whitespace().map(str::to_owned));
        }
        let mut seen = BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    /// A manager that knows nothing yet.
    async fn blank(&self, http: &HttpServer) -> Result<AuthorizationManager, ToolError> {
        with_tls();
        let manager = if is_this_machine(&address(&self.server, &http.url)?) {
            let reach = Arc::new(Reach::new(&self.server)?);
            AuthorizationManager::new_with_oauth_http_client(http.url.as_str(), reach).await
        } else {
            AuthorizationManager::new(http.url.as_str()).await
        };
        manager.map_err(|error| self.failed(&error))
    }

    /// A manager with what is kept of an earlier sign-in. Where the server now names another place for tokens than they came from,
    /// or none, it has nothing: the server's challenge leads on.
    pub(crate) async fn manager(&self, http: &HttpServer) -> Result<AuthorizationManager, ToolError> {
        let mut manager = self.blank(http).await?;
        let kept = self.kept(http);
        manager.set_credential_store(kept.clone());
        if kept.credentials().await.is_none_or(|credentials| credentials.token_response.is_none()) {
            return Ok(manager);
        }
        let metadata = match manager.resolve_metadata().await {
            Ok(resolved) => resolved.metadata,
            Err(error) => {
                manager.set_credential_store(kept.unrenewed());
                return match manager.get_access_token().await {
                    Ok(_) => Ok(manager),
                    Err(_) => Err(self.failed(&error)),
                };
            }
        };
        self.check(&metadata)?;
        if !kept.is_of(&metadata).await {
            return Ok(manager);
        }
        manager.set_credential_store(kept.of(&metadata));
        manager.set_metadata(metadata);
        manager.initialize_from_store().await.map_err(|error| self.failed(&error))?;
        // What is kept has no secret, and may be of a client that was configured before.
        if let Some((id, client)) =
            http.oauth_client.as_ref().and_then(|client| Some((client.id.clone()?, client)))
        {
            let mut config = OAuthClientConfig::new(id, http.url.clone());
            config.client_secret.clone_from(&client.secret);
            manager.configure_client(config).map_err(|error| self.failed(&error))?;
        }
        Ok(manager)
    }

    /// Refuses endpoints to which secrets would go in clear.
    fn check(&self, metadata: &AuthorizationMetadata) -> Result<(), ToolError> {
        let endpoints = [
            ("token endpoint", Some(&metadata.token_endpoint)),
            ("authorization endpoint", Some(&metadata.authorization_endpoint)),
            ("registration endpoint", metadata.registration_endpoint.as_ref()),
            ("issuer", metadata.issuer.as_ref()),
        ];
        for (what, endpoint) in endpoints {
            let Some(endpoint) = endpoint else { continue };
            permitted(endpoint).map_err(|why| {
                let server = &self.server;
                let message =
                    format!("The {what} that the MCP server '{server}' names is refused: {}.", words(&why));
                ToolError::new(ErrorKind::Blocked, message).hint(
                    "An authorization server must have addresses of https:, or of http: on this machine.",
                )
            })?;
        }
        Ok(())
    }

    /// Sends the owner through the sign-in that a challenge asks for.
    pub(crate) async fn sign_in(&self, http: &HttpServer, challenge: Option<&str>) -> Result<(), ToolError> {
        let Some(owner) = &self.owner else { return Err(self.nobody_there()) };
        let callback = Callback::open().await.map_err(|error| self.no_port(&error))?;
        let mut manager = self.blank(http).await?;
        let resolved = manager.resolve_metadata_from_challenge(challenge).await;
        let metadata = resolved.map_err(|error| self.failed(&error))?.metadata;
        self.check(&metadata)?;
        manager.set_credential_store(self.kept(http).of(&metadata));
        manager.set_metadata(metadata);
        let mut request = AuthorizationRequest::new(callback.url())
            .with_client_name("Helve")
            .with_application_type("native");
        request.scopes = self.scopes(http, challenge).await;
        if let Some(client) = &http.oauth_client {
            request.client_id.clone_from(&client.id);
            request.client_secret.clone_from(&client.secret);
            request.client_metadata_url.clone_from(&client.metadata_url);
        }
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, error)| self.failed(&error))?;
        let url = session.get_authorization_url();
        address(&self.server, url)?;
        let state = state_of(url).ok_or_else(|| {
            ToolError::internal(format!("The sign-in at the MCP server '{}' has no state.", self.server))
        })?;
        owner.open(&self.server, url);
        let answer = tokio::time::timeout(PATIENCE, callback.answer(&state)).await;
        let answer = answer.map_err(|_| self.nobody_there())?.map_err(|error| self.no_port(&error))?;
        session.handle_callback_url(&answer).await.map_err(|error| self.failed(&error))?;
        Ok(())
    }

    /// What is kept could not be renewed, and nobody is there to sign in.
    pub(crate) fn unrenewed(&self, why: &str) -> ToolError {
        let mut error = self.nobody_there();
        error.message = format!("{} Its token could not be renewed: {}", error.message, words(why));
        error
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

#[cfg(test)]
mod tests;
