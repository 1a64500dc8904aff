//! What a server has besides tools.

use std::sync::Arc;

use helve_core::ToolError;
use serde_json::Value;

use super::{Slot, lock};
use crate::client::connection::CallFailure;
use crate::client::frame;
use crate::client::more::{self, Listed};

/// So many resources, patterns or prompts are taken of one server.
const MOST: usize = 10_000;

impl Slot {
    /// A list of the server's, as a client is shown it. The server is started if it is not yet.
    pub(crate) async fn more(self: &Arc<Self>, what: Listed) -> Result<Vec<Value>, ToolError> {
        let connection = self.connection().await?;
        if !connection.has(what) {
            return Ok(Vec::new());
        }
        let listed = connection.list(what, MOST, self.spec.start_timeout).await;
        let listed = listed.map_err(|failure| match failure {
            CallFailure::Plain(error) | CallFailure::Gone(error) => error,
            CallFailure::SignIn(_) => self.wants_more(),
        })?;
        for left_out in listed.iter().filter(|raw| raw.get(frame::UNREADABLE).is_some()) {
            let text = format!("{} {}: {}", what.key(), left_out["name"], left_out[frame::UNREADABLE]);
            self.parts.log.event(&self.spec.name, "refused", &text);
        }
        let listed = listed.iter().filter(|raw| raw.get(frame::UNREADABLE).is_none());
        let shown: Vec<(Value, String)> = listed
            .filter_map(|raw| more::shown_hiding(&self.spec.name, what, raw, &self.parts.hide))
            .collect();
        if what == Listed::Prompts {
            let name = |(item, own): &(Value, String)| Some((item["name"].as_str()?.to_owned(), own.clone()));
            *lock(&self.prompts) = shown.iter().filter_map(name).collect();
        }
        Ok(shown.into_iter().map(|(item, _)| item).collect())
    }

    /// The server's own name of a prompt, if it was listed.
    pub(crate) fn prompt_shown(&self, shown: &str) -> Option<String> {
        lock(&self.prompts).get(shown).cloned()
    }
}
