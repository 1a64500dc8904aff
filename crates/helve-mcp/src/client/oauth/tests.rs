//! Sign-ins at servers that are a resource, an authorization server, or both.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::client::fake::{Memory, heard, hide, spec};
use crate::client::{Fleet, FleetLimits, FleetParts};
use helve_core::ServerSpec;
use helve_core::servers::{OauthClient, Transport};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// Tokens in memory, and an owner who agrees to everything.
#[derive(Default)]
struct Agrees {
    tokens: Mutex<BTreeMap<String, String>>,
    opened: Mutex<Vec<String>>,
}

impl TokenStore for Agrees {
    fn get(&self, key: &str) -> Result<Option<String>, ToolError> {
        Ok(self.tokens.lock().unwrap().get(key).cloned())
    }

    fn set(&self, key: &str, value: &str) -> Result<(), ToolError> {
        self.tokens.lock().unwrap().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), ToolError> {
        self.tokens.lock().unwrap().remove(key);
        Ok(())
    }
}

impl Owner for Agrees {
    fn open(&self, _server: &str, url: &str) {
        self.opened.lock().unwrap().push(url.to_owned());
        let url = url::Url::parse(url).unwrap();
        let of = |wanted: &str| {
            let (_, value) = url.query_pairs().find(|(name, _)| name == wanted).unwrap();
            value.into_owned()
        };
        let (state, back) = (of("state"), url::Url::parse(&of("redirect_uri")).unwrap());
        tokio::spawn(async move {
            let mut stream =
                TcpStream::connect((back.host_str().unwrap(), back.port().unwrap())).await.unwrap();
            let path = back.path();
            let head = format!("GET {path}?code=CODE&state={state} HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        });
    }
}

/// A request that came: its method and path, its `Authorization`, its body.
#[derive(Clone, Debug)]
struct Came {
    to: String,
    authorization: Option<String>,
    body: String,
}

type Answers = Arc<dyn Fn(&Came) -> (u16, Value) + Send + Sync>;

/// A server, whose answers can be changed while it runs.
struct Site {
    url: String,
    answers: Arc<Mutex<Answers>>,
    log: Arc<Mutex<Vec<Came>>>,
}

async fn came(stream: &mut TcpStream) -> Option<Came> {
    let (head, body) = heard(stream).await?;
    let authorization = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
    });
    let mut line = head.split([' ', '?']);
    let to = format!("{} {}", line.next().unwrap_or_default(), line.next().unwrap_or_default());
    Some(Came { to, authorization, body: String::from_utf8_lossy(&body).into_owned() })
}

impl Site {
    async fn new() -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let nothing: Answers = Arc::new(|_: &Came| (404, Value::Null));
        let (answers, log) = (Arc::new(Mutex::new(nothing)), Arc::new(Mutex::new(Vec::new())));
        let site = Site { answers: Arc::clone(&answers), log: Arc::clone(&log), url: url.clone() };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answers, log, url) = (Arc::clone(&answers), Arc::clone(&log), url.clone());
                tokio::spawn(async move {
                    while let Some(came) = came(&mut stream).await {
                        let answers = Arc::clone(&answers.lock().unwrap());
                        let (status, body) = answers(&came);
                        log.lock().unwrap().push(came);
                        let body = if body.is_null() { String::new() } else { body.to_string() };
                        let head = format!(
                            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nWWW-Authenticate: Bearer \
                             resource_metadata=\"{url}/.well-known/oauth-protected-resource/mcp\"\r\nContent-Length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        stream.write_all(head.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        site
    }

    fn answer(&self, answers: impl Fn(&Came) -> (u16, Value) + Send + Sync + 'static) {
        *self.answers.lock().unwrap() = Arc::new(answers);
    }

    fn came_to(&self, to: &str) -> Vec<Came> {
        self.log.lock().unwrap().iter().filter(|came| came.to == to).cloned().collect()
    }

    /// A resource that lets in whoever has one of these tokens, and names its authorization server.
    fn guard(&self, authorization_server: Value) {
        let metadata = json!({"resource": format!("{}/mcp", self.url),
            "authorization_servers": [authorization_server]});
        self.answer(move |came| match came.to.as_str() {
            "GET /.well-known/oauth-protected-resource/mcp" => (200, metadata.clone()),
            "POST /mcp" => mcp(came),
            _ => (404, Value::Null),
        });
    }

    /// An authorization server whose tokens expire at once.
    fn issue(&self, secret: Option<&'static str>, changed: Value) {
        let url = self.url.clone();
        let mut metadata = json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]});
        metadata.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        self.answer(move |came| match came.to.as_str() {
            "GET /.well-known/oauth-authorization-server" => (200, metadata.clone()),
            "POST /register" => (201, json!({"client_id": "registered", "redirect_uris": []})),
            "POST /token" if secret.is_some() && came.authorization.is_none() => {
                (401, json!({"error": "invalid_client"}))
            }
            "POST /token" => (
                200,
                json!({"access_token": "ACCESS", "token_type": "Bearer", "expires_in": 1,
                "refresh_token": "REFRESH"}),
            ),
            _ => (404, Value::Null),
        });
    }
}

