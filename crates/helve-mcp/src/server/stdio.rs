//! The face on two streams, such as standard input and output: one client, which ends with its input.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use helve_core::Cancel;
use rmcp::service;
use rmcp::transport::io::stdio;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Hosts;
use super::door::Door;
use super::face::{Face, Shared};
use super::input::Lines;
use super::output;
use super::running::TAKEN_BACK;
use super::streams::Streams;
use crate::ends::{ReadEnd, Source, WriteEnd};

/// How long the last answers may take once the server is to end.
const ENDING: Duration = TAKEN_BACK.saturating_add(Duration::from_secs(1));

/// Serves the client at the other end of standard input and output until that ends or `cancel` fires; then calls under way are
/// taken back, recorded and answered. A message of more than
/// `frame_bytes` bytes is answered with an error. Nothing but the protocol is written to standard output.
pub async fn serve_stdio(hosts: Arc<dyn Hosts>, frame_bytes: usize, cancel: &Cancel) -> std::io::Result<()> {
    match (ReadEnd::standard(), WriteEnd::standard()) {
        (Some(input), Some(output)) => serve(hosts, input, output, frame_bytes, cancel).await,
        _ => {
            let (input, output) = stdio();
            serve(hosts, input, output, frame_bytes, cancel).await
        }
    }
}

/// The same for the client at the other end of any two streams.
pub async fn serve_streams(
    hosts: Arc<dyn Hosts>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    frame_bytes: usize,
    cancel: &Cancel,
) -> std::io::Result<()> {
    serve(hosts, input, output, frame_bytes, cancel).await
}

async fn serve(
    hosts: Arc<dyn Hosts>,
    input: impl Source + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    frame_bytes: usize,
    cancel: &Cancel,
) -> std::io::Result<()> {
    let (ended, gone) = Cancel::pair();
    let shared = Shared::new(hosts)?;
    let (running, door) = (Arc::clone(&shared.running), Arc::new(OnceLock::new()));
    let face = Arc::new(Face::new(shared, false, gone));
    let lines = Lines::new(input, frame_bytes, ended);
    let streams = Streams::new(lines, output, Arc::clone(&door), Arc::clone(&running));
    let mut serving = pin!(async {
        match service::serve_server(Arc::clone(&face), streams).await {
            Ok(running) => {
                if let Some(open) = Door::new(face, running.peer()) {
                    let _ = door.set(Arc::new(open));
                }
                let _ = running.waiting().await;
                Ok(())
            }
            // A client that ends before it has said anything wants nothing.
            Err(service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(service::ServerInitializeError::ExpectedInitializeRequest(_)) => {
                Err(std::io::Error::other("it does not introduce itself"))
            }
            // What the SDK says of it names its types.
            Err(service::ServerInitializeError::TransportError { .. }) => Err(output::gone()),
            Err(error) => Err(std::io::Error::other(error.to_string())),
        }
    });
    tokio::select! {
        served = &mut serving => served,
        () = cancel.cancelled() => {
            running.take_back();
            tokio::time::timeout(ENDING, serving).await.unwrap_or(Ok(()))
        }
    }
}
