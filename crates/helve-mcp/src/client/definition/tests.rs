//! What a server says of a tool: taken, bounded or rejected.

use super::*;
use helve_core::servers::{HttpServer, ServerMay, StdioServer, WorkspaceUse};
use pretty_assertions::assert_eq;
use std::collections::BTreeMap;
use std::time::Duration;

fn server(trusted: bool, http: bool) -> ServerSpec {
    let transport = if http {
        Transport::Http(HttpServer {
            url: "https://example.test/mcp".to_owned(),
            headers: BTreeMap::new(),
            bearer: None,
            oauth: false,
            oauth_client: None,
            sse: false,
        })
    } else {
        Transport::Stdio(StdioServer {
            command: "server".to_owned(),
            args: Vec::new(),
            working_dir: None,
            env: BTreeMap::new(),
            read: Vec::new(),
            write: Vec::new(),
            workspace: WorkspaceUse::Read,
            network: false,
        })
    };
    ServerSpec {
        name: "s".to_owned(),
        transport,
        start_timeout: Duration::from_secs(1),
        call_timeout: Duration::from_secs(1),
        trusted,
        parallel: false,
        allow: None,
        deny: Vec::new(),
        off: Default::default(),
        approval: None,
        tool_approval: BTreeMap::new(),
        rate_limit: None,
        may: ServerMay::default(),
        origin: "test".to_owned(),
    }
}

fn raw(annotations: Value) -> Value {
    json!({"name": "t", "description": "does it", "inputSchema": {"type": "object"}, "annotations": annotations})
}

#[test]
fn hints_raise_and_lower_only_where_the_server_is_trusted() {
    let says = |annotations: Value, trusted: bool, http: bool| {
        let spec = read("s", &raw(annotations)).unwrap().spec(&server(trusted, http), true);
        (spec.read_only, spec.approval)
    };
    use ApprovalNeed::{Always, Never, UnlessAutoApproved};
    for (annotations, trusted, http, expected) in [
        (json!({}), false, false, (false, Never)),
        (json!({}), false, true, (false, UnlessAutoApproved)),
        (json!({"readOnlyHint": true}), false, true, (false, UnlessAutoApproved)),
        (json!({"readOnlyHint": true}), true, true, (true, Never)),
        (json!({"destructiveHint": true}), false, false, (false, UnlessAutoApproved)),
        (json!({"destructiveHint": true}), false, true, (false, Always)),
        (json!({"destructiveHint": false}), false, true, (false, UnlessAutoApproved)),
        (json!({"readOnlyHint": true, "destructiveHint": true}), true, true, (true, Never)),
        (json!({"readOnlyHint": true, "destructiveHint": true}), false, true, (false, Always)),
        (json!({"readOnlyHint": true, "destructiveHint": true}), false, false, (false, UnlessAutoApproved)),
    ] {
        assert_eq!(says(annotations.clone(), trusted, http), expected, "{annotations} {trusted} {http}");
    }
}

#[test]
fn what_the_owner_set_wins() {
    let mut server = server(true, true);
    server.approval = Some(ApprovalNeed::Always);
    server.tool_approval.insert("t".to_owned(), ApprovalNeed::Never);
    let definition = read("s", &raw(json!({"readOnlyHint": true}))).unwrap();
    assert_eq!(definition.spec(&server, true).approval, ApprovalNeed::Never);
    assert!(!definition.spec(&ServerSpec { trusted: false, ..server.clone() }, true).is_concurrency_safe());
    server.parallel = true;
    assert!(definition.spec(&ServerSpec { trusted: false, ..server.clone() }, true).is_concurrency_safe());
    server.tool_approval.clear();
    assert_eq!(definition.spec(&server, true).approval, ApprovalNeed::Always);
}

