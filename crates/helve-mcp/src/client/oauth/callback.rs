//! The answer of an authorization server, which the owner's browser brings to a port of this machine.
//!
//! Whatever page the owner has open can ask that port for something as well. What does not bear the state of this sign-in is told
//! that nothing is here, and the answer is waited for on.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// Bytes of a request to the port that are read.
const REQUEST: usize = 16 << 10;
/// How long whoever knocks may take.
const KNOCK: Duration = Duration::from_secs(5);
const CALLBACK: &str = "/callback";

/// A port of this machine, and the sign-in whose answer is to come there.
pub(super) struct Callback {
    listener: TcpListener,
    address: String,
}

impl Callback {
    pub(super) async fn open() -> std::io::Result<Callback> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
        Ok(Callback { listener, address })
    }

    /// Where the browser is to be sent.
    pub(super) fn url(&self) -> String {
        format!("{}{CALLBACK}", self.address)
    }

    /// Waits for the answer that bears this state.
    pub(super) async fn answer(&self, state: &str) -> std::io::Result<String> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let asked = tokio::time::timeout(KNOCK, self.answered(stream, state)).await;
            if let Ok(Ok(Some(url))) = asked {
                return Ok(url);
            }
        }
    }

    /// Answers one request; gives its address if that is the one that is waited for.
    async fn answered(&self, mut stream: TcpStream, state: &str) -> std::io::Result<Option<String>> {
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if head.len() > REQUEST || stream.read_buf(&mut head).await? == 0 {
                return Ok(None);
            }
        }
        let text = String::from_utf8_lossy(&head);
        let url = text
            .strip_prefix("GET ")
            .and_then(|rest| rest.split(' ').next())
            .filter(|target| target.split('?').next() == Some(CALLBACK))
            .map(|target| format!("{}{target}", self.address))
            .filter(|url| state_of(url).as_deref() == Some(state));
        let (status, body) = match url {
            Some(_) => ("200 OK", "You can close this page and go back to Helve."),
            None => ("404 Not Found", "Nothing is here."),
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        Ok(url)
    }
}

/// The state that an address bears; none where it bears several.
pub(super) fn state_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let mut states = url.query_pairs().filter(|(name, _)| name == "state");
    let (_, state) = states.next()?;
    states.next().is_none().then(|| state.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[tokio::test]
    async fn only_the_answer_to_this_sign_in_is_taken() {
        let callback = Callback::open().await.unwrap();
        let address = callback.address.strip_prefix("http://").unwrap().to_owned();
        let ask = async |target: &str| {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer.lines().next().unwrap_or_default().to_owned()
        };
        let others = [
            "/favicon.ico",
            "/callback",
            "/callback?anything",
            "/callback?code=1&state=another",
            "/callback?code=1&state=another&state=mine",
            "/elsewhere?code=1&state=mine",
        ];
        let asking = async {
            let mut said = Vec::new();
            for other in others {
                said.push(ask(other).await);
            }
            (said, ask("/callback?code=1&state=mine").await)
        };
        let both = async { tokio::join!(callback.answer("mine"), asking) };
        let (url, (said, last)) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
        assert_eq!(url.unwrap(), format!("{}?code=1&state=mine", callback.url()));
        assert_eq!(said, vec!["HTTP/1.1 404 Not Found"; others.len()]);
        assert_eq!(last, "HTTP/1.1 200 OK");
    }
}
