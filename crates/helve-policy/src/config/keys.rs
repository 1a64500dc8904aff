//! The table of keys: the one place where a key is declared.
//!
//! Reading files, `helve config show`, `helve config init` and the manual are all made from it.

use std::borrow::Cow;
use std::sync::OnceLock;

use helve_core::{Limits, Verdict, protected};

use super::credentials::DENY_READ;
use super::value::{Kind, Value};
use super::{container_keys, model_keys, server_keys};
use crate::guard::{self, Pattern};

/// One key of the configuration.
#[derive(Clone, Debug)]
pub struct Key {
    /// The dotted name; `<tool>` stands for the name of any tool, `<NAME>` for that of any variable, `<profile>` for that
    /// of any profile, `<server>` for that of any MCP server.
    pub name: Cow<'static, str>,
    /// What it takes.
    pub kind: Kind,
    /// What it does, and what holds when it is not set.
    pub doc: Cow<'static, str>,
    pub(crate) default: Option<Value>,
}

impl Key {
    /// The default in JSON; null where nothing is set.
    pub fn default_json(&self) -> serde_json::Value {
        self.default.as_ref().map_or(serde_json::Value::Null, Value::to_json)
    }

    /// The parts of the name.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> + Clone {
        self.name.split('.')
    }
}

pub(crate) const SANDBOX: &str = "sandbox";
pub(crate) const PARALLEL: &str = "parallel";
pub(crate) const AUTO_APPROVE: &str = "auto_approve";
pub(crate) const RESTRICT: &str = "tools.restrict_to_workspace";
pub(crate) const EXEC_TIMEOUT: &str = "tools.exec.timeout";
pub(crate) const EXEC_WORKING_DIR: &str = "tools.exec.working_dir";
pub(crate) const EXEC_DENY: &str = "tools.exec.deny_patterns";
pub(crate) const EXEC_ASK: &str = "tools.exec.ask_patterns";
pub(crate) const EXEC_ALLOW: &str = "tools.exec.allow_patterns";
pub(crate) const EXEC_RESTRICT: &str = "tools.exec.restrict_to_workspace";
pub(crate) const EXEC_PATH_APPEND: &str = "tools.exec.path_append";
pub(crate) const EXEC_WRAPPER: &str = "tools.exec.command_wrapper";
pub(crate) const EXEC_SHELL: &str = "tools.exec.shell";
pub(crate) const EXEC_MODE: &str = "tools.exec.mode";
pub(crate) const EXEC_CHECKPOINT: &str = "tools.exec.checkpoint";
pub(crate) const EXEC_ENV: &str = "tools.exec.env";
pub(crate) const EXEC_ENV_PASS: &str = "tools.exec.env_pass";
pub(crate) const EXEC_NETWORK: &str = "tools.exec.network";
pub(crate) const EXEC_EXPLAIN: &str = "tools.exec.explain";
pub(crate) const EXEC_SYSTEM_CALLS: &str = "tools.exec.system_calls";
pub(crate) const VIEW_READ_ONLY: &str = "view.read_only";
pub(crate) const VIEW_READ_WRITE: &str = "view.read_write";
pub(crate) const VIEW_HIDDEN: &str = "view.hidden";
pub(crate) const VIEW_PROTECTED: &str = "view.protected";
pub(crate) const FILES_BRIDGE: &str = "files.bridge";
pub(crate) const FILES_DENY_READ: &str = helve_core::deny_read::KEY;
pub(crate) const FILES_READ_ONLY: &str = "files.read_only";
pub(crate) const FILES_READ_WRITE: &str = "files.read_write";
pub(crate) const FILES_HARD_LINKS: &str = "files.hard_links";
pub(crate) const CONTEXT_WINDOW: &str = "model_context_window_tokens";
pub(crate) const SECRETS: &str = "secrets";
pub(crate) const FSYNC: &str = "journal.fsync";
pub(crate) const SESSION: &str = "journal.session";
pub(crate) const APPROVAL_HOOK: &str = "approval.hook";
pub(crate) const APPROVAL_HOOK_TIMEOUT: &str = "approval.hook_timeout";
pub(crate) const HOOKS: &str = "hooks";

