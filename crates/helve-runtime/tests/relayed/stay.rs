//! The journal is kept between calls where that was asked, and never from whoever may want it.

use helve_core::InstantTool;
use pretty_assertions::assert_eq;

use super::*;

/// Does its work at once, and says whether somebody could record something meanwhile.
struct Looks(ToolSpec, std::path::PathBuf);

pub(super) fn is_free(journal: &Path) -> bool {
    std::fs::File::open(journal).unwrap().try_lock().is_ok()
}

impl InstantTool for Looks {
    fn now(&self, _args: Value) -> Result<Output, ToolError> {
        Ok(Output { content: vec![Content::text(is_free(&self.1).to_string())], ..Output::default() })
    }
}

impl Tool for Looks {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn instant(&self) -> Option<&dyn InstantTool> {
        Some(self)
    }

    fn run<'a>(&'a self, args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { self.now(args) })
    }
}

#[tokio::test]
async fn the_journal_stays_where_that_was_asked_and_never_with_a_tool() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state/sessions/test/journal.jsonl");
    let looks = ToolSpec::new("looks", "Looks.", json!({"type": "object", "properties": {}})).read_only();
    let builder = builder(dir.path(), "").register(Relay::read_only()).register(Looks(looks, file.clone()));
    let server = Server::default();
    server.0.lock().unwrap().home = dir.path().to_owned();
    let runtime = builder.servers(Arc::new(server)).build().unwrap();
    let mut at_once = runtime.at_once(by_one());
    numbers(at_once.calls(calls(&["a"])));
    results(&mut at_once, 1).await;
    assert!(is_free(&file), "nobody asked");
    at_once.stay();
    numbers(at_once.calls(calls(&["a"])));
    assert!(!is_free(&file), "from when it is planned");
    results(&mut at_once, 1).await;
    assert!(!is_free(&file));
    numbers(at_once.calls(calls(&["look"])));
    let (_, looked) = results(&mut at_once, 1).await.remove(0);
    assert_eq!(looked.text(), "true", "while somebody may do the work of the call by being polled");
    let mut both = calls(&["a"]);
    both.push(Call::new("looks", json!({})));
    match &at_once.calls(both)[..] {
        [Stand::Sent(_), Stand::Done(result)] => assert_eq!(result.text(), "true", "while the tool runs"),
        _ => unreachable!("one is sent and one is done"),
    }
    at_once.rest();
    assert!(is_free(&file));
    results(&mut at_once, 1).await;
    assert!(is_free(&file));
    at_once.stay();
    numbers(at_once.calls(calls(&["hold"])));
    drop(at_once);
    assert!(is_free(&file), "it is gone");
    assert_eq!(journal(dir.path()).lines().count(), 12);
}
