//! `helve mcp` without a subcommand: the MCP server on standard input and output.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
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

/// What the C library reads when a program starts, and how many freed pieces of memory of each size a thread keeps at hand.
const TUNABLES: &str = "GLIBC_TUNABLES";
const AT_HAND: &str = "glibc.malloc.tcache_count=64";

pub(super) fn serve(global: &Global, options: &Stdio) -> Result<u8, Failure> {
    keep_memory_at_hand();
    let Offered { hosts, cancel, canceller } = hosts::offered(global, &options.offer, "mcp")?;
    let frame_bytes = hosts.frame_bytes();
    let served = hosts::block_on(Clients::One, async {
        hosts.settle().await;
        let served =
            serve_stdio(Arc::<ClientHosts>::clone(&hosts) as Arc<dyn Hosts>, frame_bytes, &cancel).await;
        let interrupted = cancel.is_cancelled();
        canceller.cancel();
        hosts.stop().await;
        served.map(|()| interrupted)
    })?;
    match served {
        Ok(true) => Ok(CANCELLED),
        Ok(false) => Ok(0),
        Err(error) => Err(Failure::internal(format!("the client cannot be served: {error}"))),
    }
}

/// Starts this program anew, in its place, so that more memory is kept at hand: calls are taken up to sixteen at a time, and of
/// its own accord the library keeps seven pieces of a size, beyond which each takes several times as long. Where somebody has
/// chosen otherwise, and where it cannot be done, nothing happens.
fn keep_memory_at_hand() {
    if cfg!(not(all(target_os = "linux", target_env = "gnu"))) || std::env::var_os(TUNABLES).is_some() {
        return;
    }
    let mut words = std::env::args_os();
    if let (Some(name), Ok(program)) = (words.next(), std::env::current_exe()) {
        // Comes back only where it fails.
        let _ = Command::new(program).arg0(name).args(words).env(TUNABLES, AT_HAND).exec();
    }
}
