//! The face on two streams, such as standard input and output: one client, which ends with its input.

use std::sync::{Arc, OnceLock};

use helve_core::Cancel;
use rmcp::service;
use rmcp::transport::io::stdio;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Hosts;
use super::door::Door;
use super::face::{Face, Shared};
use super::input::Lines;
use super::streams::Streams;
use crate::ends::{ReadEnd, Source, WriteEnd};

/// Serves the client at the other end of standard input and output until that ends or `cancel` fires. A message of more than
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
    let face = Arc::new(Face::new(Shared::new(hosts)?, false, gone));
    let door = Arc::new(OnceLock::new());
    let streams = Streams::new(Lines::new(input, frame_bytes, ended), output, Arc::clone(&door));
    let serving = async {
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
            Err(error) => Err(std::io::Error::other(error.to_string())),
        }
    };
    tokio::select! {
        served = serving => served,
        () = cancel.cancelled() => Ok(()),
    }
}
