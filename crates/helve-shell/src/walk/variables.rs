//! Which variables in a program's environment matter.

/// What a variable can do to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Nothing but language, colours and the like.
    Harmless,
    /// Something, depending on the program.
    Notable,
    /// It makes the program run other code.
    Code,
}

/// What a variable with this value can do; none for a value that is not known.
pub(super) fn weight(name: &str, value: Option<&str>) -> Weight {
    if HARMLESS.contains(&name) {
        return Weight::Harmless;
    }
    if NAMES.contains(&name) || NAMES_STARTS.iter().any(|start| name.starts_with(start)) {
        return if value.is_some_and(is_plain_name) { Weight::Harmless } else { Weight::Notable };
    }
    if VIEWERS.contains(&name) {
        let plain = value.is_some_and(is_plain_viewer);
        return if plain { Weight::Harmless } else { Weight::Code };
    }
    if PROMPTS.contains(&name) {
        let expands = value.is_none_or(|value| value.contains("$(") || value.contains('`'));
        return if expands { Weight::Code } else { Weight::Notable };
    }
    let git_configuration = name.starts_with("GIT_CONFIG") && name != "GIT_CONFIG_NOSYSTEM";
    let linker =
        name.starts_with("CARGO_TARGET_") && (name.ends_with("_LINKER") || name.ends_with("_RUNNER"));
    if CODE.contains(&name)
        || CODE_STARTS.iter().any(|start| name.starts_with(start))
        || git_configuration
        || linker
    {
        return Weight::Code;
    }
    Weight::Notable
}

/// The name of a language, a zone, a terminal: it leads to no file but those of the system.
fn is_plain_name(value: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-+.,:@/=<>".contains(character);
    value.chars().all(plain)
        && !value.starts_with(['/', '.'])
        && !value.contains("..")
        && !value.contains(":/")
}

/// A viewer that only shows text: a bare name, and of `less` the options that change how it looks.
fn is_plain_viewer(value: &str) -> bool {
    let mut words = value.split([' ', '\t']).filter(|word| !word.is_empty());
    let plain = matches!(words.next(), None | Some("cat" | "less" | "more" | "true" | ":"));
    let looks = |word: &str| {
        word.strip_prefix('-').is_some_and(|letters| {
            !letters.is_empty() && letters.chars().all(|letter| "EFKMNRSXeimnqrsw".contains(letter))
        })
    };
    plain && words.all(looks)
}

/// Whether the variable holds a command that a shell or a program runs as text.
pub(super) fn is_command(name: &str) -> bool {
    VIEWERS.contains(&name)
        || matches!(
            name,
            "GIT_SSH"
                | "GIT_SSH_COMMAND"
                | "GIT_EXTERNAL_DIFF"
                | "GIT_ASKPASS"
                | "GIT_PROXY_COMMAND"
                | "SSH_ASKPASS"
                | "SUDO_ASKPASS"
                | "SUDO_EDITOR"
                | "RSYNC_RSH"
                | "CVS_RSH"
                | "SVN_SSH"
                | "LESSOPEN"
                | "LESSCLOSE"
                | "RUSTC_WRAPPER"
                | "MAKE"
                | "CC"
                | "CXX"
        )
}

/// Whether the shell expands the variable, commands and all, when it shows it.
pub(super) fn is_prompt(name: &str) -> bool {
    PROMPTS.contains(&name)
}

/// Whether the shell evaluates as arithmetic whatever is assigned to it.
pub(super) fn is_number(name: &str) -> bool {
    NUMBERS.contains(&name)
}

/// Whether the shell sets the variable itself, so that an assignment does not say what it holds later.
pub(super) fn is_shells_own(name: &str) -> bool {
    NUMBERS.contains(&name) || SHELLS_OWN.contains(&name)
}

/// Whether the shell puts text into the variable that comes from elsewhere: words of commands, lines, names of files.
pub(super) fn holds_anything(name: &str) -> bool {
    ANYTHING.contains(&name)
}

/// Whether it names a proxy through which programs connect.
pub(super) fn is_proxy(name: &str) -> bool {
    ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy"]
        .iter()
        .any(|proxy| name.eq_ignore_ascii_case(proxy))
}

