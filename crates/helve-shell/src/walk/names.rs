//! Names that the shell knows itself, and names that everybody takes for a certain program.

use crate::analysis::Arg;
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

/// The letters of the options of `set`, each with the name.
const OPTIONS: [(char, &str); 19] = [
    ('a', "allexport"),
    ('B', "braceexpand"),
    ('e', "errexit"),
    ('E', "errtrace"),
    ('T', "functrace"),
    ('h', "hashall"),
    ('H', "histexpand"),
    ('k', "keyword"),
    ('m', "monitor"),
    ('C', "noclobber"),
    ('n', "noexec"),
    ('f', "noglob"),
    ('b', "notify"),
    ('u', "nounset"),
    ('t', "onecmd"),
    ('P', "physical"),
    ('p', "privileged"),
    ('v', "verbose"),
    ('x', "xtrace"),
];

/// The name of the option of `set` that a letter stands for.
pub(super) fn option_of(letter: char) -> Option<&'static str> {
    OPTIONS.iter().find(|(known, _)| *known == letter).map(|(_, name)| *name)
}

/// Whether `set -o` knows the name.
pub(super) fn is_option(name: &str) -> bool {
    OPTIONS.iter().any(|(_, known)| *known == name)
        || matches!(
            name,
            "emacs"
                | "history"
                | "ignoreeof"
                | "interactive-comments"
                | "nolog"
                | "pipefail"
                | "posix"
                | "vi"
        )
}

/// Whether what a program starts may not find the variables that the program itself was given.
pub(super) fn drops_variables(program: &str, args: &[Arg]) -> bool {
    match program {
        // Only options drop any; they stand in front.
        "env" | "genv" => args.first().is_some_and(Arg::may_be_option),
        _ => matches!(
            program,
            "sudo"
                | "doas"
                | "su"
                | "runuser"
                | "pkexec"
                | "setpriv"
                | "systemd-run"
                | "bwrap"
                | "firejail"
                | "nix"
                | "nix-shell"
                | "tmux"
                | "screen"
        ),
    }
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

/// Whether a program prints paths, each behind a NUL, none of which can be taken for an option; `fed` says whether that is
/// what it reads. Divided in any other way, a name with a blank in it comes out as several.
pub(super) fn prints_paths(program: &str, args: &[Arg], fed: bool) -> bool {
    if program == "find" {
        return finds_paths(args);
    }
    if !fed {
        return false;
    }
    let Some(args) = args.iter().map(Arg::text).collect::<Option<Vec<&str>>>() else { return false };
    let letters = |letters: &str| {
        let known = |arg: &&str| arg[1..].chars().all(|letter| letters.contains(letter));
        let mut options = args.iter().filter(|arg| arg.len() > 1 && arg.starts_with('-'));
        options.clone().all(known) && options.any(|arg| arg.contains('z'))
    };
    let operands = args.iter().filter(|arg| !arg.starts_with('-')).count();
    match program {
        // A file that is named is read instead.
        "cat" => args.is_empty(),
        "tee" => true,
        "sort" => operands == 0 && letters("zurnRVfdbs"),
        "uniq" | "shuf" => operands == 0 && letters("zu"),
        "head" | "tail" => operands == 0 && letters("zn0123456789"),
        "grep" => operands == 1 && letters("zviEFPwx"),
        _ => false,
    }
}

/// Whether `find` prints the paths that it finds, and nothing else. None of them starts with a dash: what it starts from
/// would be an expression otherwise.
fn finds_paths(args: &[Arg]) -> bool {
    let mut ends = false;
    for (index, arg) in args.iter().enumerate() {
        match arg.text() {
            Some("-print0") => ends = true,
            Some("-print" | "-printf" | "-ls" | "-files0-from") => return false,
            Some(text) if ["-exec", "-ok", "-fprint", "-fls"].iter().any(|start| text.starts_with(start)) => {
                return false;
            }
            Some(_) => {}
            // The value of a test may be anything, but nothing else may.
            None => {
                let tested = index.checked_sub(1).and_then(|before| args[before].text());
                if arg.splits_unknown()
                    || !tested.is_some_and(|text| text.starts_with('-') && text != "-print0")
                {
                    return false;
                }
            }
        }
    }
    ends
}

/// Whether a program that reads arguments divides them at NULs alone.
pub(super) fn divides_at_nul(program: &str, args: &[Arg]) -> bool {
    program == "xargs"
        && args.iter().map_while(Arg::text).take_while(|text| text.starts_with('-')).any(|text| {
            text == "--null"
                || text
                    .strip_prefix('-')
                    .is_some_and(|letters| matches!(letters, "0" | "0r" | "r0" | "0t" | "t0"))
        })
}
