//! Names that the shell knows itself, and names that everybody takes for a certain program.

use crate::tree::Dialect;

/// Programs whose names a script cannot give another meaning without anybody noticing.
const WELL_KNOWN: [&str; 92] = [
    "awk", "base64", "basename", "bash", "bat", "bun", "busybox", "bzip2", "cargo", "cat", "chmod", "chown",
    "cp", "curl", "cut", "dash", "date", "dd", "deno", "df", "diff", "dirname", "docker", "du", "env",
    "expr", "fd", "file", "find", "gcc", "git", "go", "grep", "gzip", "head", "hostname", "id", "install",
    "jq", "less", "ln", "ls", "make", "mkdir", "mktemp", "mv", "nice", "node", "nohup", "npm", "npx", "od",
    "perl", "php", "pip", "pip3", "ps", "python", "python3", "readlink", "realpath", "rg", "rm", "rmdir",
    "rsync", "ruby", "scp", "sed", "seq", "sh", "sleep", "sort", "ssh", "stat", "strings", "sudo", "tail",
    "tar", "tee", "timeout", "touch", "tr", "tree", "uname", "uniq", "wc", "wget", "which", "whoami",
    "xargs", "yes", "zsh",
];

/// Whether the shell does it itself.
#[rustfmt::skip]
pub(super) fn is_builtin(name: &str, dialect: Dialect) -> bool {
    let bash = dialect == Dialect::Bash;
    match name {
        "." | ":" | "[" | "alias" | "bg" | "break" | "cd" | "command" | "continue" | "echo" | "eval" | "exec"
        | "exit" | "export" | "false" | "fc" | "fg" | "getopts" | "hash" | "jobs" | "kill" | "local" | "newgrp"
        | "printf" | "pwd" | "read" | "readonly" | "return" | "set" | "shift" | "test" | "times" | "trap" | "true"
        | "type" | "ulimit" | "umask" | "unalias" | "unset" | "wait" => true,
        "chdir" => !bash,
        "bind" | "builtin" | "caller" | "compgen" | "complete" | "compopt" | "declare" | "dirs" | "disown" | "enable"
        | "help" | "history" | "let" | "logout" | "mapfile" | "popd" | "pushd" | "readarray" | "shopt" | "source"
        | "suspend" | "typeset" => bash,
        _ => false,
    }
}

/// Whether everybody takes the name for a certain program or builtin.
pub(super) fn is_well_known(name: &str) -> bool {
    WELL_KNOWN.contains(&name) || is_builtin(name, Dialect::Bash)
}

/// Builtins whose arguments are assignments.
pub(super) fn is_declaration(name: &str) -> bool {
    matches!(name, "export" | "declare" | "typeset" | "local" | "readonly")
}

/// Builtins that make a variable of the function that calls them.
pub(super) fn is_local(name: &str) -> bool {
    matches!(name, "local" | "declare" | "typeset")
}

/// Shells.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash"
            | "dash"
            | "ash"
            | "zsh"
            | "ksh"
            | "ksh93"
            | "mksh"
            | "rbash"
            | "fish"
            | "csh"
            | "tcsh"
            | "posh"
            | "yash"
    )
}

/// In which dialects a shell of this name may read a text.
pub(super) fn dialects(shell: &str) -> &'static [Dialect] {
    match shell {
        "sh" => &[Dialect::Bash, Dialect::Posix],
        "dash" | "ash" | "posh" | "yash" => &[Dialect::Posix],
        _ => &[Dialect::Bash],
    }
}

/// Programs whose output is what they got from a network.
pub(super) fn is_downloader(program: &str) -> bool {
    matches!(
        program,
        "curl"
            | "wget"
            | "wget2"
            | "fetch"
            | "http"
            | "https"
            | "xh"
            | "curlie"
            | "aria2c"
            | "axel"
            | "lynx"
            | "links"
            | "elinks"
            | "w3m"
            | "nc"
            | "ncat"
            | "netcat"
            | "socat"
            | "telnet"
            | "ftp"
            | "tftp"
            | "lwp-request"
            | "lwp-download"
            | "GET"
            | "youget"
            | "iwr"
            | "irm"
            | "Invoke-WebRequest"
            | "Invoke-RestMethod"
    )
}

/// Programs that pass lines on without making an option out of a path.
pub(super) fn keeps_lines(program: &str) -> bool {
    matches!(
        program,
        "grep"
            | "egrep"
            | "fgrep"
            | "rg"
            | "sort"
            | "head"
            | "tail"
            | "uniq"
            | "tac"
            | "shuf"
            | "cat"
            | "tee"
    )
}
