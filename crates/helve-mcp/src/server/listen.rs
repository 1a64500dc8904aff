//! Tells a client what has changed: for as long as its session lasts, or for as long as it listens.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::{broadcast, watch};

use super::Host;
use super::face::lock;

/// How often a task that waits for changes looks whether its client is still there.
const LOOK: Duration = Duration::from_secs(30);

/// What can change.
struct Changes {
    tools: Option<watch::Receiver<u64>>,
    prompts: Option<watch::Receiver<u64>>,
    resources: Option<watch::Receiver<u64>>,
    updates: Option<broadcast::Receiver<String>>,
}

enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

impl Changes {
    fn of(host: &dyn Host) -> Self {
        Changes {
            tools: Some(host.tools_version()),
            prompts: host.prompts_version(),
            resources: host.resources_version(),
            updates: host.updates(),
        }
    }

    /// The next change; for ever if nothing changes any more.
    async fn next(&mut self) -> Change {
        tokio::select! {
            () = changed(&mut self.tools) => Change::Tools,
            () = changed(&mut self.prompts) => Change::Prompts,
            () = changed(&mut self.resources) => Change::Resources,
            uri = updated(&mut self.updates) => Change::Resource(uri),
        }
    }
}

async fn changed(version: &mut Option<watch::Receiver<u64>>) {
    if let Some(receiver) = version
        && receiver.changed().await.is_ok()
    {
        return;
    }
    *version = None;
    std::future::pending().await
}

async fn updated(updates: &mut Option<broadcast::Receiver<String>>) -> String {
    while let Some(receiver) = updates {
        match receiver.recv().await {
            Ok(uri) => return uri,
            // A reader that was too slow has missed some; the next will do as well.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => *updates = None,
        }
    }
    std::future::pending().await
}

/// Tells a client that has a session, beside everything else, until it is gone.
pub(super) fn in_session(
    host: &Arc<dyn Host>,
    peer: Peer<RoleServer>,
    subscribed: Arc<Mutex<BTreeSet<String>>>,
) {
    let mut changes = Changes::of(&**host);
    // The host must be able to end while somebody waits for its changes.
    let host = Arc::downgrade(host);
    tokio::spawn(async move {
        loop {
            let change = tokio::time::timeout(LOOK, changes.next()).await;
            if peer.is_transport_closed() || host.strong_count() == 0 {
                return;
            }
            let told = match change {
                Err(_nothing) => continue,
                Ok(Change::Tools) => peer.notify_tool_list_changed().await,
                Ok(Change::Prompts) => peer.notify_prompt_list_changed().await,
                Ok(Change::Resources) => peer.notify_resource_list_changed().await,
                Ok(Change::Resource(uri)) => {
                    let wanted = lock(&subscribed).contains(&uri);
                    if !wanted {
                        continue;
                    }
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                }
            };
            if told.is_err() {
                return;
            }
        }
    });
}

/// Tells a client that listens, until it stops. `shown` is the version of the tools that it knows: it may have changed them
/// as soon as it was told that it is heard, which is before this begins.
pub(super) async fn in_request(host: &dyn Host, shown: Option<u64>, context: &SubscriptionContext) {
    let mut changes = Changes::of(host);
    if let (Some(shown), Some(tools)) = (shown, &mut changes.tools)
        && *tools.borrow() != shown
    {
        tools.mark_changed();
    }
    let (sink, accepted) = (context.sink(), context.accepted());
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = context.cancelled() => return,
        };
        let told = match change {
            Change::Tools if accepted.tools_list_changed == Some(true) => {
                sink.notify_tool_list_changed().await
            }
            Change::Prompts if accepted.prompts_list_changed == Some(true) => {
                sink.notify_prompt_list_changed().await
            }
            Change::Resources if accepted.resources_list_changed == Some(true) => {
                sink.notify_resource_list_changed().await
            }
            Change::Resource(uri)
                if accepted.resource_subscriptions.as_ref().is_some_and(|uris| uris.contains(&uri)) =>
            {
                sink.notify_resource_updated(uri).await
            }
            _ => continue,
        };
        if told.is_err() {
            return;
        }
    }
}
