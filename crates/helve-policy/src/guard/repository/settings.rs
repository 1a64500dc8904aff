//! The settings of a repository: whether one may name a program, and which other repositories they name.
//!
//! Only settings that are known to name no program pass: git has many, and a new version may have more.

use helve_shell::is_plain_setting;

use super::remotes::Remotes;

/// Settings that name no program besides those that are plain for a single run too, and whether they stand below a name:
/// such settings of a remote are its own, those of `diff`, `merge` and others are drivers. Left out is also what git puts
/// into the list of steps of a rebase (`rebase.instructionFormat`), where a line may be a command, what names a way to
/// merge, which is a program `git-merge-NAME`, a directory from which hooks are copied, and what has a push go on in
/// repositories inside (`push.recurseSubmodules`), where it runs their hooks.
const SETTINGS: &[(&str, bool, &[&str])] = &[
    ("branch", false, &["autosetupmerge", "autosetuprebase"]),
    (
        "branch",
        true,
        &[
            "description",
            "gh-merge-base",
            "github-pr-owner-number",
            "merge",
            "pushremote",
            "rebase",
            "remote",
            "vscode-merge-base",
        ],
    ),
    ("commit", false, &["cleanup", "gpgsign", "status", "template", "verbose"]),
    ("core", false, &["bare", "logallrefupdates", "repositoryformatversion", "symlinks"]),
    (
        "fetch",
        false,
        &[
            "all",
            "fsckobjects",
            "negotiationalgorithm",
            "output",
            "parallel",
            "prunetags",
            "recursesubmodules",
            "showforcedupdates",
            "unpacklimit",
            "writecommitgraph",
        ],
    ),
    (
        "gc",
        false,
        &[
            "aggressivedepth",
            "aggressivewindow",
            "autodetach",
            "autopacklimit",
            "bigpackthreshold",
            "cruftpacks",
            "logexpiry",
            "maxcruftsize",
            "packrefs",
            "pruneexpire",
            "reflogexpire",
            "reflogexpireunreachable",
            "rerereresolved",
            "rerereunresolved",
            "worktreepruneexpire",
            "writecommitgraph",
        ],
    ),
    ("gc", true, &["reflogexpire", "reflogexpireunreachable"]),
    ("init", false, &["defaultobjectformat", "defaultrefformat"]),
    ("lfs", false, &["locksverify", "repositoryformatversion", "url"]),
    ("lfs", true, &["access", "locksverify"]),
    ("maintenance", false, &["autodetach", "strategy"]),
    ("maintenance", true, &["auto", "enabled", "schedule"]),
    ("merge", false, &["autostash", "log", "renames", "stat", "tool", "verbosity"]),
    (
        "push",
        false,
        &["followtags", "gpgsign", "negotiate", "pushoption", "usebitmaps", "useforceifincludes"],
    ),
    (
        "rebase",
        false,
        &[
            "abbreviatecommands",
            "backend",
            "forkpoint",
            "maxlabellength",
            "missingcommitscheck",
            "rebasemerges",
            "reschedulefailedexec",
            "stat",
            "updaterefs",
        ],
    ),
    ("remote", true, &["fetch", "gh-resolved", "prune", "pushurl", "tagopt", "url"]),
    ("rerere", false, &["autoupdate", "enabled"]),
    ("tag", false, &["forcesignannotated", "gpgsign"]),
    ("user", false, &["signingkey", "useconfigonly"]),
];

/// One setting, its names in lower case.
struct Setting<'a> {
    section: &'a str,
    /// The name below which it stands, as it is written.
    below: Option<&'a str>,
    name: &'a str,
    /// What stands behind the sign, as it is written.
    value: &'a str,
}

impl Setting<'_> {
    /// Whether it is known to name no program.
    fn is_plain(&self) -> bool {
        let is_known = |(section, is_below, names): &(&str, bool, &[&str])| {
            *section == self.section && *is_below == self.below.is_some() && names.contains(&self.name)
        };
        let below = if self.below.is_some() { "below." } else { "" };
        let name = format!("{}.{below}{}", self.section, self.name);
        SETTINGS.iter().any(is_known) || is_plain_setting(&name, self.value)
    }
}

/// The other repositories that the settings name; none if one of the settings may name a program.
pub(super) fn read(text: &str) -> Option<Remotes> {
    let mut remotes = Remotes::default();
    let is_plain = all(text, |setting| {
        if let Some(below) = setting.below {
            remotes.note(setting.section, below, setting.name, setting.value);
        }
        setting.is_plain()
    });
    remotes.settle();
    is_plain?.then_some(remotes)
}

/// Whether the settings of a repository inside another name no program that git starts when it looks at it there. They may
/// speak of repositories inside it, and once of the work tree, of which `is_tree` says whether it is the one at hand.
pub(super) fn are_plain_inside(text: &str, mut is_tree: impl FnMut(&str) -> bool) -> bool {
    let mut is_told = false;
    let is_plain = |setting: &Setting<'_>| match (setting.section, setting.below, setting.name) {
        ("submodule", _, "active" | "url") => true,
        ("core", None, "worktree") => {
            !std::mem::replace(&mut is_told, true)
                && !setting.value.contains(['"', '\\', '#', ';'])
                && is_tree(setting.value)
        }
        _ => setting.is_plain(),
    };
    all(text, is_plain) == Some(true)
}

