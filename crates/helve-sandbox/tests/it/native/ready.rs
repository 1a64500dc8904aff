//! Shells that stand ready: that one of them takes the call shows in the room that was kept for its text.

use super::*;

#[test]
fn a_shell_that_has_already_started_takes_the_call() {
    if !native_works() {
        return;
    }
    // How long the shell's own words are, for the kernel. It names no place that would keep it from a warm shell.
    let look = "cd /p*c/$$; cat cm*ine | wc -c";
    for shell in ["/bin/sh", "/bin/bash"].into_iter().filter(|shell| Path::new(shell).exists()) {
        let folder = tempfile::tempdir().unwrap();
        let backend = native(View { shell: shell.into(), ..view(folder.path()) }, PoolSize::default());
        block_on(async {
            output(&*backend, job("true")).await;
            // Until it is found out how the shell can be kept warm.
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let text = output(&*backend, job(look)).await;
                if text.trim().parse::<usize>().unwrap() > 4000 {
                    return;
                }
            }
            panic!("{shell} was started for every call");
        });
    }
}
