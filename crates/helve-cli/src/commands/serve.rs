//! `helve serve`: the MCP server over HTTP, for clients that bring a token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use clap::Args as ClapArgs;
use helve::mcp::server::{Gate, Hosts, HttpFace, HttpOptions, Token};
use helve::mcp::token;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};

use crate::args::Global;
use crate::failure::{CANCELLED, Failure};
use crate::hosts::{self, ClientHosts, Clients, Offer, Offered};
use crate::{interrupt, ui};

/// Offer the tools to MCP clients over HTTP
#[derive(ClapArgs)]
#[command(long_about = "\
Offer the tools to MCP clients over HTTP (Streamable HTTP, at the path /mcp).

A client brings a token in the header `Authorization: Bearer …`. The first start makes one, in a file that only you can read; \
each further line `NAME TOKEN` of that file is a client of its own, with its own session. Only this machine can connect \
unless --listen says otherwise, and a request from a web page of another machine is refused unless --allow-origin names it.")]
#[command(after_help = "\
Examples:
  helve serve
  helve serve --listen 127.0.0.1:9000 --profile readonly
  helve serve --print-token")]
pub(crate) struct Options {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8321")]
    listen: SocketAddr,
    /// A name besides this machine's own that clients may call the server by; can be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// A web page's origin that may connect, such as https://example.com:443; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Print the token of the first client, and end
    #[arg(long)]
    print_token: bool,
    #[command(flatten)]
    offer: Offer,
}

pub(crate) fn serve(global: &Global, options: &Options) -> Result<u8, Failure> {
    if options.print_token {
        return print_token(global);
    }
    let Offered { hosts, cancel, canceller } = hosts::offered(global, &options.offer, "serve")?;
    let tokens = tokens(hosts.home())?;
    let http = HttpOptions {
        gate: Gate::Tokens(tokens.iter().map(|one| Token::new(&one.client, &one.token)).collect()),
        hosts: names(options),
        origins: HttpOptions::default().origins.into_iter().chain(options.allow_origin.clone()).collect(),
        body_bytes: hosts.frame_bytes(),
        connections: connections(),
        ..HttpOptions::default()
    };
    let token_file = token::path(hosts.home());
    let cannot = |error: std::io::Error| {
        let listen = options.listen;
        Failure::usage(format!("{listen} cannot be served ({error}); choose another address with --listen"))
    };
    let served = hosts::block_on(Clients::Many, async {
        let listener = listen(options.listen).map_err(cannot)?;
        let url = format!("http://{}/mcp", listener.local_addr().map_err(cannot)?);
        if global.json {
            ui::print_json(&json!({"url": url, "token_file": token_file}))?;
        }
        ui::note(&format!("serving {url}; the token is in {}", token_file.display()));
        if !options.listen.ip().is_loopback() {
            ui::note("anybody on the network can read what is not encrypted: put a proxy with TLS before it");
        }
        hosts.settle().await;
        let offered = Arc::<ClientHosts>::clone(&hosts) as Arc<dyn Hosts>;
        let face = HttpFace::new(offered, http).map_err(cannot)?;
        let served = face.serve(listener, &cancel).await.map_err(cannot);
        canceller.cancel();
        hosts.stop();
        served
    })?;
    served?;
    Ok(if interrupt::was_asked_to_end() { 0 } else { CANCELLED })
}

/// A door where as many may wait as may be inside: the system's usual 128 would make a crowd wait for seconds.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As a listener of the standard library has it: a port that was just left can be taken again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(u32::try_from(HttpOptions::default().connections).unwrap_or(u32::MAX))
}

/// How many connections may be open: at most half of the files that may be, because calls need some as well.
fn connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = files.and_then(|files| usize::try_from(files / 2).ok()).unwrap_or(usize::MAX);
    HttpOptions::default().connections.min(half).max(1)
}

/// What `Host` may name: this machine, the address that is listened on, and what the owner adds.
fn names(options: &Options) -> Vec<String> {
    let mut names = HttpOptions::default().hosts;
    match options.listen.ip() {
        ip if ip.is_unspecified() => {}
        IpAddr::V4(ip) => names.push(ip.to_string()),
        IpAddr::V6(ip) => names.push(ip.to_string()),
    }
    names.extend(options.allow_host.iter().cloned());
    names
}

fn tokens(home: &std::path::Path) -> Result<Vec<token::ClientToken>, Failure> {
    token::tokens(home).map_err(|error| Failure::usage(error.to_string()))
}

fn print_token(global: &Global) -> Result<u8, Failure> {
    let home = helve::store::Home::default_path()?;
    let tokens = tokens(&home)?;
    let first = tokens.first().ok_or_else(|| Failure::not_found("there is no token"))?;
    if global.json {
        ui::print_json(&json!({"client": first.client, "token": first.token}))?;
    } else {
        ui::print(&first.token)?;
    }
    Ok(0)
}