/// Whether something holds for all settings; none if they cannot be read for certain.
fn all(text: &str, mut holds: impl FnMut(&Setting<'_>) -> bool) -> Option<bool> {
    let mut section = String::new();
    let mut below: Option<&str> = None;
    for line in text.lines() {
        // A line that goes on in the next hides where a section starts.
        if line.ends_with('\\') || line.chars().any(|ch| ch.is_control() && ch != '\t') {
            return None;
        }
        let mut rest = line.trim_start();
        if let Some(header) = rest.strip_prefix('[') {
            let (name, more, behind) = read_header(header)?;
            // git hands the names of remotes on to itself, where one may be an option with a program.
            if more.is_some_and(|more| more.starts_with('-') || more.contains('\\')) {
                return None;
            }
            (section, below) = (name, more);
            rest = behind.trim_start();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let end = rest.find(|ch: char| !ch.is_ascii_alphanumeric() && ch != '-').unwrap_or(rest.len());
        let (name, rest) = rest.split_at_checked(end)?;
        let name = name.to_ascii_lowercase();
        // Without a value it is an error where one is needed.
        let value = rest.trim_start().strip_prefix('=').unwrap_or_default().trim_matches([' ', '\t']);
        if name.is_empty() || !holds(&Setting { section: &section, below, name: &name, value }) {
            return Some(false);
        }
    }
    Some(true)
}

/// The name of a section in lower case, its second part as it is written, and what stands behind the bracket.
fn read_header(header: &str) -> Option<(String, Option<&str>, &str)> {
    let end = header.find(|ch: char| !ch.is_ascii_alphanumeric() && ch != '-')?;
    let (name, rest) = (header.get(..end)?.to_ascii_lowercase(), header.get(end..)?);
    if let Some(behind) = rest.strip_prefix(']') {
        return Some((name, None, behind));
    }
    let quoted = rest.trim_start().strip_prefix('"')?;
    let mut chars = quoted.char_indices();
    while let Some((at, ch)) = chars.next() {
        match ch {
            '\\' => {
                chars.next();
            }
            '"' => {
                let behind = quoted.get(at + 1..)?.strip_prefix(']')?;
                return Some((name, quoted.get(..at), behind));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_no_program(text: &str) -> bool {
        read(text).is_some()
    }

    #[test]
    fn only_known_settings_name_no_program() {
        let usual = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n# a comment\n\
             [remote \"origin\"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [branch \"main\"]\n\tremote = origin\n[user] name = \"Ann\" ; me\n\n[color]\n\tui\n";
        assert!(names_no_program(usual));
        assert!(names_no_program(""));
        assert!(names_no_program(
            "[merge]\n\tconflictStyle = zdiff3\n[lfs]\n\trepositoryformatversion = 0\n\
             [lfs \"https://example.org/x\"]\n\taccess = basic\n"
        ));
        assert!(names_no_program(
            "[status]\n\tshowStash = true\n[core]\n\twhitespace = -trailing-space\n\tsafecrlf = warn\n\
             \tlongpaths = true\n\tcompression = 9\n\tpager = cat\n[diff]\n\tnoprefix = true\n\
             [color \"diff\"]\n\tmeta = bold\n[core]abbrev = 12\n"
        ));
        assert!(!names_no_program("fsmonitor = x"));
        for more in [
            "[core]\nfsmonitor = ./x",
            "[CORE] FsMonitor=./x",
            "[core] hooksPath = x",
            "[core] pager = x",
            "[core] sshCommand = x",
            "[core] worktree = /x",
            "[core] commentChar = e",
            "[core] pager = cat x",
            "[pager] log = x",
            "[blame] ignoreRevsFile = x",
            "[submodule] recurse = true",
            "[core \"x\"] bare = true",
            "[diff] external = x",
            "[diff \"x\"] textconv = y",
            "[diff \"x\"] renames = y",
            "[diff.x] command = y",
            "[merge \"x\"] driver = y",
            "[merge \"x\"] ff = y",
            "[merge.x] driver = y",
            "[lfs \"extension.x\"] clean = y",
            "[lfs \"customtransfer.x\"] path = y",
            "[lfs] standalonetransferagent = x",
            "[log] diffMerges = remerge",
            "[alias] st = !x",
            "[filter \"x\"] clean = y",
            "[gpg] program = x",
            "[include] path = x",
            "[includeIf \"gitdir:/\"] path = x",
            "[credential] helper = x",
            "[remote \"origin\"] promisor = true",
            "[remote \"a]b\"] uploadpack = x",
            "[remote \"--upload-pack=./x\"] url = y",
            "[remote \"\\-x\"] url = y",
            "[extensions] partialClone = origin",
            "[submodule \"x\"] url = y",
            "[url \"./x\"] insteadOf = https://",
            "[gc] recentObjectsHook = x",
            "[rebase] instructionFormat = %s%nexec ./x",
            "[init] templateDir = x",
            "[branch \"main\"] mergeOptions = --strategy=x",
            "[pull] twohead = x",
            "[maintenance] repo = /x",
            "[remote] pushDefault = x",
            "[push] recurseSubmodules = on-demand",
            // The section starts inside a value, as git reads it.
            "[core]\nabbrev = 7 \\\n[user]\nfsmonitor = x",
            "[core]\nabbrev = 7 \\\r\n[user]\nfsmonitor = x",
            "[core",
            "[remote \"x]\nurl = y",
            "\u{feff}[user]\nname = x",
        ] {
            assert!(!names_no_program(&format!("{usual}{more}\n")), "{more}");
        }
    }

    #[test]
    fn settings_inside_another_work_tree_name_their_own_once() {
        let is_plain = |text: &str| are_plain_inside(text, |named| named == "..");
        assert!(is_plain("[core]\n\tworktree = ..\n[submodule \"x\"]\n\turl = y\n"));
        for text in ["[core] worktree = /x", "[core]\nworktree = ..\nworktree = ..", "[core] worktree = ..#"]
        {
            assert!(!is_plain(text), "{text}");
        }
    }
}
