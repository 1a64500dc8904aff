use helve_core::{BoxFuture, Context, Output, ToolError};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

struct Fake(ToolSpec);

impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async { Ok(Output::text("")) })
    }
}

fn tool(name: &str, aliases: &[&str]) -> Box<dyn Tool> {
    let schema = json!({"type": "object", "properties": {}});
    Box::new(Fake(ToolSpec::new(name, "", schema).aliases(aliases)))
}

#[test]
fn names_and_aliases_are_taken_once() {
    let mut registry = Registry::default();
    registry.register(tool("b", &["bee"])).unwrap();
    let taken = |name: &str| RegisterError::Duplicate { name: name.into(), holder: "b".into() };
    assert_eq!(registry.register(tool("b", &[])), Err(taken("b")));
    assert_eq!(registry.register(tool("bee", &[])), Err(taken("bee")));
    assert_eq!(registry.register(tool("c", &["b"])), Err(taken("b")));
    registry.register(tool("a", &[])).unwrap();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn protected_names_cannot_be_shadowed_even_while_free() {
    let mut registry = Registry::default();
    assert_eq!(registry.register(tool("shell", &[])), Err(RegisterError::Protected("shell".into())));
    assert_eq!(registry.register(tool("mine", &["exec"])), Err(RegisterError::Protected("exec".into())));
    registry.register_builtin(tool("exec", &["shell"])).unwrap();
    assert!(registry.by_alias("shell").is_some());
}

#[test]
fn a_broken_schema_is_kept_out_and_the_others_work() {
    let mut registry = Registry::default();
    let broken = ToolSpec::new("broken", "", json!({"type": "object", "properties": {}, "required": ["x"]}));
    registry.register(Box::new(Fake(broken))).unwrap();
    registry.register(tool("fine", &[])).unwrap();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["fine"]);
    let reasons = vec!["(top): required key \"x\" is not in \"properties\"".to_owned()];
    assert_eq!(registry.quarantined(), [Quarantined { name: "broken".into(), reasons }]);
}

#[test]
fn names_that_no_model_can_carry_are_refused() {
    let mut registry = Registry::default();
    for name in ["", "a b", "a.b", "ä", &"x".repeat(65)] {
        assert_eq!(registry.register(tool(name, &[])), Err(RegisterError::BadName(name.into())));
    }
}
