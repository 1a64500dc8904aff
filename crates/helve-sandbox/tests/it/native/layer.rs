//! Commands over a layer: the workspace stays as it is, what they changed is in the layer, and every rule holds on top of it.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use helve_core::{Layer, LayerPart, SandboxChoice};
use pretty_assertions::assert_eq;

use super::*;

const BYTES: u64 = 64 << 20;

async fn run_layered(
    backend: &dyn ShellBackend,
    text: &str,
    bytes: u64,
) -> (Result<(Ended, Layer), ToolError>, String) {
    let collector = Collector::default();
    let ended = backend.run_layered(job(text), bytes, Box::new(collector.clone()), Cancel::never()).await;
    let collected = collector.0.lock().unwrap().clone();
    (ended, String::from_utf8_lossy(&[collected.stdout, collected.stderr].concat()).into_owned())
}

/// Every path below a directory, and what is there.
fn listed(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let data = path.symlink_metadata().unwrap();
            let what = match data.file_type() {
                kind if kind.is_dir() => {
                    open.push(path.clone());
                    format!("directory {:o}", data.mode() & 0o7777)
                }
                kind if kind.is_symlink() => format!("link {}", path.read_link().unwrap().display()),
                kind if kind.is_char_device() && data.rdev() == 0 => "gone".to_owned(),
                _ => format!(
                    "{:o} {}",
                    data.mode() & 0o7777,
                    std::fs::read_to_string(&path).unwrap_or_default()
                ),
            };
            found.insert(path.strip_prefix(top).unwrap().display().to_string(), what);
        }
    }
    found
}

fn upper(layer: &Layer) -> BTreeMap<String, String> {
    let [part] = layer.parts.as_slice() else { panic!("{layer:?}") };
    assert_eq!(part.path, Path::new(""));
    listed(Path::new(&format!("/proc/self/fd/{}/", part.upper.as_raw_fd())))
}