fn mcp(came: &Came) -> (u16, Value) {
    if came.authorization.as_deref() != Some("Bearer ACCESS") {
        return (401, Value::Null);
    }
    let asked: Value = serde_json::from_str(&came.body).unwrap();
    let result = match asked["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}}),
        "tools/list" => json!({"tools": []}),
        "server/discover" => return (400, Value::Null),
        _ => return (202, Value::Null),
    };
    (200, json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}

/// Looks at a server in a process of its own, so to speak: nothing is remembered but what is kept.
async fn look(site: &Site, agrees: &Arc<Agrees>, owner: bool, secret: Option<&str>) -> Result<(), ToolError> {
    let oauth_client = secret.map(|secret| OauthClient {
        id: Some("cid".to_owned()),
        secret: Some(secret.to_owned()),
        ..OauthClient::default()
    });
    let (url, headers) = (format!("{}/mcp", site.url), Default::default());
    let http = HttpServer { url, headers, bearer: None, oauth: true, oauth_client, sse: false };
    let server = ServerSpec { transport: Transport::Http(http), ..spec("s") };
    let memory = Arc::new(Memory::default());
    let parts = FleetParts {
        launch: Arc::new(|_, _| Err(ToolError::internal("nothing is started here"))),
        contains: true,
        pins: Arc::clone(&memory) as _,
        tokens: Arc::clone(agrees) as _,
        log: memory as _,
        hide: hide(),
        owner: owner.then(|| Arc::clone(agrees) as _),
        workspace: None,
        limits: FleetLimits { frame_bytes: 1 << 20, tools: 100 },
    };
    Fleet::new(vec![server], parts).look("s").await.map(|_| ())
}

#[tokio::test]
async fn what_is_kept_is_renewed_where_it_came_from() {
    let (resource, issuer) = (Site::new().await, Site::new().await);
    resource.guard(json!(issuer.url));
    issuer.issue(None, json!({}));
    let agrees = Arc::new(Agrees::default());
    look(&resource, &agrees, true, None).await.unwrap();
    let before = issuer.came_to("POST /token").len();
    look(&resource, &agrees, false, None).await.unwrap();
    let renewed = issuer.came_to("POST /token").split_off(before);
    assert!(!renewed.is_empty() && renewed.iter().all(|came| came.body.contains("REFRESH")), "{renewed:?}");
    assert_eq!(agrees.opened.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refresh_token_goes_to_nobody_else() {
    let (resource, issuer, other) = (Site::new().await, Site::new().await, Site::new().await);
    let agrees = Arc::new(Agrees::default());
    resource.guard(json!(issuer.url));
    issuer.issue(None, json!({}));
    look(&resource, &agrees, true, None).await.unwrap();
    let kept = agrees.tokens.lock().unwrap().clone();
    assert!(kept.values().all(|kept| kept.contains("REFRESH")), "{kept:?}");
    let refused = |error: ToolError| assert_eq!(error.kind, ErrorKind::ApprovalRequired, "{error}");

    // Nothing is named any more: the SDK would ask the resource itself.
    resource.answer(|came| if came.to == "POST /mcp" { mcp(came) } else { (404, Value::Null) });
    refused(look(&resource, &agrees, false, None).await.unwrap_err());
    assert_eq!(resource.came_to("POST /token").len(), 0);

    // Another authorization server.
    resource.guard(json!(other.url));
    other.issue(None, json!({}));
    refused(look(&resource, &agrees, false, None).await.unwrap_err());

    // One that calls itself the same, at an address from which nobody can tell what it is to call itself.
    resource.guard(json!(format!("{}/.well-known/mine", other.url)));
    let (mine, same) = (other.url.clone(), issuer.url.clone());
    other.answer(move |came| match came.to.as_str() {
        "GET /.well-known/mine" => (
            200,
            json!({"issuer": same, "authorization_endpoint": format!("{mine}/authorize"),
            "token_endpoint": format!("{mine}/token")}),
        ),
        _ => (404, Value::Null),
    });
    refused(look(&resource, &agrees, false, None).await.unwrap_err());
    assert_eq!(other.came_to("POST /token").len(), 0);
    assert_eq!(*agrees.tokens.lock().unwrap(), kept);
}

#[tokio::test]
async fn a_client_with_a_secret_renews_with_it() {
    let (resource, issuer) = (Site::new().await, Site::new().await);
    resource.guard(json!(issuer.url));
    issuer.issue(Some("client secret"), json!({}));
    let agrees = Arc::new(Agrees::default());
    look(&resource, &agrees, true, Some("client secret")).await.unwrap();
    look(&resource, &agrees, false, Some("client secret")).await.unwrap();
    look(&resource, &agrees, false, Some("client secret")).await.unwrap();
    assert_eq!(agrees.opened.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_owner_signs_in_again_where_renewing_fails() {
    let (resource, issuer) = (Site::new().await, Site::new().await);
    resource.guard(json!(issuer.url));
    issuer.issue(None, json!({}));
    let agrees = Arc::new(Agrees::default());
    look(&resource, &agrees, true, None).await.unwrap();
    issuer.issue(Some("any"), json!({}));
    let error = look(&resource, &agrees, false, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ApprovalRequired, "{error}");
    assert!(error.message.contains("invalid_client"), "{error}");
    look(&resource, &agrees, true, Some("any")).await.unwrap();
    assert_eq!(agrees.opened.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn no_endpoint_is_without_encryption() {
    for endpoint in ["token_endpoint", "registration_endpoint", "authorization_endpoint"] {
        let (resource, issuer) = (Site::new().await, Site::new().await);
        resource.guard(json!(issuer.url));
        issuer.issue(None, json!({(endpoint): "http://issuer.example.test/here"}));
        let agrees = Arc::new(Agrees::default());
        let error = look(&resource, &agrees, true, None).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Blocked, "{error}");
        assert!(error.message.contains(&endpoint.replace('_', " ")), "{error}");
        assert_eq!(issuer.came_to("POST /register").len(), 0, "{endpoint}");
    }
}
