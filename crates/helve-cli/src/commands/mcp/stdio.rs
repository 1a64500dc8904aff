//! `helve mcp` without a subcommand: the MCP server on standard input and output.

use std::sync::Arc;

use clap::Args as ClapArgs;
use helve::mcp::server::{Hosts, serve_stdio};

use crate::args::Global;
use crate::failure::{CANCELLED, Failure};
use crate::hosts::{self, ClientHosts, Clients, Offer, Offered};

#[derive(ClapArgs)]
pub(super) struct Stdio {
    #[command(flatten)]
    offer: Offer,
}

pub(super) fn serve(global: &Global, options: &Stdio) -> Result<u8, Failure> {
    let Offered { hosts, cancel, canceller } = hosts::offered(global, &options.offer, "mcp")?;
    let frame_bytes = hosts.frame_bytes();
    let served = hosts::block_on(Clients::One, async {
        hosts.settle().await;
        let served =
            serve_stdio(Arc::<ClientHosts>::clone(&hosts) as Arc<dyn Hosts>, frame_bytes, &cancel).await;
        let interrupted = cancel.is_cancelled();
        canceller.cancel();
        hosts.stop();
        served.map(|()| interrupted)
    })?;
    match served {
        Ok(true) => Ok(CANCELLED),
        Ok(false) => Ok(0),
        Err(error) => Err(Failure::internal(format!("the client cannot be served: {error}"))),
    }
}