#[test]
fn the_workspace_stays_as_it_is_and_the_layer_has_what_changed() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("a", "one\n"), ("b", "two\n"), ("c", "three\n"), ("d/e", "four\n"), ("d/f", "five\n")]
    {
        std::fs::create_dir_all(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let before = listed(folder.path());
    let backend = native(view(folder.path()), PoolSize::default());
    block_on(async {
        let text = "echo more >> a && mv b g && rm c && rm -r d && mkdir d && echo new > d/n && ln -s a l && chmod 700 g \
                    && cat a d/n && ls d";
        for _ in 0..2 {
            let (ended, output) = run_layered(&*backend, text, BYTES).await;
            let (ended, layer) = ended.unwrap();
            assert_eq!((ended.exit, output.as_str()), (Exit::Code(0), "one\nmore\nnew\nn\n"));
            assert!(ended.sandbox.layers.contains(&"overlay".to_owned()), "{ended:?}");
            let found = upper(&layer);
            let named: Vec<(&str, &str)> =
                found.iter().map(|(path, what)| (path.as_str(), what.as_str())).collect();
            let mode = found.get("d").cloned().unwrap();
            assert_eq!(
                named,
                [
                    ("a", found.get("a").unwrap().as_str()),
                    ("b", "gone"),
                    ("c", "gone"),
                    ("d", mode.as_str()),
                    ("d/n", found.get("d/n").unwrap().as_str()),
                    ("g", "700 two\n"),
                    ("l", "link a"),
                ]
            );
            assert!(found["a"].ends_with("one\nmore\n"), "{found:?}");
            assert_eq!(listed(folder.path()), before);
        }
        // What is prepared beforehand shows the workspace as it is when the command runs.
        backend.prepare_layer(BYTES);
        pause().await;
        std::fs::write(folder.path().join("late"), "late\n").unwrap();
        let (ended, output) = run_layered(&*backend, "cat late; rm late", BYTES).await;
        let (_, layer) = ended.unwrap();
        assert_eq!((output.as_str(), upper(&layer).len()), ("late\n", 1));
        assert!(folder.path().join("late").exists());
        // An ordinary command of the same backend changes the workspace.
        assert_eq!(output_of(&*backend, "echo real > a; cat a").await, "real\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "real\n");
    });
}

async fn output_of(backend: &dyn ShellBackend, text: &str) -> String {
    output(backend, job(text)).await
}

#[test]
fn what_is_protected_denied_or_writable_elsewhere_holds_over_a_layer() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let ws = folder.path();
    std::fs::create_dir_all(ws.join(".git/hooks")).unwrap();
    std::fs::create_dir_all(ws.join("sub")).unwrap();
    for (name, text) in
        [(".git/HEAD", "ref: refs/heads/main\n"), (".git/config", "[core]\n"), (".env", "KEY=1\n")]
    {
        std::fs::write(ws.join(name), text).unwrap();
    }
    std::fs::create_dir_all(ws.join(".git/objects")).unwrap();
    std::fs::create_dir_all(ws.join(".git/refs")).unwrap();
    let mut view = view(ws);
    view.protected = helve_core::protected::NAMES.iter().map(|name| (*name).to_owned()).collect();
    view.deny_read = vec![".env".to_owned()];
    view.read_write = vec![other.path().to_owned(), ws.join("sub")];
    let backend = native(view, PoolSize::default());
    block_on(async {
        let text = format!(
            "cat .env; echo a >> .git/config; echo b > .git/hooks/post-commit; echo c > {}/f; echo d > sub/g; echo e > .bashrc; \
             echo f > {}/.helve-x; ls /.helve/layer; mv .git elsewhere; true",
            other.path().display(),
            "/.helve"
        );
        let (ended, output) = run_layered(&*backend, &text, BYTES).await;
        let (ended, layer) = ended.unwrap();
        assert!(!output.contains("KEY=1"), "{output}");
        let found = upper(&layer);
        let files: Vec<&str> = found
            .iter()
            .filter(|(_, what)| !what.starts_with("directory"))
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(files, ["sub/g"], "{output} {:?}", ended.removed);
        assert!(!other.path().join("f").exists());
        assert!(!ws.join("sub/g").exists());
        let removed: Vec<&str> = ended.removed.iter().map(|one| one.path.as_str()).collect();
        assert!(removed.contains(&".bashrc"), "{removed:?} {output}");
        assert_eq!(std::fs::read_to_string(ws.join(".git/config")).unwrap(), "[core]\n");
    });
}

#[test]
fn a_layer_has_a_bound_with_a_name() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let backend = native(view(folder.path()), PoolSize::default());
    block_on(async {
        let many = "for i in $(seq 400); do head -c 1000000 /dev/zero > f$i || exit 7; done";
        // One process hits the bound and its shell goes on; a file is cut; the sum of many is too much.
        for (text, bytes) in [("head -c 9000000 /dev/zero > one; true", 1 << 20), (many, 8 << 20)] {
            let (ended, output) = run_layered(&*backend, text, bytes).await;
            assert_eq!(ended.unwrap().0.limit, Some(LimitHit::Layer(bytes)), "{output}");
        }
        let (ended, _) = run_layered(&*backend, "head -c 100000 /dev/zero > one", 1 << 20).await;
        assert_eq!(ended.unwrap().0.limit, None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    });
}

#[test]
fn a_sandbox_without_layers_refuses_and_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for choice in [SandboxChoice::Landlock, SandboxChoice::Bwrap, SandboxChoice::None] {
        let backend = helve_sandbox::backend(&choice, view(folder.path()), LIMITS).unwrap();
        block_on(async {
            let (ended, output) = run_layered(&*backend, "echo ran; touch made", BYTES).await;
            let error = ended.err().unwrap();
            assert_eq!((error.kind, output.as_str()), (ErrorKind::SandboxUnavailable, ""), "{choice:?}");
            assert!(error.message.contains("Nothing was run"), "{error:?}");
        });
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Mounts file systems in a workspace, in a mount namespace of its own, and plays a role there: behind `before`.
fn among_mounts(workspace: &Path, test: &str, before: &str) -> Output {
    // Whoever has no rights must be able to execute this program.
    let own = workspace.parent().unwrap().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    let script = format!(
        "set -e; mount -t tmpfs -o mode=755 none \"$1/sub\"; echo in > \"$1/sub/a\"; echo gone > \"$1/sub/gone\"; \
         mkdir \"$1/sub/deep\"; mount -t tmpfs -o mode=755 none \"$1/sub/deep\"; echo deep > \"$1/sub/deep/d\"; \
         chown -R --reference=\"$1\" \"$1/sub\"; \
         exec {before} \"$2\" --exact \"$3\" --ignored --nocapture --test-threads=1"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", &script, "sh"]).arg(workspace).arg(own).arg(test);
    command.env("ROLE_WORKSPACE", workspace).stdin(Stdio::null()).output().unwrap()
}

fn nested_workspace() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = folder.path().join("ws");
    for name in ["sub", "late"] {
        std::fs::create_dir_all(workspace.join(name)).unwrap();
    }
    std::fs::write(workspace.join("b"), "out\n").unwrap();
    (folder, workspace)
}

#[test]
fn file_systems_in_the_workspace_have_layers_of_their_own_for_root() {
    if !rustix::process::geteuid().is_root() || !native_works() {
        println!("skipped: only root mounts file systems");
        return;
    }
    let (_folder, workspace) = nested_workspace();
    let output = among_mounts(&workspace, "native::layer::role_over_nested", "");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said} {:?}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "played in a mount namespace of its own by the test above"]
fn role_over_nested() {
    let Some(workspace) = std::env::var_os("ROLE_WORKSPACE").map(PathBuf::from) else { return };
    let before = listed(&workspace);
    let backend = native(view(&workspace), PoolSize::default());
    let over = |text: &str| {
        let (ended, output) = block_on(run_layered(&*backend, text, BYTES));
        let (ended, layer) = ended.unwrap();
        assert_eq!(ended.exit, Exit::Code(0), "{output}");
        assert_eq!(listed(&workspace), before);
        let changed = |part: &LayerPart| {
            let found = listed(Path::new(&format!("/proc/self/fd/{}/", part.upper.as_raw_fd())));
            let files = found.into_iter().filter(|(_, what)| !what.starts_with("directory"));
            (part.path.display().to_string(), files.map(|(path, _)| path).collect::<Vec<_>>())
        };
        (layer.parts.iter().map(changed).collect::<Vec<_>>(), output)
    };
    let part = |path: &str, changed: &[&str]| {
        (path.to_owned(), changed.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    };
    let text = "echo more >> sub/a; rm sub/gone; echo new > sub/deep/n; echo x >> b; cat sub/a sub/deep/d";
    let (parts, output) = over(text);
    assert_eq!(parts, [part("", &["b"]), part("sub", &["a", "gone"]), part("sub/deep", &["n"])]);
    assert_eq!(output, "in\nmore\ndeep\n");
    // One that is mounted after a layer was laid, and before it is used, is not written to either.
    backend.prepare_layer(BYTES);
    std::thread::sleep(Duration::from_millis(500));
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(workspace.join("late")).status();
    assert!(mounted.unwrap().success());
    let (ended, output) = block_on(run_layered(&*backend, "echo x > late/x", BYTES));
    let (_, layer) = ended.unwrap();
    let places: Vec<String> = layer.parts.iter().map(|part| part.path.display().to_string()).collect();
    assert_eq!(places, ["", "late", "sub", "sub/deep"], "{output}");
    assert!(!workspace.join("late/x").exists());
}

#[test]
fn file_systems_in_the_workspace_are_a_clear_refusal_for_others() {
    if !rustix::process::geteuid().is_root() || !native_works() {
        println!("skipped: only root mounts file systems");
        return;
    }
    let (_folder, workspace) = nested_workspace();
    for name in [".", "sub", "late", "b"] {
        std::os::unix::fs::chown(workspace.join(name), Some(65534), Some(65534)).unwrap();
    }
    let before = "setpriv --reuid=65534 --regid=65534 --clear-groups --";
    let output = among_mounts(&workspace, "native::layer::role_refused_over_nested", before);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said} {:?}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_workspace_that_cannot_be_written_has_a_layer_of_what_can_be_written_in_it() {
    if !native_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("ws");
    std::fs::create_dir_all(workspace.join("out")).unwrap();
    std::fs::write(workspace.join("a"), "one\n").unwrap();
    let before = listed(&workspace);
    let text = "cat a; echo x >> a; mkdir new; echo x > out/x; cat out/x";
    for above in [vec![], vec![folder.path().to_owned()]] {
        let read_only = [above, vec![workspace.clone()]].concat();
        let closed = View { read_only: read_only.clone(), ..view(&workspace) };
        let open = View { read_write: vec![workspace.join("out")], ..closed.clone() };
        for (view, refusals, changes) in [(closed, 3, vec![]), (open, 2, vec!["out", "out/x"])] {
            let backend = native(view, PoolSize::default());
            let (ended, output) = block_on(run_layered(&*backend, text, BYTES));
            let (_, layer) = ended.unwrap();
            assert!(output.starts_with("one\n"), "{read_only:?} {output}");
            assert_eq!(output.matches("Read-only file system").count(), refusals, "{read_only:?} {output}");
            assert_eq!(upper(&layer).keys().collect::<Vec<_>>(), changes, "{read_only:?} {output}");
            assert_eq!(listed(&workspace), before);
        }
    }
}

#[test]
#[ignore = "played in a mount namespace of its own by the test above"]
fn role_refused_over_nested() {
    let Some(workspace) = std::env::var_os("ROLE_WORKSPACE").map(PathBuf::from) else { return };
    let before = listed(&workspace);
    let backend = native(view(&workspace), PoolSize::default());
    let (ended, output) = block_on(run_layered(&*backend, "echo ran; echo x > sub/a", BYTES));
    let error = ended.err().unwrap();
    assert_eq!((error.kind, output.as_str()), (ErrorKind::SandboxUnavailable, ""), "{error:?}");
    let hint = error.hint.unwrap_or_default();
    assert!(error.message.contains("no layer could be laid over the workspace"), "{}", error.message);
    assert!(hint.contains("in which another file system is mounted"), "{hint}");
    assert_eq!(listed(&workspace), before);
    // Without a layer the same command runs.
    assert_eq!(block_on(output_of(&*backend, "cat sub/a")), "in\n");
}
