//! The place of a request among all that are worked on.
//!
//! A request has it from its arrival until its answer is sent, or given up, and nobody works on it any more: in a session work goes on
//! where a client hangs up.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Method};
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame};
use rmcp::model::GetExtensions;
use tokio::sync::OwnedSemaphorePermit;

use super::super::crowd::Share;
use super::super::running::Run;
use super::super::straight;
use super::owners::Using;

/// A notice that takes a request back is shorter than this.
const SHORT: u64 = 4 << 10;

/// A place. Every clone is the same one.
#[derive(Clone)]
pub(super) struct Place(Arc<Taken>);

/// What it takes.
struct Taken {
    _permit: OwnedSemaphorePermit,
    _share: Share,
    _using: Option<Using>,
}

/// The place of a request that may be done.
#[derive(Default)]
pub(super) struct PlaceOf(Weak<Taken>);

impl Place {
    pub(super) fn new(permit: OwnedSemaphorePermit, share: Share, using: Option<Using>) -> Place {
        Place(Arc::new(Taken { _permit: permit, _share: share, _using: using }))
    }
}

impl PlaceOf {
    /// That of a request as it came.
    pub(super) fn request(request: &impl GetExtensions) -> PlaceOf {
        let parts = request.extensions().get::<Parts>();
        let place = parts.and_then(|parts| parts.extensions.get::<Place>());
        PlaceOf(place.map_or_else(Weak::new, |place| Arc::downgrade(&place.0)))
    }

    /// The same place for whoever takes its stream up again, as long as somebody works on it.
    pub(super) fn again(&self) -> Option<Place> {
        self.0.upgrade().map(Place)
    }
}

/// Whether a request may be one that makes room, and so comes in without a place: nobody else could end what has them all.
pub(super) fn may_make_room(parts: &Parts) -> bool {
    // A body without a length comes in pieces.
    let has_body = || parts.headers.contains_key(TRANSFER_ENCODING);
    match length(&parts.headers) {
        Some(length) => length <= SHORT && (parts.method == Method::DELETE || parts.method == Method::POST),
        None => parts.method == Method::DELETE && !has_body(),
    }
}

/// Whether it is one.
pub(super) fn makes_room(parts: &Parts, body: &[u8]) -> bool {
    parts.method == Method::DELETE || straight::taken_back(body).is_some()
}

/// How long a body is, by its head.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// An answer that holds the place of its request until it is sent.
pub(super) struct Held {
    pub(super) body: BoxBody<Bytes, Infallible>,
    pub(super) _place: Option<Place>,
    /// The session that it begins.
    pub(super) _begun: Option<Using>,
    pub(super) _run: Option<Run>,
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        poller: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(poller)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