/// Whether it is usually there when a shell starts: an assignment to it reaches programs without being exported.
pub(super) fn is_usual(name: &str) -> bool {
    USUAL.contains(&name)
        || USUAL_STARTS.iter().any(|start| name.starts_with(start))
        || VIEWERS.contains(&name)
        || CODE.contains(&name)
        || CODE_STARTS.iter().any(|start| name.starts_with(start))
}

/// Numbers of the shell's own; their values are evaluated when they are assigned.
const NUMBERS: [&str; 12] = [
    "RANDOM",
    "SRANDOM",
    "OPTIND",
    "HISTCMD",
    "SECONDS",
    "LINENO",
    "EPOCHSECONDS",
    "BASHPID",
    "PPID",
    "UID",
    "EUID",
    "BASH_SUBSHELL",
];

/// Other variables that the shell sets by itself, again and again.
const SHELLS_OWN: [&str; 20] = [
    "_",
    "FUNCNAME",
    "BASH_REMATCH",
    "BASH_ARGV0",
    "BASH_ARGC",
    "BASH_ARGV",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_LINENO",
    "BASH_SOURCE",
    "BASH_VERSINFO",
    "BASH_VERSION",
    "PIPESTATUS",
    "EPOCHREALTIME",
    "GROUPS",
    "DIRSTACK",
    "HOSTNAME",
    "PWD",
    "OLDPWD",
    "COMP_WORDS",
];

/// Variables of the shell's own that hold text which the script does not choose.
const ANYTHING: [&str; 11] = [
    "_",
    "FUNCNAME",
    "BASH_REMATCH",
    "BASH_ARGV0",
    "BASH_ARGV",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_SOURCE",
    "DIRSTACK",
    "COMP_WORDS",
    "COMP_LINE",
];

/// Variables that are there in most environments and that change what programs do.
const USUAL: [&str; 25] = [
    "POSIXLY_CORRECT",
    "HOME",
    "PATH",
    "PWD",
    "OLDPWD",
    "USER",
    "LOGNAME",
    "HOSTNAME",
    "TMPDIR",
    "TMP",
    "TEMP",
    "MAIL",
    "DISPLAY",
    "TAPE",
    "LESS",
    "MORE",
    "INFOPATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "PKG_CONFIG_PATH",
    "VIRTUAL_ENV",
];

const USUAL_STARTS: [&str; 14] = [
    "XDG_",
    "GIT_",
    "SSH_",
    "GPG_",
    "DBUS_",
    "CARGO_",
    "RUST",
    "PYTHON",
    "NODE_",
    "NPM_",
    "npm_config_",
    "LESS",
    "MAN",
    "GREP_",
];

/// They change how text looks, nothing else.
const HARMLESS: [&str; 28] = [
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
    "PY_COLORS",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "CI",
    "DEBUG",
    "VERBOSE",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "PYTHONHASHSEED",
    "PYTHONWARNINGS_OFF",
    "NODE_ENV",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "GIT_CONFIG_NOSYSTEM",
    "BLOCKSIZE",
    "TIMEFORMAT",
];

/// They do the same, as long as they name no file.
const NAMES: [&str; 5] = ["LANG", "LANGUAGE", "TZ", "TERM", "DEBIAN_FRONTEND"];

const NAMES_STARTS: [&str; 1] = ["LC_"];

/// They name a program that shows or edits text.
const VIEWERS: [&str; 14] = [
    "PAGER",
    "GIT_PAGER",
    "MANPAGER",
    "SYSTEMD_PAGER",
    "BAT_PAGER",
    "GH_PAGER",
    "DELTA_PAGER",
    "PSQL_PAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "FCEDIT",
    "BROWSER",
];

/// They are expanded, commands and all, each time that they are shown.
const PROMPTS: [&str; 4] = ["PS0", "PS1", "PS2", "PS4"];

