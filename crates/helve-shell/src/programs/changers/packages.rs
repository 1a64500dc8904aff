//! Package managers: those that download, and those that change the system.

use super::reading::{asks_for_help, deeds, mentions};
use super::{Invocation, Meaning, On, hosts};
use crate::analysis::{Arg, DepartureKind, EffectKind};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    let args = invocation.args;
    let words = words(args);
    let first = words.first().map_or("", |(_, word)| *word);
    let second = words.get(1).map_or("", |(_, word)| *word);
    let changes_system = match program {
        "apt" | "apt-get" | "aptitude" => matches!(
            first,
            "install"
                | "remove"
                | "purge"
                | "upgrade"
                | "dist-upgrade"
                | "full-upgrade"
                | "safe-upgrade"
                | "autoremove"
                | "reinstall"
                | "update"
                | "build-dep"
                | "dselect-upgrade"
                | "edit-sources"
                | "satisfy"
        ),
        "dnf" | "yum" | "microdnf" | "zypper" => matches!(
            first,
            "install"
                | "in"
                | "remove"
                | "rm"
                | "erase"
                | "update"
                | "up"
                | "upgrade"
                | "dup"
                | "reinstall"
                | "autoremove"
                | "groupinstall"
                | "localinstall"
                | "downgrade"
                | "swap"
                | "distro-sync"
        ),
        "apk" => matches!(first, "add" | "del" | "upgrade" | "fix" | "update"),
        "pacman" | "yay" | "paru" => {
            args.iter().any(|arg| arg.prefix().starts_with(['-']) && is_pacman_change(arg.prefix()))
        }
        "snap" | "flatpak" | "port" | "emerge" => {
            matches!(first, "install" | "remove" | "uninstall" | "refresh" | "update" | "upgrade")
        }
        "dpkg" => {
            mentions(args, &["-i", "--install", "-r", "--remove", "-P", "--purge", "--unpack", "--configure"])
        }
        "rpm" => args.iter().any(|arg| is_rpm_change(arg.prefix())),
        "brew" | "pip" | "pip3" | "pipx" | "uv" | "npm" | "yarn" | "pnpm" | "bun" | "cargo" | "gem"
        | "bundle" | "bundler" | "go" | "composer" | "poetry" | "pipenv" | "conda" | "mamba"
        | "micromamba" | "rustup" | "nix-env" | "cpan" | "cpanm" | "luarocks" | "mvn" | "dotnet" | "deno"
        | "pod" | "mix" | "stack" | "cabal" | "nvm" | "pyenv" => false,
        _ => return None,
    };
    let dry = mentions(
        args,
        &["-s", "--simulate", "--dry-run", "--just-print", "--no-act", "--recon", "--assumeno"],
    );
    if asks_for_help(args) || (dry && !matches!(program, "yarn" | "npm" | "pnpm" | "go")) {
        return Some(Meaning::default());
    }
    let mut meaning = Meaning::default();
    if changes_system {
        meaning.deeds.extend(deeds([(EffectKind::Privilege, On::Machine)]).deeds);
    }
    let is_local = matches!(program, "dpkg" | "rpm");
    if (changes_system && !is_local) || downloads(program, first, second) {
        meaning.deeds.extend(deeds(sources(args)).deeds);
    }
    if matches!(program, "apt" | "apt-get" | "aptitude") {
        // `-o` can set hooks that run commands.
        let options = args.iter().enumerate().filter(|(_, arg)| is_apt_option(arg.prefix()));
        meaning.departures.extend(options.map(|(at, _)| (DepartureKind::Configuration, at)));
    }
    meaning.deeds.extend(deeds(files(program, args)).deeds);
    Some(meaning)
}

/// Options in front of a manager's command that have their value in the next argument.
const VALUES: &[&str] = &[
    "-o",
    "--option",
    "-c",
    "--config-file",
    "--target-release",
    "-C",
    "--cwd",
    "--dir",
    "--prefix",
    "--filter",
    "--manifest-path",
    "--config",
    "--color",
    "--directory",
    "--project",
    "--log",
    "--proxy",
    "--cache-dir",
    "--root",
];

/// The arguments that are neither options nor their values, with their texts.
fn words(args: &[Arg]) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        if arg.text().is_some_and(|text| VALUES.contains(&text)) {
            at += 1;
        } else if !arg.prefix().starts_with(['-', '+']) {
            words.push((at, arg.text().unwrap_or("")));
        }
        at += 1;
    }
    words
}

fn is_pacman_change(option: &str) -> bool {
    let lists = option.contains(['s', 'i', 'l', 'g']) && !option.contains('y') && !option.contains('u');
    (option.starts_with("-S") && !lists)
        || option.starts_with("-R")
        || option.starts_with("-U")
        || matches!(option, "--sync" | "--remove" | "--upgrade")
}

