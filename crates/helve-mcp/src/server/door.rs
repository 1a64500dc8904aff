//! The straight way in: a call that the transport has read goes to the client's host, and its answer to the way out, past the
//! protocol's loop.

use std::sync::Arc;

use helve_core::{Call, Cancel, CancelHandle, ErrorKind};
use rmcp::model::{Extensions, RequestId};
use rmcp::{Peer, RoleServer};
use serde_json::{Value, json};

use super::exchange::{self, Takes, Way};
use super::face::{Face, lock, plain};
use super::output::Outbox;
use super::shown;
use super::straight::{self, Asked};

/// The straight way in, for a client that has introduced itself and has a session.
pub(super) struct Door {
    face: Arc<Face>,
    peer: Peer<RoleServer>,
    /// What the client calls itself.
    client: String,
    takes: Takes,
}

impl Door {
    /// None for a client that says with each request who it is.
    pub(super) fn new(face: Arc<Face>, peer: &Peer<RoleServer>) -> Option<Door> {
        let info = peer.peer_info()?;
        let (client, takes) = (plain(&info.client_info.name), Takes::of(&info.capabilities));
        Some(Door { face, peer: peer.clone(), client, takes })
    }

    /// Runs a call and writes its answer, if nobody has taken it back by then.
    pub(super) async fn answer<W>(
        self: Arc<Self>,
        asked: Asked,
        cancel: (CancelHandle, Cancel),
        beside: bool,
        outbox: Outbox<W>,
    ) -> RequestId {
        let Asked { id, tool, args, token } = asked;
        let taken_back = cancel.1.clone();
        let answer = match self.face.served(&Extensions::new(), false) {
            Err(refused) => Err(refused),
            Ok(served) => {
                let call = Call { id: Some(json!(id)), ..Call::new(tool, Value::Object(args)) };
                let least = Some(*lock(&self.face.least));
                let with = exchange::With { peer: &self.peer, token, takes: self.takes, least };
                let (client, never) = ((self.client.clone(), beside), std::future::pending());
                let (result, _, declared) =
                    served.call(call, client, with, Way::Session, cancel, never).await;
                match &result.error {
                    Some(error) if error.kind == ErrorKind::UnknownTool => {
                        Err(shown::refused(&error.clone().into()))
                    }
                    _ => Ok((result, declared)),
                }
            }
        };
        if !taken_back.is_cancelled() {
            outbox.put(|out| match answer {
                Ok((result, declared)) => straight::answer(out, &id, &result, declared),
                Err(refused) => straight::refusal(out, &id, refused),
            });
        }
        id
    }
}
