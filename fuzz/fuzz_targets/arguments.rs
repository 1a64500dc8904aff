//! Arguments of the built-in tools: no panic, and normalizing twice gives the same as once.
#![no_main]

use std::sync::OnceLock;

use helve::{Args, Policy, Runtime};
use libfuzzer_sys::fuzz_target;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let builder = Runtime::builder().policy(Policy::builtin()).workspace("/nowhere").home("/nowhere");
        helve::register_container_tools(helve::register_builtin_tools(builder)).build().expect("it builds")
    })
}

fuzz_target!(|text: &str| {
    for tool in ["exec", "json", "time", "read_output", "echo"] {
        if let Ok(once) = runtime().arguments(tool, Args::Text(text.to_owned())) {
            assert_eq!(runtime().arguments(tool, Args::Value(once.clone())).as_ref(), Ok(&once));
        }
    }
});
