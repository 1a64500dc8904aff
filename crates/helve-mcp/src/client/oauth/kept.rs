//! What is kept of a sign-in, as the SDK reads and writes it.

use std::sync::Arc;

use async_trait::async_trait;
use helve_core::ToolError;
use rmcp::transport::auth::{AuthError, AuthorizationMetadata, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

use super::off_loop;
use crate::client::keep::TokenStore;

/// What is kept of a sign-in, under a key of the server's name and address: a token never goes to another address.
#[derive(Clone)]
pub(super) struct Kept {
    tokens: Arc<dyn TokenStore>,
    key: String,
    usable: Usable,
}

/// What of it may be used.
#[derive(Clone)]
enum Usable {
    Nothing,
    /// What lets in, by who has no way to renew it.
    Unrenewed,
    /// What came from this token endpoint.
    Of(String),
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    credentials: StoredCredentials,
    #[serde(default)]
    token_endpoint: Option<String>,
}

impl Kept {
    pub(super) fn new(tokens: &Arc<dyn TokenStore>, server: &str, url: &str) -> Kept {
        Kept { tokens: Arc::clone(tokens), key: format!("mcp/{server}/{url}"), usable: Usable::Nothing }
    }

    /// The same for tokens that come from there.
    pub(super) fn of(self, metadata: &AuthorizationMetadata) -> Kept {
        Kept { usable: Usable::Of(metadata.token_endpoint.clone()), ..self }
    }

    /// The same for a manager that knows no authorization server.
    pub(super) fn unrenewed(self) -> Kept {
        Kept { usable: Usable::Unrenewed, ..self }
    }

    /// Whether what is kept came from there. The server says where that is, anew each time: what was given by one authorization
    /// server must not go to another, nor to whoever calls himself the same.
    pub(super) async fn is_of(&self, metadata: &AuthorizationMetadata) -> bool {
        self.entry().await.ok().flatten().is_some_and(|entry| {
            entry.credentials.issuer == metadata.issuer
                && entry.token_endpoint.as_ref() == Some(&metadata.token_endpoint)
        })
    }

    /// What is kept, whatever it is of.
    pub(super) async fn credentials(&self) -> Option<StoredCredentials> {
        self.entry().await.ok().flatten().map(|entry| entry.credentials)
    }

    async fn entry(&self) -> Result<Option<Entry>, AuthError> {
        let kept = self.clone();
        let text =
            off_loop(move || kept.tokens.get(&kept.key)).await.map_err(|error| store_failed(&error))?;
        // What cannot be read is as good as nothing: the owner signs in again.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

fn store_failed(error: &ToolError) -> AuthError {
    AuthError::InternalError(error.message.clone())
}

#[async_trait]
impl CredentialStore for Kept {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let entry = self.entry().await?.filter(|entry| match &self.usable {
            Usable::Nothing => false,
            Usable::Unrenewed => true,
            Usable::Of(endpoint) => entry.token_endpoint.as_ref() == Some(endpoint),
        });
        Ok(entry.map(|entry| entry.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let token_endpoint = match &self.usable {
            Usable::Of(endpoint) => Some(endpoint.clone()),
            Usable::Nothing | Usable::Unrenewed => None,
        };
        let entry = Entry { credentials, token_endpoint };
        let text =
            serde_json::to_string(&entry).map_err(|error| AuthError::InternalError(error.to_string()))?;
        let kept = self.clone();
        off_loop(move || kept.tokens.set(&kept.key, &text)).await.map_err(|error| store_failed(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let kept = self.clone();
        off_loop(move || kept.tokens.remove(&kept.key)).await.map_err(|error| store_failed(&error))
    }
}