pub(crate) const EXEC_DELETE_INSIDE: &str = "tools.exec.delete_inside";
pub(crate) const PROFILE: &str = "profile";
pub(crate) const RULES: &str = "rules";
pub(crate) const RULES_OTHERWISE: &str = "rules_otherwise";
pub(crate) const RULES_OTHERWISE_BARE: &str = "rules_otherwise_bare";
pub(crate) const PROFILES: &str = "profiles";
pub(crate) const CEILING_RULES: &str = "ceiling.rules";
pub(crate) const CEILING_APPROVAL: &str = "ceiling.longest_approval";
pub(crate) const CEILING_SANDBOX: &str = "ceiling.sandbox";
pub(crate) const CEILING_NETWORK: &str = "ceiling.network";
pub(crate) const CEILING_SYSTEM_CALLS: &str = "ceiling.system_calls";

pub(crate) const ANY_TOOL: &str = "<tool>";
pub(crate) const ANY_VARIABLE: &str = "<NAME>";
pub(crate) const ANY_PROFILE: &str = "<profile>";
pub(crate) const ANY_SERVER: &str = "<server>";

/// Whether a part of a key stands for any name.
pub(crate) fn is_any(part: &str) -> bool {
    [ANY_TOOL, ANY_VARIABLE, ANY_PROFILE, ANY_SERVER].contains(&part)
}

/// Whether only the machine's file may set a key.
pub(crate) fn is_ceiling(name: &str) -> bool {
    name.starts_with("ceiling.")
}

pub(crate) const VERDICTS: &[&str] = &["allow", "ask", "deny"];
pub(crate) const APPROVAL_LENGTHS: &[&str] = &["once", "session", "always"];

pub(crate) const SANDBOXES: &[&str] = &["auto", "native", "landlock", "bwrap", "container", "none"];
pub(crate) const APPROVALS: &[&str] = &["never", "unless_auto_approved", "always"];
pub(crate) const EXEC_MODES: &[&str] = &["direct", "preview"];
pub(crate) const EXPLAINS: &[&str] = &["rare", "full"];
pub(crate) const SYSTEM_CALLS: &[&str] = &["ptrace", "io_uring", "perf", "userfaultfd"];
pub(crate) const BRIDGES: &[&str] = &["host", "sandbox"];
pub(crate) const HARD_LINKS: &[&str] = &["refuse", "allow"];

/// The least value of a limit; a limit that is not named may be 1.
const LEAST: &[(&str, u64)] = &[
    // Nothing is kept.
    ("blob_bytes", 0),
    ("blob_store_bytes", 0),
    ("undo_bytes", 0),
    ("undo_store_bytes", 0),
    // The limit binds the sandbox's own processes too, which write small files before the command starts.
    ("exec_file_bytes", 1 << 20),
    ("exec_disk_bytes", 1 << 20),
    ("exec_layer_bytes", 1 << 20),
    // With less no shell starts.
    ("exec_open_files", 16),
    ("exec_memory_bytes", 16 << 20),
    ("exec_processes", 4),
    // A file system of no size has no bound.
    ("exec_tmp_bytes", 64 << 10),
];

/// Every key, in the order of the manual.
pub fn keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let mut keys = plain_keys();
        keys.extend(container_keys::keys());
        keys.extend(model_keys::keys());
        keys.extend(server_keys::keys());
        keys.extend(Limits::TABLE.iter().map(|limit| Key {
            name: Cow::Owned(format!("limits.{}", limit.name)),
            kind: match limit.unit {
                "seconds" => Kind::Seconds,
                _ => Kind::AtLeast(least(limit.name)),
            },
            doc: Cow::Owned(match least(limit.name) {
                0 | 1 => format!("In {}. At the limit: {}.", limit.unit, limit.at_limit),
                least => format!("In {}, {least} or more. At the limit: {}.", limit.unit, limit.at_limit),
            }),
            default: Some(Value::Count(limit.default)),
        }));
        keys
    })
}

fn least(limit: &str) -> u64 {
    LEAST.iter().find(|(name, _)| *name == limit).map_or(1, |(_, least)| *least)
}

