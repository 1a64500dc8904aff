//! Command wrappers: no panic, whatever the template and the command say.
#![no_main]

use helve_shell::Template;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (template, command) = input;
    if let Ok(template) = Template::parse(template) {
        let _ = template.render(command, "/a b/c'd");
    }
});