/// They make programs run other code, or find other code under the same name.
const CODE: [&str; 103] = [
    "BASH_COMPAT",
    "EXECIGNORE",
    "BASH_ENV",
    "ENV",
    "KSH_ENV",
    "ZDOTDIR",
    "PROMPT_COMMAND",
    "BASHOPTS",
    "SHELLOPTS",
    "BASH_LOADABLES_PATH",
    "GLOBIGNORE",
    "SHELL",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LOCPATH",
    "NLSPATH",
    "HOSTALIASES",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PYTHONBREAKPOINT",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "PYTHONEXECUTABLE",
    "PYTHONPLATLIBDIR",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "RUBYSHELL",
    "GEM_PATH",
    "GEM_HOME",
    "BUNDLE_GEMFILE",
    "LUA_INIT",
    "LUA_PATH",
    "LUA_CPATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "TCLLIBPATH",
    "R_PROFILE",
    "R_PROFILE_USER",
    "R_ENVIRON",
    "R_HOME",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "SBT_OPTS",
    "ANT_OPTS",
    "DOTNET_STARTUP_HOOKS",
    "GOFLAGS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_EXEC_PATH",
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_TEMPLATE_DIR",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "GIT_MERGE_AUTOEDIT_COMMAND",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "SVN_SSH",
    "RSYNC_RSH",
    "CVS_RSH",
    "LESSOPEN",
    "LESSCLOSE",
    "LESSKEY",
    "LESSKEYIN",
    "MANOPT",
    "RIPGREP_CONFIG_PATH",
    "TAR_OPTIONS",
    "GREP_OPTIONS",
    "GZIP",
    "MAKEFLAGS",
    "MFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "MAKE",
    "CC",
    "CXX",
    "AWKPATH",
    "AWKLIBPATH",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "VIMINIT",
    "EXINIT",
];

const CODE_STARTS: [&str; 6] = ["LD_", "DYLD_", "BASH_FUNC_", "ERL_", "LUA_INIT", "CARGO_BUILD_"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_weigh_what_they_can_do() {
        let rows = [
            ("LC_ALL", Some("C"), Weight::Harmless),
            ("LANG", Some("en_US.UTF-8"), Weight::Harmless),
            ("LANG", Some("../evil"), Weight::Notable),
            ("LANGUAGE", Some("../../ws/evil"), Weight::Notable),
            ("TZ", Some("America/New_York"), Weight::Harmless),
            ("TZ", Some("UTC-3"), Weight::Harmless),
            ("TZ", Some(":/ws/zone"), Weight::Notable),
            ("TERM", Some("xterm-256color"), Weight::Harmless),
            ("TERM", Some("/ws/x"), Weight::Notable),
            ("DEBIAN_FRONTEND", Some("noninteractive"), Weight::Harmless),
            ("DEBIAN_FRONTEND", Some("x;system(1)"), Weight::Notable),
            ("POSIXLY_CORRECT", Some("1"), Weight::Notable),
            ("BASH_COMPAT", Some("4.2"), Weight::Code),
            ("PAGER", Some("cat"), Weight::Harmless),
            ("PAGER", Some("less -R"), Weight::Harmless),
            ("PAGER", Some("less -FRX"), Weight::Harmless),
            ("PAGER", Some(""), Weight::Harmless),
            ("PAGER", Some("less; rm x"), Weight::Code),
            ("PAGER", Some("./less"), Weight::Code),
            ("PAGER", Some("less -ofile"), Weight::Code),
            ("PAGER", Some("less +!id"), Weight::Code),
            ("GIT_PAGER", Some("evil"), Weight::Code),
            ("PAGER", None, Weight::Code),
            ("EDITOR", Some("true"), Weight::Harmless),
            ("LD_PRELOAD", Some("x"), Weight::Code),
            ("GIT_CONFIG_KEY_0", Some("x"), Weight::Code),
            ("GIT_CONFIG_NOSYSTEM", Some("1"), Weight::Harmless),
            ("CARGO_TARGET_X_RUNNER", Some("x"), Weight::Code),
            ("CARGO_TARGET_DIR", Some("x"), Weight::Notable),
            ("PS4", Some("+ "), Weight::Notable),
            ("PS4", Some("$(x)"), Weight::Code),
            ("FOO", Some("1"), Weight::Notable),
        ];
        for (name, value, expected) in rows {
            assert_eq!(weight(name, value), expected, "{name}={value:?}");
        }
    }
}
