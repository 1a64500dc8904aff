//! Requests of sessions that are not answered yet, by their ids.
//!
//! Answers find their streams by these ids alone, so one that comes a second time would take the answer of the first. An id is in use
//! from the request until its answer is told or its stream ends, and, where it was taken back, until nobody works on it any more.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionId;

use super::super::super::face::lock;

type Own = (SessionId, RequestId);

/// All that are in use.
#[derive(Default)]
pub(super) struct Flights(Arc<Mutex<HashSet<Own>>>);

/// The id of a request, in use until this goes.
pub(super) struct Flight {
    all: Arc<Mutex<HashSet<Own>>>,
    own: Own,
}

impl Flights {
    /// Takes an id; none if it is in use.
    pub(super) fn begin(&self, session: &SessionId, request: &RequestId) -> Option<Arc<Flight>> {
        let own = (Arc::clone(session), request.clone());
        let is_new = lock(&self.0).insert(own.clone());
        is_new.then(|| Arc::new(Flight { all: Arc::clone(&self.0), own }))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.own);
    }
}
