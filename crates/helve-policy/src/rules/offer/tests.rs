use std::path::Path;

use helve_shell::analysis::Setting;
use helve_shell::tree::Dialect;

use super::*;

/// What is offered for the last run that no other starts.
fn offered(command: &str) -> Option<String> {
    let workspace = Path::new("/home/user/project");
    let home = Some(Path::new("/home/user"));
    let setting = Setting { dialect: Dialect::Bash, directory: workspace, workspace, home };
    let analysis = helve_shell::analyze(command, &setting);
    let last = analysis.runs.iter().rposition(|run| run.via.is_empty())?;
    propose(&analysis, last, workspace)
}

/// Commands and what is offered; empty for nothing.
const TABLE: &[(&str, &str)] = &[
    ("cargo test", "cargo test"),
    ("cargo test -q", "cargo test -q"),
    ("cargo build --release", "cargo build --release"),
    ("cargo clippy --all-targets -- -D warnings", "cargo clippy --all-targets -- -D warnings"),
    ("npm run test", "npm run test"),
    ("npm run test -- --watch=false", "npm run test -- --watch=false"),
    ("npm test", "npm test"),
    ("npm ci", "npm ci"),
    ("yarn install", "yarn install"),
    ("pnpm run lint", "pnpm run lint"),
    ("go test ./...", "go test ./..."),
    ("go vet ./...", "go vet ./..."),
    ("pytest -q", "pytest -q"),
    ("git status", "git status"),
    ("git commit -m 'two words'", "git commit -m 'two words'"),
    ("git push origin main", "git push origin main"),
    ("git fetch", "git fetch"),
    ("git stash list", "git stash list"),
    ("git checkout main", "git checkout main"),
    ("cargo --version", "cargo --version"),
    ("git --version", "git --version"),
    ("docker ps", "docker ps"),
    ("docker build -t x .", "docker build -t x ."),
    ("kubectl get pods", "kubectl get pods"),
    ("pip install requests", "pip install requests"),
    ("terraform plan", "terraform plan"),
    ("gh pr list", "gh pr list"),
    ("touch notes.txt", "touch notes.txt"),
    ("mkdir -p a/b", "mkdir -p a/b"),
    ("cp a b", "cp a b"),
    ("wc -l src/main.rs", "wc -l <path>"),
    ("cat README.md Cargo.toml", "cat <path> <path>"),
    ("head -n 5 src/lib.rs", "head -n 5 <path>"),
    ("cat /etc/hosts", "cat /etc/hosts"),
    ("ls && cargo test", "cargo test"),
    ("uptime", "uptime"),
    ("mytool --flag 'a b'", "mytool --flag 'a b'"),
    ("sed -i s/a/b/ x", "sed -i s/a/b/ x"),
    // A shell, an interpreter, a program that starts others: nothing.
    ("bash build.sh", ""),
    ("sh -c 'echo x'", ""),
    ("python3 x.py", ""),
    ("python3.12 -c 'print(1)'", ""),
    ("node x.js", ""),
    ("perl -e 1", ""),
    ("env FOO=1 ls", ""),
    ("sudo ls", ""),
    ("rm x", ""),
    ("rm -rf target", ""),
    ("/bin/rm x", ""),
    ("git", ""),
    ("git -c a=b log", ""),
    ("git -C sub log", ""),
    ("git config user.name x", ""),
    ("npm", ""),
    ("npm run", ""),
    ("npm exec x", ""),
    ("npx create-app", ""),
    ("docker run x", ""),
    ("docker exec x sh", ""),
    ("make", ""),
    ("xargs rm", ""),
    ("find . -name x", ""),
    ("ssh host ls", ""),
    ("eval $x", ""),
    ("awk '{print}' x", ""),
    ("kill 1", ""),
    ("mkfs.ext4 /dev/sda", ""),
    ("./build.sh", ""),
    // What is not known or leads elsewhere: nothing.
    ("mytool $x", ""),
    ("$tool x", ""),
    ("FOO=1 mytool", ""),
    ("mytool > out", ""),
];

/// Shells, interpreters and starters of every kind.
#[test]
fn what_gives_away_everything_is_never_offered() {
    let names = "rbash rksh java javaw ts-node tsx valgrind fakeroot gosu su-exec setuidgid proot qemu-x86_64 guile jruby
        octave sshpass prlimit numactl runcon nix-shell systemd-nspawn watchexec nodemon perf ld-linux-x86-64.so.2 mkfs.ext4
        python3.12 ruby3.2 bash.exe wipefs setcap s6-setuidgid unbuffer rlwrap proxychains4 swipl R/bin/Rscript";
    for name in names.split_whitespace() {
        assert!(never_offered(&[name, "x"]), "{name}");
    }
    for name in ["cat", "pytest", "javac", "rustc", "tsc", "views", "opening", "gcc-13", "mkdir", "cp"] {
        assert!(!never_offered(&[name, "x"]), "{name}");
    }
}

#[test]
fn every_row_of_the_table_holds() {
    let mut wrong = Vec::new();
    for (command, expected) in TABLE {
        let found = offered(command).unwrap_or_default();
        if found != *expected {
            wrong.push(format!("{command:?}: expected {expected:?}, received {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_never_offered_is_so_under_any_name() {
    for argv in [
        vec!["bash"],
        vec!["/usr/bin/env", "x"],
        vec!["python3.11", "x"],
        vec!["powershell.exe", "x"],
        vec!["git"],
        vec!["git", "--exec-path=x", "log"],
        vec!["git", "a/b"],
        vec!["cargo", "+nightly", "test"],
        vec!["yarn", "run"],
        vec!["mkfs.xfs", "/dev/sda"],
        vec![],
        vec![""],
    ] {
        assert!(never_offered(&argv), "{argv:?}");
    }
    for argv in
        [vec!["ls"], vec!["git", "log"], vec!["cargo", "--version"], vec!["gcc-13", "x.c"], vec!["pytest"]]
    {
        assert!(!never_offered(&argv), "{argv:?}");
    }
}
