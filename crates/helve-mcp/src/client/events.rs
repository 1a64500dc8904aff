//! Events of a server, each no larger than a cap, and streams of them that are not asked for again too soon.
//!
//! The SDK asks for a stream again as soon as it ends, or as soon as the server says; a server whose streams end at once would be
//! asked without pause. Here the end of a stream is not told before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};
use tokio::time::Instant;

use super::frame::{VALUES, holds_too_much};

/// The shortest time from the beginning of a stream to the next. It doubles with each stream that brings nothing, up to the
/// last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(crate) const LAST_PAUSE: Duration = Duration::from_secs(60);
/// A stream that lasted so long was of use, whatever it brought.
const STEADY: Duration = Duration::from_secs(10);

/// Events.
pub(crate) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Why events end.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Source(reqwest::Error),
    #[error("an event of more than {0} bytes")]
    TooLong(usize),
    #[error("an event of more than {0} values")]
    TooMany(usize),
}

/// The events of a response, each no larger than the cap.
pub(crate) fn events(response: reqwest::Response, cap: usize) -> Events {
    let mut limit = EventLimit::new(cap);
    let bytes = response.bytes_stream().map(move |chunk| -> Result<Bytes, Fault> {
        let chunk = chunk.map_err(Fault::Source)?;
        if limit.passes(&chunk) { Ok(chunk) } else { Err(Fault::TooLong(cap)) }
    });
    let counted = |event: Result<Sse, SseError>| match event {
        Ok(event) if event.data.as_ref().is_some_and(|data| holds_too_much(data.as_bytes())) => {
            Err(SseError::Body(Box::new(Fault::TooMany(VALUES))))
        }
        event => event,
    };
    SseStream::from_bytes_stream(bytes).map(counted).boxed()
}

/// Whether events ended at the cap, or at one that holds too much.
pub(crate) fn is_too_long(error: &SseError) -> bool {
    match error {
        SseError::Body(fault) => matches!(fault.downcast_ref(), Some(Fault::TooLong(_) | Fault::TooMany(_))),
        _ => false,
    }
}

/// Counts the bytes of an event: up to an empty line.
struct EventLimit {
    cap: usize,
    seen: usize,
    at_line_start: bool,
}

impl EventLimit {
    fn new(cap: usize) -> EventLimit {
        EventLimit { cap, seen: 0, at_line_start: true }
    }

    fn passes(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            self.seen += 1;
            match byte {
                b'\n' if self.at_line_start => self.seen = 0,
                b'\n' => self.at_line_start = true,
                // A carriage return alone also ends a line; counting on over it only makes the bound stricter.
                b'\r' => {}
                _ => self.at_line_start = false,
            }
            if self.seen > self.cap {
                return false;
            }
        }
        true
    }
}

/// How many streams of one server have brought nothing, in a row.
#[derive(Clone, Default)]
pub(crate) struct Pace(Arc<AtomicU32>);

impl Pace {
    /// A stream whose end is told when the next may begin.
    pub(crate) fn hold(&self, events: Events) -> Events {
        let (pace, from) = (self.clone(), Instant::now());
        stream::unfold(Some(events), move |events| {
            let pace = pace.clone();
            async move {
                let mut events = events?;
                match events.next().await {
                    Some(Ok(event)) => {
                        if event.data.as_ref().is_some_and(|data| !data.is_empty()) {
                            pace.0.store(0, Ordering::Relaxed);
                        }
                        Some((Ok(event), Some(events)))
                    }
                    end => {
                        tokio::time::sleep_until(from + pace.pause(from.elapsed())).await;
                        end.map(|error| (error, None))
                    }
                }
            }
        })
        .boxed()
    }

    /// The time from the beginning of a stream that has ended now to the next.
    fn pause(&self, lasted: Duration) -> Duration {
        if lasted >= STEADY {
            self.0.store(0, Ordering::Relaxed);
        }
        let doubled = self.0.fetch_add(1, Ordering::Relaxed).min(16);
        FIRST_PAUSE.saturating_mul(1 << doubled).min(LAST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn an_event_is_bounded_and_many_are_not() {
        let mut limit = EventLimit::new(16);
        for _ in 0..100 {
            assert!(limit.passes(b"data: a\r\n\r\n"));
        }
        assert!(limit.passes(b"data: 12345"));
        assert!(!limit.passes(b"6789012"));
    }

    /// The seconds until the end of a stream that has these events and ends at once.
    async fn seconds(pace: &Pace, events: Vec<Sse>) -> u64 {
        let (from, count) = (Instant::now(), events.len());
        let held = pace.hold(stream::iter(events.into_iter().map(Ok)).boxed());
        assert_eq!(held.collect::<Vec<_>>().await.len(), count);
        from.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_bring_nothing_begin_ever_more_seldom() {
        let pace = Pace::default();
        let barren = || vec![Sse::default().retry(0).id("1").data("")];
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(seconds(&pace, barren()).await, expected);
        }
        assert_eq!(seconds(&pace, vec![Sse::default().data("{}")]).await, 1);
        assert_eq!(seconds(&pace, vec![Sse::default().data("{}")]).await, 1);
        let broken = stream::iter([Err(SseError::InvalidLine)]).boxed();
        let from = Instant::now();
        assert!(pace.hold(broken).next().await.unwrap().is_err());
        assert_eq!(from.elapsed().as_secs(), 2);
    }
}
