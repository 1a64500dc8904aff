//! The fixtures of the MCP conformance suite as tools of a Helve runtime, behind the same HTTP service as `helve serve`: each
//! call of the suite takes the pipeline and stands in a journal. Only for tests: it asks for no token.
//!
//! `PORT` says where it listens on this machine, `HELVE_HOME` where it keeps its journal. Its address is the first line that it
//! prints.

#![allow(clippy::print_stdout, reason = "a program for tests; whoever started it reads the address")]

mod fixtures;
mod offers;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use helve::mcp::serve::RuntimeHost;
use helve::mcp::server::{Card, Gate, Host, Hosts, HttpFace, HttpOptions};
use helve::{Cancel, ErrorKind, Runtime, ToolError};
use tokio::net::TcpListener;
use tokio::sync::watch;

use offers::FixtureHost;

struct FixtureHosts {
    home: PathBuf,
}

impl FixtureHosts {
    fn host(&self, session: String) -> Result<Arc<dyn Host>, ToolError> {
        let (canceller, cancel) = Cancel::pair();
        // A tool that changes the tools has to know the runtime that it is in.
        let runtime = Arc::new(OnceLock::<Runtime>::new());
        let (prompts, version) = watch::channel(0);
        let mut builder =
            Runtime::builder().home(&self.home).workspace(&self.home).session(&session).cancel(cancel);
        for tool in fixtures::all(&runtime, &Arc::new(prompts)) {
            builder = builder.register(tool);
        }
        let built =
            builder.build().map_err(|error| ToolError::new(ErrorKind::Internal, error.to_string()))?;
        let _ = runtime.set(built.clone());
        let inner = RuntimeHost::new(built, self.home.clone(), session, canceller);
        Ok(Arc::new(FixtureHost::new(inner, version, runtime)))
    }
}

impl Hosts for FixtureHosts {
    fn card(&self) -> Card {
        let name = "helve-conformance".to_owned();
        Card { name, version: "1".to_owned(), prompts: true, completions: true, ..Card::default() }
    }

    fn session(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        let unlike = helve::mcp::token::fresh().map_err(|error| ToolError::internal(error.to_string()))?;
        self.host(format!("{client}-{}", &unlike[..8]))
    }

    fn standing(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        self.host(client.to_owned())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::var("PORT").unwrap_or_else(|_| "8323".to_owned()).parse()?;
    let home = std::env::var_os("HELVE_HOME").ok_or("set HELVE_HOME to a directory for the journal")?;
    let home = std::path::absolute(home)?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let options = HttpOptions { gate: Gate::Open, ..HttpOptions::default() };
    HttpFace::new(Arc::new(FixtureHosts { home }), options)?.serve(listener, &Cancel::never()).await?;
    Ok(())
}