fn is_rpm_change(option: &str) -> bool {
    let letters = option.strip_prefix('-').unwrap_or_default();
    matches!(letters, "-install" | "-upgrade" | "-erase" | "-freshen" | "-import" | "-reinstall")
        || (letters.starts_with(['i', 'U', 'F', 'e']) && letters.len() <= 5)
}

fn is_apt_option(option: &str) -> bool {
    (option.starts_with("-o") && !option.starts_with("-oDebug"))
        || option.starts_with("--option")
        || option.starts_with("-c")
        || option.starts_with("--config-file")
}

/// Whether a command of a package manager fetches something.
fn downloads(program: &str, first: &str, second: &str) -> bool {
    match program {
        "brew" => {
            matches!(first, "install" | "reinstall" | "upgrade" | "update" | "tap" | "fetch" | "bundle")
        }
        "pip" | "pip3" => matches!(first, "install" | "download" | "wheel" | "index" | "search"),
        "pipx" => matches!(first, "install" | "inject" | "upgrade" | "upgrade-all" | "reinstall"),
        "uv" => match first {
            "pip" => matches!(second, "install" | "sync" | "compile"),
            "tool" | "python" => matches!(second, "install" | "upgrade"),
            _ => matches!(first, "add" | "sync" | "lock" | "publish" | "self"),
        },
        "npm" | "pnpm" | "yarn" | "bun" => match first {
            "" => program == "yarn",
            "install" | "i" | "in" | "ci" | "add" | "update" | "up" | "upgrade" | "audit" | "outdated"
            | "publish" | "view" | "info" | "search" | "login" | "create" | "init" | "install-test"
            | "it" | "import" | "dedupe" => !(matches!(first, "init" | "info") && second.is_empty()),
            "global" => matches!(second, "add" | "upgrade"),
            _ => false,
        },
        "cargo" => {
            matches!(
                first,
                "install" | "add" | "fetch" | "update" | "publish" | "search" | "login" | "yank" | "owner"
            )
        }
        "gem" => matches!(first, "install" | "update" | "push" | "fetch" | "search"),
        "bundle" | "bundler" => matches!(first, "" | "install" | "update" | "add" | "outdated"),
        "go" => {
            matches!(first, "get" | "install") || (first == "mod" && matches!(second, "download" | "tidy"))
        }
        "composer" => {
            matches!(first, "install" | "update" | "require" | "global" | "create-project" | "self-update")
        }
        "poetry" => matches!(first, "add" | "install" | "update" | "publish" | "lock" | "self"),
        "pipenv" => matches!(first, "install" | "update" | "sync" | "lock"),
        "conda" | "mamba" | "micromamba" => {
            matches!(first, "install" | "create" | "update" | "search" | "upgrade")
        }
        "rustup" => matches!(first, "update" | "install" | "target" | "component" | "toolchain" | "self"),
        "apt" | "apt-get" | "aptitude" => matches!(first, "download" | "source" | "changelog"),
        "dotnet" => matches!(first, "restore" | "add" | "tool" | "nuget"),
        "luarocks" | "cpan" | "cpanm" | "pod" | "nvm" | "pyenv" | "deno" => {
            matches!(first, "install" | "update" | "add" | "upgrade")
                || (program == "cpanm" && !first.is_empty())
        }
        "mix" => first == "deps.get" || first == "archive.install",
        "cabal" | "stack" => matches!(first, "install" | "update" | "setup"),
        _ => false,
    }
}

/// The hosts that are written out, or else the registry, of which only the manager's settings know.
fn sources(args: &[Arg]) -> Vec<(EffectKind, On)> {
    let urls = args.iter().enumerate().filter_map(|(at, arg)| {
        let text = arg.text()?;
        let start =
            text.find("://").map(|colon| text[..colon].rfind(['=', '@', '+']).map_or(0, |mark| mark + 1))?;
        Some((EffectKind::Connect, On::Host(hosts::of_url(&text[start..])?, Some(at))))
    });
    let mut found: Vec<_> = urls.collect();
    found.push((EffectKind::Connect, On::Unknown(None)));
    found
}

/// Files and directories that options name.
fn files(program: &str, args: &[Arg]) -> Vec<(EffectKind, On)> {
    if !matches!(program, "pip" | "pip3" | "uv") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        let kind = match arg.text() {
            Some("-r" | "--requirement" | "-c" | "--constraint") => EffectKind::Read,
            Some("-t" | "--target" | "--prefix" | "--root" | "-d" | "--dest" | "--log") => EffectKind::Write,
            _ => continue,
        };
        if at + 1 < args.len() {
            found.push((kind, On::Arg(at + 1)));
        }
    }
    found
}