#[test]
fn words_are_cleaned_and_say_where_they_come_from() {
    let raw = json!({"name": "t", "description": "ignore\u{202e}this\u{1b}[8m", "inputSchema": {"type": "object",
        "properties": {"a": {"type": "string", "description": "x\u{200b}y"}}}});
    let spec = read("s", &raw).unwrap().spec(&server(false, false), true);
    assert_eq!(spec.description, "[Tool of the MCP server 's', in its words.] ignore\\u{202e}this\\x1b[8m");
    assert_eq!(spec.parameters["properties"]["a"]["description"], "x\\u{200b}y");
    assert_eq!(spec.name, "mcp__s__t");
    assert_eq!(spec.origin.unwrap().tool, "t");
}

#[test]
fn a_bad_tool_is_left_out_with_the_reason() {
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({"properties": {"a": deep}});
    }
    let reason = |raw: Value| read("s", &raw).unwrap_err().reason;
    assert_eq!(reason(json!({"inputSchema": {}})), "it has no name");
    assert_eq!(reason(json!({"name": "t"})), "it has no inputSchema");
    assert_eq!(reason(json!({"name": "t", "inputSchema": 7})), "its inputSchema is not a schema");
    assert_eq!(reason(json!({"name": "t", "inputSchema": true})), "its inputSchema is not an object");
    assert_eq!(
        reason(json!({"name": "t", "inputSchema": {"type": "array"}})),
        "its inputSchema does not describe an object"
    );
    assert_eq!(
        reason(json!({"name": "t", "inputSchema": deep})),
        "its definition nests more than 64 levels deep"
    );
    assert!(
        reason(json!({"name": "t", "inputSchema": {"properties": {"a\u{200b}": {}}}}))
            .contains("hidden characters")
    );
    assert!(
        reason(json!({"name": "t", "inputSchema": {"properties": {"a": {"enum": ["x\u{200b}"]}}}}))
            .contains("hidden characters")
    );
    let long = "x".repeat(300 << 10);
    assert!(reason(json!({"name": "t", "description": long, "inputSchema": {}})).contains("bytes"));
}

#[test]
fn schemas_of_any_shape_come_through() {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"n": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}},
        "properties": {"l": {"type": "array"}, "r": {"$ref": "https://elsewhere.test/schema"}},
        "required": ["absent"], "unevaluatedProperties": false, "x-mcp-header": {"odd": 1}});
    let definition = read("s", &json!({"name": "t", "inputSchema": schema})).unwrap();
    assert_eq!(definition.input, schema);
}

#[test]
fn pictures_are_pinned_and_none_is_fetched() {
    let with = |icons: Value| {
        let mut raw = raw(json!({}));
        raw["icons"] = icons;
        read("s", &raw).unwrap()
    };
    let png = json!({"src": "data:image/png;base64,AAAA", "mimeType": "image/svg+xml", "sizes": ["48x48", 7], "theme": "dark", "x": 1});
    let kept = json!({"src": "data:image/png;base64,AAAA", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"});
    let elsewhere = [
        json!({"src": "https://elsewhere.test/a.png"}),
        json!({"src": "data:image/svg+xml,<svg/>"}),
        json!({"src": "data:image/pngx,a"}),
        json!({"src": "data:text/html,a"}),
        json!({"src": format!("data:image/png,{}", "x".repeat(20_000))}),
        json!(7),
    ];
    let bare = read("s", &raw(json!({}))).unwrap();
    // Pins from before pictures were pinned stay good for tools that show none.
    assert_eq!(bare.hash, fingerprint(&raw(json!({}))));
    assert_eq!((with(json!(elsewhere)).hash, with(json!(elsewhere)).icons), (bare.hash.clone(), Vec::new()));
    let pictured = with(json!([elsewhere[0], png, elsewhere[1]]));
    assert_eq!(pictured.icons, [kept]);
    assert_ne!(pictured.hash, bare.hash);
    assert_ne!(pictured.hash, with(json!([{"src": "data:image/png;base64,BBBB"}])).hash);
    assert_eq!(read("s", &pictured.pinned).unwrap(), pictured);
}
