//! What of the caller must not reach a command, nor the program that builds its sandbox: variables and keys. And what of
//! a command must not reach the caller's machine: programs with the caller's rights.

#![expect(unsafe_code, reason = "keyrings have no safe interface")]

use std::ffi::CString;

use helve_core::SandboxChoice;
use pretty_assertions::assert_eq;

use crate::common::{bwrap_works, choice_of_role, choices, name, output, role, run, view};

#[test]
fn bwrap_itself_has_none_of_the_commands_variables() {
    if !bwrap_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ws", "outside"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    let mut view = view(&root.join("ws"));
    view.env.insert("MARK".to_owned(), "a=b 'c' \\ $d\nsecond".to_owned());
    let text = output(&SandboxChoice::Bwrap, view.clone(), "printf '%s|' \"$MARK\"; wc -c < /proc/1/environ");
    assert_eq!(text, "a=b 'c' \\ $d\nsecond|0\n");
    // Whatever is started with these has its loader write a file, and only outside there is a place for it.
    let trace = root.join("outside/trace").display().to_string();
    view.env.insert("LD_DEBUG".to_owned(), "libs".to_owned());
    view.env.insert("LD_DEBUG_OUTPUT".to_owned(), trace);
    output(&SandboxChoice::Bwrap, view, "true");
    let traces = std::fs::read_dir(root.join("outside")).unwrap().count();
    assert_eq!(traces, 0, "a program outside was started with the command's variables");
}

#[test]
fn variable_that_would_be_an_option_of_bwrap_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [("A", "b\0--bind\0/\0/mnt"), ("A\0B", "c"), ("", "x"), ("A=B", "x")] {
        let mut view = view(folder.path());
        view.env.insert(name.to_owned(), value.to_owned());
        let limits = crate::common::LIMITS;
        let error = helve_sandbox::backend(&SandboxChoice::Bwrap, view, limits).err().unwrap();
        assert!(error.message.contains("variable") && error.hint.is_some(), "{error:?}");
    }
}

const KEY_TYPE: &std::ffi::CStr = c"user";
const SESSION_KEYRING: libc::c_long = -3;
const JOIN_SESSION_KEYRING: libc::c_long = 1;
const SEARCH: libc::c_long = 10;

/// Whether a key of this name can be found from the session keyring.
fn finds_key(name: &str) -> bool {
    let name = CString::new(name).unwrap();
    // SAFETY: both texts end with NUL and live through the call.
    let key = unsafe {
        libc::syscall(libc::SYS_keyctl, SEARCH, SESSION_KEYRING, KEY_TYPE.as_ptr(), name.as_ptr(), 0)
    };
    key != -1
}

#[test]
fn keys_of_the_callers_session_stay_with_it() {
    for choice in choices() {
        let output = role("secrets::role_has_key").env("ROLE_BACKEND", name(&choice)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{choice:?}: {text}");
        assert!(text.contains("looked for the key") || text.contains("skipped"), "{choice:?}: {text}");
    }
}

#[test]
#[ignore = "played as a process of its own by the test above"]
fn role_has_key() {
    let key = format!("helve-test-{}", std::process::id());
    let description = CString::new(key.as_str()).unwrap();
    // In a session keyring of this process alone, so that nothing is left behind.
    // SAFETY: the null pointer asks for an anonymous keyring; the texts end with NUL and the payload has the length
    // that is given.
    let added = unsafe {
        libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) != -1
            && libc::syscall(
                libc::SYS_add_key,
                KEY_TYPE.as_ptr(),
                description.as_ptr(),
                c"canary".as_ptr(),
                6,
                SESSION_KEYRING,
            ) != -1
    };
    if !added {
        println!("skipped, no keyring here: {}", std::io::Error::last_os_error());
        return;
    }
    assert!(finds_key(&key));
    let workspace = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut view = view(workspace.path());
    view.read_only = vec![program.clone()];
    view.env.insert("ROLE_KEY".to_owned(), key);
    let command = format!(
        "'{}' --exact secrets::role_looks_for_key --ignored --nocapture --test-threads=1",
        program.display()
    );
    let done = run(&choice_of_role(), view, &command);
    assert!(done.stdout.contains("has no key"), "{done:?}");
    println!("looked for the key");
}

#[test]
#[ignore = "played inside a sandbox by the role above"]
fn role_looks_for_key() {
    let found = finds_key(&std::env::var("ROLE_KEY").unwrap());
    println!("{}", if found { "has the key" } else { "has no key" });
}

/// Whether the filter of system calls is there for this machine.
fn is_filtered() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && bwrap_works()
}

#[test]
fn there_are_no_keyrings_and_no_setuid_files_in_bwrap() {
    if !is_filtered() {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut view = view(workspace.path());
    view.read_only = vec![program.clone()];
    let command = format!(
        "cp /bin/true t; chmod 4755 t; chmod u+s t; install -m 4755 /bin/true u; \
         '{}' --exact secrets::role_makes_setuid_files --ignored --nocapture --test-threads=1; \
         mkdir d && ! chmod 2775 d && chmod 775 d && chmod 750 t && ls -d d t; grep ^Seccomp: /proc/self/status",
        program.display()
    );
    let done = run(&SandboxChoice::Bwrap, view, &command);
    assert!(done.stdout.contains("no keyring: 38, setuid: []\n"), "{done:?}");
    assert!(done.stdout.ends_with("d\nt\nSeccomp:\t2\n"), "{done:?}");
    for entry in std::fs::read_dir(workspace.path()).unwrap().flatten() {
        let mode = std::os::unix::fs::MetadataExt::mode(&entry.metadata().unwrap());
        assert_eq!(mode & 0o4000, 0, "{entry:?}");
    }
}

/// Tries every call that gives a mode.
#[test]
#[ignore = "played inside a sandbox by the test above"]
fn role_makes_setuid_files() {
    // SAFETY: all texts end with NUL; the structure of openat2 has the size that is given.
    unsafe {
        let at = libc::AT_FDCWD;
        let how = [libc::O_CREAT as u64 | libc::O_WRONLY as u64, 0o4755, 0];
        libc::umask(0);
        libc::syscall(libc::SYS_openat, at, c"a".as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o4755);
        libc::syscall(libc::SYS_openat2, at, c"b".as_ptr(), how.as_ptr(), 24);
        libc::syscall(libc::SYS_mknodat, at, c"c".as_ptr(), libc::S_IFREG | 0o4755, 0);
        let plain = libc::syscall(libc::SYS_openat, at, c"e".as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o755);
        libc::syscall(libc::SYS_fchmod, plain, 0o4755);
        libc::syscall(libc::SYS_fchmodat, at, c"e".as_ptr(), 0o4755);
        libc::syscall(libc::SYS_fchmodat2, at, c"e".as_ptr(), 0o4755, 0);
        libc::syscall(libc::SYS_keyctl, 0, -4, 0);
    }
    let error = std::io::Error::last_os_error().raw_os_error().unwrap();
    let is_setuid = |entry: &std::fs::DirEntry| {
        std::os::unix::fs::MetadataExt::mode(&entry.metadata().unwrap()) & 0o4000 != 0
    };
    let setuid: Vec<_> = std::fs::read_dir(".").unwrap().flatten().filter(is_setuid).collect();
    println!("no keyring: {error}, setuid: {setuid:?}");
}