fn plain_keys() -> Vec<Key> {
    let key = |name: &'static str, kind, default, doc: &'static str| Key {
        name: Cow::Borrowed(name),
        kind,
        doc: Cow::Borrowed(doc),
        default,
    };
    let flag = |value| Some(Value::Bool(value));
    let text = |value: &str| Some(Value::Text(value.to_owned()));
    let empty = || Some(Value::List(Vec::new()));
    let rules = |verdict| {
        let names = guard::rule_names(verdict);
        let rules = names.into_iter().filter_map(|name| Pattern::anywhere(name, verdict).ok());
        Some(Value::Patterns(rules.collect()))
    };
    vec![
        key(
            SANDBOX,
            Kind::Choice(SANDBOXES),
            text("auto"),
            "Where commands run. auto: native, and where this machine refuses it landlock, and where it refuses that too not at all. native: namespaces, mounts, Landlock, a system call filter and limits of Helve's own. landlock: the same without namespaces. bwrap: the installed bubblewrap. container: a container of Docker or Podman, see [container]. none: bare. Only auto steps down, and only to landlock; `helve doctor` says what works here. A command_wrapper replaces them all.",
        ),
        key(PARALLEL, Kind::Bool, flag(true), "Whether calls that cannot disturb each other run at once."),
        key(
            AUTO_APPROVE,
            Kind::Bool,
            flag(false),
            "Whether calls that need approval unless auto-approved go ahead without a question.",
        ),
        key(
            CONTEXT_WINDOW,
            Kind::AtLeast(1),
            None,
            "How many tokens the model's context window holds: `read_file` shows more or less at a time by it. Not set: model.context_window, else not known.",
        ),
        key(
            PROFILE,
            Kind::Text,
            None,
            "A named set of rules and settings: readonly, guarded, coding, open, or one of [profiles]. What the configuration sets itself goes before it. Not set: none.",
        ),
        key(
            RULES,
            Kind::Rules,
            Some(Value::Rules(Vec::new())),
            "What is allowed, asked about or denied, each a table `[[rules]]` with `verdict` and what it is about: `command`, `effect`, `path`, `host`, `tool`. The strictest wins. Those of all layers add up.",
        ),
        key(
            RULES_OTHERWISE,
            Kind::Choice(VERDICTS),
            None,
            "What happens to a command, or to a change by a file tool, that no rule is about. Not set: \"ask\" if a rule allows commands, else \"allow\".",
        ),
        key(
            RULES_OTHERWISE_BARE,
            Kind::Choice(VERDICTS),
            None,
            "The same where no sandbox contains the command; counts if it is stricter. Not set: as rules_otherwise.",
        ),
        key(
            HOOKS,
            Kind::Hooks,
            Some(Value::Hooks(Vec::new())),
            "Programs of yours that are run before and after calls and at the start and end of sessions, each a table `[[hooks]]`. One that is run before a call can refuse it, answer its question or change its arguments, and the call is refused where it fails; none can lift a refusal. Those of all layers add up. Not in a workspace's own file.",
        ),
        key(
            SECRETS,
            Kind::Secrets,
            Some(Value::Secrets(Vec::new())),
            "Values that never reach a model or the journal: each a table with env = \"NAME\" or file = \"/path\".",
        ),
        key(
            RESTRICT,
            Kind::Bool,
            flag(false),
            "Whether commands that name a path outside the workspace are refused, for all tools. Links that exist are followed; the sandbox is the boundary.",
        ),
        key(
            EXEC_TIMEOUT,
            Kind::Seconds,
            None,
            "How long a command may run when the call does not say. Not set: limits.exec_timeout_default.",
        ),
        key(
            EXEC_WORKING_DIR,
            Kind::Text,
            None,
            "Where commands start when the call does not say; relative to the workspace. Not set: the workspace.",
        ),
        key(
            EXEC_DENY,
            Kind::DenyPatterns,
            rules(Verdict::Deny),
            "Commands that are refused: names of built-in rules, and regular expressions searched anywhere in the command, in any case. Setting it replaces the list; [] refuses nothing. Unless it is empty, commands that cannot be read are refused too (guard.unreadable, guard.too-complex).",
        ),
        key(
            EXEC_ASK,
            Kind::AskPatterns,
            rules(Verdict::Ask),
            "Commands that a person has to agree to each time, in the same form. Setting it replaces the list; [] asks about nothing. While it is not set, the list counts only for commands that run without a sandbox: there everything that does more than read is asked about (guard.bare).",
        ),
        key(
            EXEC_ALLOW,
            Kind::WholePatterns,
            None,
            "If set, only commands whose every part matches one of these regular expressions as a whole, with words that are written out or plain $NAME: no substitution, no other expansion, no file written by redirection, no control structure, nothing whose effect cannot be read. What a command starts in turn has to match too. [] allows no command. Not set: no such list.",
        ),
        key(
            EXEC_RESTRICT,
            Kind::Bool,
            flag(false),
            "The same as tools.restrict_to_workspace, for exec alone. Either of them switches it on.",
        ),
        key(
            EXEC_DELETE_INSIDE,
            Kind::Bool,
            flag(false),
            "Whether recursive deletion of paths that are written out and lie strictly inside the workspace is let through; never the workspace itself, .git, a glob at its root, or what cannot be read.",
        ),
        key(EXEC_PATH_APPEND, Kind::Text, text(""), "Directories for the end of PATH, separated by colons."),
        key(
            EXEC_WRAPPER,
            Kind::Template,
            text(""),
            "A command line around each command, with {command} and {cwd}; runs instead of the sandbox. Empty: none.",
        ),
        key(
            EXEC_SHELL,
            Kind::Shell,
            None,
            "The shell that reads commands. Not set: bash where there is one, else sh; in a container /bin/sh.",
        ),
        key(
            EXEC_MODE,
            Kind::Choice(EXEC_MODES),
            text("direct"),
            "What a command does to the workspace. direct: what it says. preview: nothing; it runs over a layer, the result says what it would change, and `helve commit` or `helve discard` decides. Needs the sandbox native.",
        ),
        key(
            EXEC_CHECKPOINT,
            Kind::Bool,
            flag(false),
            "Whether what a command changes in the workspace can be taken back with `helve undo`: it runs over a layer, which is committed when it ends. Needs the sandbox native; other places that commands may write are read-only then.",
        ),
        key(
            EXEC_ENV_PASS,
            Kind::VariableNames,
            empty(),
            "Variables of Helve's own environment that are passed on to commands; none of HELVE_* and none that `secrets` names.",
        ),
        key(EXEC_NETWORK, Kind::Bool, flag(false), "Whether sandboxed commands reach the host's network."),
        key(
            EXEC_SYSTEM_CALLS,
            Kind::Words(SYSTEM_CALLS),
            empty(),
            "System calls that sandboxed commands may make besides the usual ones, by what they are for. ptrace: debuggers and tracers of the command's own processes. io_uring: input and output in bulk, whose requests the filter cannot see. perf, userfaultfd. Each lets commands reach more of the kernel.",
        ),
        key(
            EXEC_EXPLAIN,
            Kind::Choice(EXPLAINS),
            text("rare"),
            "How closely a command is watched for what the sandbox refuses to it, so that the result can say what, by which rule, and what would allow it. rare: sockets, connections, programs and system calls, which costs nearly nothing. full: files too, each that it opens or changes, which takes time with every one. Needs the sandbox native.",
        ),
        key("tools.exec.env.<NAME>", Kind::Text, None, "A variable that every command gets."),
        key("tools.<tool>.enabled", Kind::Bool, flag(true), "Whether the tool exists for callers."),
        key(
            "tools.<tool>.approval",
            Kind::Choice(APPROVALS),
            None,
            "When a person has to agree to a call. Not set: as the tool declares.",
        ),
        key(
            "tools.<tool>.per_minute",
            Kind::Calls,
            None,
            "Calls by one caller in any 60 seconds, counted in one process: each new process of Helve starts from nothing. Not set: as the tool declares.",
        ),
        key(
            "tools.<tool>.per_hour",
            Kind::Calls,
            None,
            "Calls by one caller in any hour, counted in one process: each new process of Helve starts from nothing. Not set: as the tool declares.",
        ),
        key(
            VIEW_READ_ONLY,
            Kind::Paths,
            empty(),
            "Paths that sandboxed commands may read, besides system directories and toolchains. Not /, as in every list of the view.",
        ),
        key(
            VIEW_READ_WRITE,
            Kind::Paths,
            empty(),
            "Paths that sandboxed commands may write, besides the workspace. None may hold a file that configures Helve or a file of `secrets`.",
        ),
        key(
            VIEW_HIDDEN,
            Kind::Paths,
            empty(),
            "Paths that sandboxed commands never see, even inside what they may read.",
        ),
        key(
            VIEW_PROTECTED,
            Kind::FileNames,
            Some(Value::List(protected::NAMES.iter().map(|name| (*name).to_owned()).collect())),
            "Names of files and directories that, anywhere in the workspace, run or configure programs without being asked: sandboxed commands cannot change them, and new ones are taken away and kept as blobs. `.git` stands for hooks and configuration of repositories, not for the whole; a name that begins with `*` stands for all that end so. Setting it replaces the list; [] protects nothing.",
        ),
        key(
            FILES_BRIDGE,
            Kind::Choice(BRIDGES),
            text("host"),
            "Where file tools do their work. host: in Helve itself, through the open directory of the workspace. sandbox: in a helper inside the sandbox that commands run in, with no more rights than a command has; slower, and there must be a sandbox.",
        ),
        key(
            FILES_DENY_READ,
            Kind::PathPatterns,
            Some(Value::List(DENY_READ.iter().map(|pattern| (*pattern).to_owned()).collect())),
            "Patterns, as in a .gitignore file, of paths that no file tool reads, names, searches, looks into or overwrites, and that sandboxed commands cannot read where they exist when a command starts. Setting it replaces the list; [] denies nothing.",
        ),
        key(
            FILES_READ_ONLY,
            Kind::Paths,
            empty(),
            "Directories besides the workspace that file tools may read, by absolute paths. Not /.",
        ),
        key(
            FILES_READ_WRITE,
            Kind::Paths,
            empty(),
            "Directories besides the workspace that file tools may read and change. None may hold a file that configures Helve or a file of `secrets`.",
        ),
        key(
            FILES_HARD_LINKS,
            Kind::Choice(HARD_LINKS),
            text("refuse"),
            "What happens to a file with more than one name. refuse: file tools neither read nor replace it, because the other name may lie outside the workspace. allow: they do; replacing it leaves what has the other name as it is.",
        ),
        key(
            FSYNC,
            Kind::Bool,
            flag(false),
            "Whether each journal entry is forced to the disk, so that it survives a loss of power.",
        ),
        key(
            SESSION,
            Kind::SessionName,
            None,
            "The session under which calls are recorded. Not set: the command chooses.",
        ),
        key(
            "profiles.<profile>.extends",
            Kind::Text,
            None,
            "The profile that this one starts from. Its rules and settings hold unless this one says otherwise.",
        ),
        key(
            "profiles.<profile>.rules",
            Kind::Rules,
            Some(Value::Rules(Vec::new())),
            "Rules of the profile, added to those of the configuration.",
        ),
        key(
            "profiles.<profile>.rules_otherwise",
            Kind::Choice(VERDICTS),
            None,
            "As rules_otherwise, where the configuration does not set it.",
        ),
        key(
            "profiles.<profile>.rules_otherwise_bare",
            Kind::Choice(VERDICTS),
            None,
            "As rules_otherwise_bare, where the configuration does not set it.",
        ),
        key(
            "profiles.<profile>.delete_inside",
            Kind::Bool,
            flag(false),
            "As tools.exec.delete_inside, where the configuration does not set it.",
        ),
        key(
            "profiles.<profile>.restrict_to_workspace",
            Kind::Bool,
            flag(false),
            "As tools.restrict_to_workspace, where the configuration does not set it.",
        ),
        key(
            "profiles.<profile>.network",
            Kind::Bool,
            flag(false),
            "As tools.exec.network, where the configuration does not set it.",
        ),
        key(
            APPROVAL_HOOK,
            Kind::Program,
            None,
            "A program that answers questions where no person is at a terminal. It gets the question as one line of JSON and answers with one: {\"answer\": \"once\"}, or \"session\", \"always\", \"deny\". Must not lie in a workspace. Not set: nobody answers.",
        ),
        key(
            APPROVAL_HOOK_TIMEOUT,
            Kind::Seconds,
            Some(Value::Count(120)),
            "How long that program may take; after that the call is refused and the program ended.",
        ),
        key(
            CEILING_RULES,
            Kind::Rules,
            Some(Value::Rules(Vec::new())),
            "Rules that ask or deny and that no later layer, profile or approval lifts. As all of [ceiling], only in the machine's file.",
        ),
        key(
            CEILING_APPROVAL,
            Kind::Choice(APPROVAL_LENGTHS),
            text("always"),
            "How long an approval may hold at the most. Below \"always\", auto_approve and an approval of \"never\" in a later layer are errors.",
        ),
        key(
            CEILING_SANDBOX,
            Kind::Bool,
            flag(false),
            "Whether commands must run in a sandbox: a later layer that runs them bare or in a wrapper of its own is an error.",
        ),
        key(
            CEILING_NETWORK,
            Kind::Bool,
            flag(true),
            "Whether tools.exec.network may be switched on. If not, commands must run in a sandbox, which alone keeps it closed.",
        ),
        key(CEILING_SYSTEM_CALLS, Kind::Bool, flag(true), "Whether tools.exec.system_calls may grant any."),
    ]
}
