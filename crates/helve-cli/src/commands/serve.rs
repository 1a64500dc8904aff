//! `helve serve`: the MCP server over HTTP, for clients that bring a token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use clap::Args as ClapArgs;
use helve::mcp::server::{Gate, Hosts, HttpFace, HttpOptions, Token};
use helve::mcp::token;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
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
each further line `NAME TOKEN` of that file is a client of its own, with its own session; approvals and limits are kept for it as \
`mcp:NAME`, whatever it calls itself. Only this machine can connect \
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
    /// A web page's origin that may connect, such as https://example.com; with `:*` at any port; can be repeated
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
        ..within(files())
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
            ui::heard::print_json(&json!({"url": url, "token_file": ui::path_text(&token_file)}))?;
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
        hosts.stop().await;
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

/// So many files a session may have open: those of the sandboxes that wait for its commands above all.
const FILES_OF_SESSION: usize = 48;
/// More files are not asked for.
const MOST_FILES: u64 = 1 << 16;

/// Lets this process open as many files as it may, and gives how many that are. Commands have a limit of their own.
fn files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let may = limit.maximum.unwrap_or(MOST_FILES).min(MOST_FILES);
    let has = limit.current.unwrap_or(u64::MAX);
    let raised = has < may && setrlimit(Resource::Nofile, Rlimit { current: Some(may), ..limit }).is_ok();
    usize::try_from(if raised { may } else { has }).unwrap_or(usize::MAX)
}

/// How much there may be of what needs files: a quarter of them is for connections, half is for sessions, and of these one client
/// has at most half.
fn within(files: usize) -> HttpOptions {
    let most = HttpOptions::default();
    let sessions = most.sessions.min(files / 2 / FILES_OF_SESSION).max(1);
    HttpOptions {
        connections: most.connections.min(files / 4).max(1),
        sessions,
        sessions_of_one: most.sessions_of_one.min(sessions.div_ceil(2)),
        ..most
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_in_finds_files() {
        for files in [256, 1024, 4096, 20_000, 1 << 16, usize::MAX] {
            let HttpOptions { connections, sessions, sessions_of_one, .. } = within(files);
            assert!(connections + sessions * FILES_OF_SESSION <= files / 4 * 3, "{files}");
            assert!(connections > 0 && sessions > 1 && sessions_of_one < sessions, "{files}");
        }
        let (all, most) = (within(1 << 16), HttpOptions::default());
        assert_eq!(
            (all.connections, all.sessions, all.sessions_of_one),
            (most.connections, most.sessions, most.sessions_of_one)
        );
    }
}
