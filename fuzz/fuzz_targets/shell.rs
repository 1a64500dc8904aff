//! Shell commands, parsed and analyzed: no panic, and every span lies in the text.
#![no_main]

use std::path::Path;

use helve_shell::analysis::Setting;
use helve_shell::tree::Dialect;
use helve_shell::{analyze, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for dialect in [Dialect::Bash, Dialect::Posix] {
        let script = parse(text, dialect);
        for statement in &script.statements {
            assert!(text.get(statement.span.range()).is_some());
        }
        if let Some(fault) = script.fault {
            assert!(text.get(fault.span.range()).is_some());
        }
        let workspace = Path::new("/srv/workspace");
        let setting =
            Setting { dialect, directory: workspace, workspace, home: Some(Path::new("/home/user")) };
        for run in analyze(text, &setting).runs {
            assert!(text.get(run.span.range()).is_some());
        }
    }
});
