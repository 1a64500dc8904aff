//! Which configuration of git may stay where a command made it.
//!
//! An allow list: what `git init`, `clone`, `worktree`, `submodule`, `branch` and `remote` write themselves, and switches
//! that only change how git shows or stores things. Whatever names a program, includes another file, or redirects a
//! connection is not on it. A fault in the file is not harmless either.

use crate::git_config::Entry;

/// Whether an entry makes no program run and leads nowhere. `inside` says whether a path, relative to the git
/// directory, stays in the workspace.
pub(super) fn is_harmless(entry: &Entry, inside: &dyn Fn(&[u8]) -> bool) -> bool {
    let value = entry.value.as_deref().unwrap_or(b"true");
    let plain = entry.subsection.is_none();
    match (entry.section.as_str(), entry.name.as_str()) {
        ("core", "worktree") if plain => inside(value),
        ("core", "fsmonitor") if plain => is_false(value),
        ("core", "hookspath") if plain => value == b"/dev/null",
        ("commit" | "tag" | "push", "gpgsign") if plain => is_false(value),
        ("remote", "url" | "pushurl") => is_address(value),
        ("remote", "pushdefault") if plain => is_address(value),
        ("branch", "remote" | "pushremote") => is_address(value),
        ("submodule", "url") => is_address(value),
        ("submodule", "update") => matches!(value, b"checkout" | b"rebase" | b"merge" | b"none"),
        ("filter", name) if entry.subsection.as_deref() == Some(b"lfs") => is_lfs(name, value),
        ("extensions" | "advice" | "color" | "column" | "status" | "init", name) => {
            !name.contains("template")
        }
        (section, name) if plain => {
            SWITCHES.iter().any(|(known, names)| *known == section && names.contains(&name))
        }
        ("remote", name) => REMOTE.contains(&name),
        ("branch", name) => matches!(name, "merge" | "rebase" | "description"),
        ("submodule", name) => {
            matches!(name, "active" | "branch" | "ignore" | "fetchrecursesubmodules" | "shallow")
        }
        ("lfs", name) => matches!(name, "access" | "locksverify"),
        _ => false,
    }
}

