//! Clients that want to hear of changes: of each once, and of nothing else.

use super::*;
use pretty_assertions::assert_eq;
use serde_json::Value;

/// A request of the newer era.
fn asks(method: &str, mut params: Value) -> Request<Full<Bytes>> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend((!name.is_empty()).then_some(("mcp-name", name.as_str())));
    request(&headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
}

async fn says(face: &HttpFace, method: &str, params: Value) -> String {
    whole(face.handle(asks(method, params)).await).await
}

async fn listens(face: &HttpFace) -> Answer {
    let notifications = json!({"toolsListChanged": true});
    let answer = face.handle(asks("subscriptions/listen", json!({"notifications": notifications}))).await;
    assert_eq!(answer.status(), StatusCode::OK);
    answer
}

/// The methods of what it hears in a moment.
async fn hears(listening: &mut Answer) -> Vec<String> {
    let mut heard = Vec::new();
    let each = async {
        while let Some(Ok(frame)) = listening.body_mut().frame().await {
            let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
            let message = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let message: Vec<Value> = message.filter_map(|data| serde_json::from_str(data).ok()).collect();
            heard.extend(message.iter().map(|message| message["method"].as_str().unwrap().to_owned()));
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(300), each).await;
    heard
}

const BEGUN: &str = "notifications/subscriptions/acknowledged";
const CHANGED: &str = "notifications/tools/list_changed";

#[tokio::test]
async fn who_listens_hears_of_changes_since_it_was_shown_the_tools_and_of_nothing_before() {
    let face = face(|_| ());
    let changes = json!({"name": "changes", "arguments": {}});
    // Who was shown nothing knows nothing that could have changed.
    assert_eq!(hears(&mut listens(&face).await).await, [BEGUN]);
    for _ in 0..2 {
        assert!(says(&face, "tools/list", json!({})).await.contains("tools"));
        let mut listening = listens(&face).await;
        assert_eq!(hears(&mut listening).await, [BEGUN]);
        assert!(says(&face, "tools/call", changes.clone()).await.contains("changed"));
        assert_eq!(hears(&mut listening).await, [CHANGED]);
        // Also who begins to listen behind it.
        assert_eq!(hears(&mut listens(&face).await).await, [BEGUN, CHANGED]);
    }
}

#[tokio::test]
async fn a_session_hears_of_changes_since_it_was_shown_the_tools_and_of_nothing_before() {
    for (is_shown, is_changed, heard) in
        [(false, false, &[][..]), (true, false, &[]), (true, true, &[CHANGED])]
    {
        let face = face(|_| ());
        let answer = face.handle(request(&[], hello())).await;
        let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
        drop(answer);
        let mine = [(SESSION_ID, session.as_str())];
        let says = async |method: &str, params: Value| {
            let said = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
            whole(face.handle(request(&mine, said.to_string())).await).await
        };
        if is_shown {
            assert!(says("tools/list", json!({})).await.contains("tools"));
        }
        if is_changed {
            assert!(says("tools/call", json!({"name": "changes"})).await.contains("changed"));
        }
        let mut notices = request(&mine, String::new());
        *notices.method_mut() = Method::GET;
        let mut notices = face.handle(notices).await;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        drop(face.handle(request(&mine, ready)).await);
        assert_eq!(hears(&mut notices).await, heard, "{is_shown} {is_changed}");
    }
}
