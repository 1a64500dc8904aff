//! Tells a client what has changed: for as long as its session lasts, or for as long as it listens.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve_core::Cancel;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{Notify, broadcast, watch};

use super::Host;
use super::face::lock;

/// How often a task that waits for changes looks whether its client is still there.
const LOOK: Duration = Duration::from_secs(30);

/// So many resources may a session subscribe to.
const MOST_SUBSCRIBED: usize = 256;
/// So many bytes may the address of one have.
const LONGEST_ADDRESS: usize = 2_000;

/// The resources that a session wants to hear of. Nobody listens to the host before there is one: it has something to say with
/// every call.
#[derive(Default)]
pub(super) struct Subscribed {
    kept: Mutex<Kept>,
    /// There is something to listen to.
    begun: Notify,
    /// Somebody tells the session what changes.
    is_told: AtomicBool,
}

#[derive(Default)]
struct Kept {
    uris: BTreeSet<String>,
    /// What is to be listened to, until somebody does.
    updates: Option<broadcast::Receiver<String>>,
    is_heard: bool,
}

impl Subscribed {
    /// Listens from here on: what changes once the client has its answer is told.
    pub(super) fn add(&self, uri: String, host: &dyn Host) -> Result<(), ErrorData> {
        if !is_short(&uri) {
            let message = format!("The address of a resource has at most {LONGEST_ADDRESS} bytes.");
            return Err(ErrorData::invalid_params(message, None));
        }
        let mut kept = lock(&self.kept);
        if kept.uris.len() >= MOST_SUBSCRIBED {
            let message = format!("A session subscribes to at most {MOST_SUBSCRIBED} resources.");
            return Err(ErrorData::invalid_params(message, None));
        }
        kept.uris.insert(uri);
        if !kept.is_heard {
            kept.is_heard = true;
            kept.updates = host.updates();
            self.begun.notify_one();
        }
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        lock(&self.kept).uris.remove(uri);
    }

    /// What is to be listened to; waits for it.
    async fn updates(&self) -> Option<broadcast::Receiver<String>> {
        self.begun.notified().await;
        lock(&self.kept).updates.take()
    }

    /// Whether the session wants to hear of it, and of anything at all.
    fn wants(&self, uri: &str) -> (bool, bool) {
        let mut kept = lock(&self.kept);
        kept.is_heard = !kept.uris.is_empty();
        (kept.uris.contains(uri), kept.is_heard)
    }
}

/// Whether an address is kept.
fn is_short(uri: &str) -> bool {
    uri.len() <= LONGEST_ADDRESS
}

/// What of a wish to listen is kept.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    if let Some(uris) = &mut accepted.resource_subscriptions {
        uris.retain(|uri| is_short(uri));
        uris.truncate(MOST_SUBSCRIBED);
    }
    accepted
}

/// What can change.
struct Changes {
    tools: Option<watch::Receiver<u64>>,
    prompts: Option<watch::Receiver<u64>>,
    resources: Vec<watch::Receiver<u64>>,
    updates: Option<broadcast::Receiver<String>>,
}

enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

impl Changes {
    /// What changes from here on, and whether the tools have since the client was shown this version of them.
    fn of(host: &dyn Host, shown: Option<u64>) -> Self {
        let mut tools = host.tools_version();
        // What came before counts by the version that is shown alone: the two may count differently.
        tools.mark_unchanged();
        if shown.is_some_and(|shown| shown != host.tools_changes()) {
            tools.mark_changed();
        }
        Changes {
            tools: Some(tools),
            prompts: host.prompts_version(),
            resources: host.resources_versions(),
            updates: host.updates(),
        }
    }

    /// The next change; for ever if nothing changes any more.
    async fn next(&mut self) -> Change {
        tokio::select! {
            () = changed(&mut self.tools) => Change::Tools,
            () = changed(&mut self.prompts) => Change::Prompts,
            () = any_changed(&mut self.resources) => Change::Resources,
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

/// The same for whichever of them does so first.
async fn any_changed(versions: &mut Vec<watch::Receiver<u64>>) {
    while !versions.is_empty() {
        let each = versions.iter_mut().map(|version| Box::pin(version.changed()));
        let (changed, at, _) = futures::future::select_all(each).await;
        if changed.is_ok() {
            return;
        }
        versions.remove(at);
    }
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

/// Tells a client that has a session, beside everything else, until that ends or the client is gone. However often it says that it is
/// ready, it is told once. `shown` is the version of the tools that it knows, if it has asked before it was ready.
pub(super) fn in_session(
    host: &Arc<dyn Host>,
    peer: Peer<RoleServer>,
    subscribed: Arc<Subscribed>,
    shown: Option<u64>,
    ended: Cancel,
) {
    if subscribed.is_told.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut changes = Changes { updates: None, ..Changes::of(&**host, shown) };
    // The host must be able to end while somebody waits for its changes.
    let host = Arc::downgrade(host);
    tokio::spawn(async move {
        loop {
            let change = tokio::select! {
                change = tokio::time::timeout(LOOK, changes.next()) => change,
                updates = subscribed.updates() => {
                    changes.updates = updates;
                    continue;
                }
                () = ended.cancelled() => return,
            };
            if peer.is_transport_closed() || host.strong_count() == 0 {
                return;
            }
            let told = match change {
                Err(_nothing) => continue,
                Ok(Change::Tools) => peer.notify_tool_list_changed().await,
                Ok(Change::Prompts) => peer.notify_prompt_list_changed().await,
                Ok(Change::Resources) => peer.notify_resource_list_changed().await,
                Ok(Change::Resource(uri)) => {
                    let (this_one, any) = subscribed.wants(&uri);
                    if !any {
                        changes.updates = None;
                    }
                    if !this_one {
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
    let mut changes = Changes::of(host, shown);
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