/// Keys without a subsection.
const SWITCHES: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "commentchar",
            "commitgraph",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "multipackindex",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "untrackedcache",
            "whitespace",
        ],
    ),
    ("branch", &["autosetupmerge", "autosetuprebase", "sort"]),
    ("checkout", &["defaultremote", "guess"]),
    ("commit", &["status", "verbose"]),
    ("diff", &["algorithm", "colormoved", "context", "mnemonicprefix", "noprefix", "renamelimit", "renames"]),
    ("feature", &["experimental", "manyfiles"]),
    ("fetch", &["parallel", "prune", "prunetags", "recursesubmodules", "writecommitgraph"]),
    ("gc", &["auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire"]),
    ("index", &["sparse", "threads", "version"]),
    ("lfs", &["repositoryformatversion", "locksverify"]),
    ("log", &["abbrevcommit", "date", "decorate", "follow"]),
    ("maintenance", &["auto", "strategy"]),
    ("merge", &["conflictstyle", "ff", "log", "renamelimit", "renames", "stat"]),
    ("pack", &["compression", "depth", "threads", "window", "windowmemory"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags", "recursesubmodules"]),
    ("rebase", &["autosquash", "autostash", "stat", "updaterefs"]),
    ("receive", &["denycurrentbranch", "denydeletes", "denynonfastforwards"]),
    ("rerere", &["autoupdate", "enabled"]),
    ("submodule", &["active", "fetchjobs", "recurse"]),
    ("tag", &["sort"]),
    ("user", &["email", "name", "useconfigonly"]),
    ("worktree", &["guessremote", "userelativepaths"]),
];

/// Keys of one remote that are no address.
const REMOTE: &[&str] = &[
    "fetch",
    "followremotehead",
    "mirror",
    "partialclonefilter",
    "promisor",
    "prune",
    "prunetags",
    "push",
    "skipdefaultupdate",
    "skipfetchall",
    "tagopt",
];

fn is_false(value: &[u8]) -> bool {
    [&b"false"[..], b"no", b"off", b"0", b""].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// What the program git-lfs itself writes.
fn is_lfs(name: &str, value: &[u8]) -> bool {
    matches!(
        (name, value),
        ("clean", b"git-lfs clean -- %f")
            | ("smudge", b"git-lfs smudge -- %f" | b"git-lfs smudge --skip -- %f")
            | ("process", b"git-lfs filter-process" | b"git-lfs filter-process --skip")
            | ("required", b"true" | b"false")
    )
}

/// Whether a value is the name of a remote, a path, or an address in a form that starts no program of its choice.
fn is_address(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    if text.starts_with('-') || text.chars().any(char::is_control) {
        return false;
    }
    // `ext::`, `fd::` and their like name a helper program.
    if text.contains("::") && !text.starts_with(['/', '.']) {
        return false;
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        // user@host:path, where neither may be an option of ssh.
        let host = text.split(':').next().unwrap_or_default();
        return !host.rsplit('@').next().unwrap_or_default().starts_with('-');
    };
    let host = rest.split('/').next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    ["http", "https", "ssh", "git", "git+ssh", "ssh+git", "file"].contains(&scheme) && !host.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git_config::read;

    fn judge(text: &str) -> bool {
        let inside = |path: &[u8]| !path.starts_with(b"/");
        read(text.as_bytes()).unwrap().iter().all(|entry| is_harmless(entry, &inside))
    }

    #[test]
    fn what_git_itself_writes_may_stay() {
        for text in [
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
            "[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[remote \"o\"]\n\turl = git@example.org:a/b.git\n\tpushurl = ssh://git@example.org:22/a\n\tmirror = true\n",
            "[remote \"o\"]\n\turl = /ws/seed\n\ttagOpt = --no-tags\n\tpromisor = true\n",
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\trebase = true\n",
            "[submodule \"lib\"]\n\turl = ../lib\n\tactive = true\n",
            "[core]\n\tworktree = ../../../lib\n[extensions]\n\tworktreeConfig = true\n",
            "[user]\n\tname = A\n\temail = a@example.org\n[pull]\n\trebase = false\n[commit]\n\tgpgsign = false\n",
            "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n",
        ] {
            assert!(judge(text), "{text}");
        }
    }

    #[test]
    fn what_runs_or_leads_elsewhere_may_not() {
        for text in [
            "[core]\n\tfsmonitor = touch x\n",
            "[core]\n\tfsmonitor\n",
            "[core]\n\thooksPath = h\n",
            "[core]\n\tsshCommand = x\n",
            "[core]\n\tworktree = /home\n",
            "[core \"x\"]\n\tbare = true\n",
            "[include]\n\tpath = x\n",
            "[includeIf \"gitdir:/\"]\n\tpath = x\n",
            "[alias]\n\tst = status\n",
            "[filter \"x\"]\n\tclean = x\n",
            "[filter \"lfs\"]\n\tclean = git-lfs clean; x\n",
            "[diff]\n\texternal = x\n",
            "[diff \"x\"]\n\ttextconv = x\n",
            "[merge \"x\"]\n\tdriver = x\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[remote \"o\"]\n\turl = -ox\n",
            "[remote \"o\"]\n\turl = ssh://-oProxyCommand=x/y\n",
            "[remote \"o\"]\n\turl = a@-oProxyCommand=x:y\n",
            "[remote \"o\"]\n\turl = https://user@-x/y\n",
            "[remote \"o\"]\n\tuploadpack = x\n",
            "[remote \"o\"]\n\tproxy = x\n",
            "[remote \"o\"]\n\tvcs = x\n",
            "[branch \"main\"]\n\tremote = ext::sh\n",
            "[submodule \"x\"]\n\tupdate = !x\n",
            "[url \"ext::x\"]\n\tinsteadOf = https\n",
            "[credential]\n\thelper = x\n",
            "[http]\n\tproxy = x\n",
            "[gc]\n\trecentObjectsHook = x\n",
            "[init]\n\ttemplateDir = x\n",
            "[gpg]\n\tprogram = x\n",
            "[pager]\n\tlog = x\n",
            "[sequence]\n\teditor = x\n",
            "[protocol \"ext\"]\n\tallow = always\n",
        ] {
            assert!(!judge(text), "{text}");
        }
    }
}
