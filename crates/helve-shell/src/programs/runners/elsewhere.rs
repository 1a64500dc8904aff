//! Programs that run a command on another host, in a container, under another root or in other namespaces.

use super::repeaters::first_operand;
use crate::analysis::{Arg, DepartureKind, EffectKind, Input, OpaqueReason};
use crate::programs::meaning::joined;
use crate::programs::options::{Grammar, Item, Order, Place, read, read_from};
use crate::programs::{Inner, Invocation, Meaning, On, hosts};

/// What such a program does, if it is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    Some(match invocation.program {
        "ssh" | "slogin" | "autossh" | "mosh" | "sshpass" => ssh(invocation),
        "docker" | "podman" | "nerdctl" => return container(invocation),
        "kubectl" | "oc" => kubectl(invocation),
        "nsenter" => namespaces(invocation, &NSENTER),
        "unshare" => namespaces(invocation, &UNSHARE),
        "chroot" => chroot(invocation),
        _ => return None,
    })
}

const SSH: Grammar = Grammar {
    flags: "46AaCfGgKkMNnqsTtVvXxYy",
    values: "BbcDEeFIiJLlmOoPpQRSWw",
    names: &["ssh= port= predict= family= server="],
    order: Order::First,
    ..Grammar::NONE
};

/// `ssh [options] HOST [COMMAND …]`: the words of the command are joined, and a shell over there reads them.
fn ssh(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    if invocation.program == "sshpass" {
        const SSHPASS: Grammar =
            Grammar { flags: "ehvV", values: "fdpP", order: Order::First, ..Grammar::NONE };
        let first = first_operand(&read(args, &SSHPASS), invocation);
        meaning.runs(invocation.from(first), invocation.more);
        return meaning;
    }
    let items = read(args, &SSH);
    meaning.notes_unknown(&items);
    let mut asks = false;
    for item in &items {
        match *item {
            Item::Value("o", place) => ssh_option(&mut meaning, args, place),
            Item::Value("F", place) => meaning.departs(DepartureKind::Configuration, place.option),
            Item::Value("I", place) => meaning.departs(DepartureKind::Code, place.option),
            Item::Value("E", place) => meaning.writes_option(args, place),
            Item::Value("i", place) => meaning.reads(place.on(args)),
            Item::Value("ssh", place) => meaning.runs_option_text(args, place),
            Item::Value("J", place) => {
                for host in place.text(args).map_or_else(Vec::new, |text| text.split(',').collect()) {
                    let host = On::Host(ssh_host(host, Some("22")), Some(place.option));
                    meaning.does(EffectKind::Connect, host);
                }
                if place.text(args).is_none() {
                    meaning.does(EffectKind::Connect, On::Unknown(Some(place.option)));
                }
            }
            Item::Value("Q", _) | Item::Flag("V" | "G", _) => asks = true,
            _ => {}
        }
    }
    let host = first_operand(&items, invocation);
    if asks || host >= args.len() {
        return meaning;
    }
    meaning.departs(DepartureKind::Network, host);
    // Options may stand behind the host, too.
    let behind = read_from(args, host + 1, &SSH);
    let port = ssh_port(&items, args).or_else(|| ssh_port(&behind, args)).unwrap_or(Some("22"));
    let name = invocation.text(host).map(|text| ssh_host(text, port));
    meaning
        .does(EffectKind::Connect, name.map_or(On::Unknown(Some(host)), |name| On::Host(name, Some(host))));
    for item in &behind {
        if let Item::Value("o", place) = item {
            ssh_option(&mut meaning, args, *place);
        }
    }
    if let Some(text) = joined(invocation.from(first_operand(&behind, invocation))) {
        meaning.inner.push(Inner::Shell {
            text,
            shell: "sh".to_owned(),
            parameters: Vec::new(),
            elsewhere: true,
        });
    } else if let Input::Text(text) = invocation.input {
        // Without a command, the shell over there reads what comes in.
        meaning.inner.push(Inner::Shell {
            text: text.clone(),
            shell: "sh".to_owned(),
            parameters: Vec::new(),
            elsewhere: true,
        });
    }
    meaning
}

/// The host of `[user@]host` or `ssh://[user@]host[:port]`, at the port if it names none.
fn ssh_host(text: &str, port: Option<&str>) -> String {
    let text = text.strip_prefix("ssh://").unwrap_or(text);
    let host = text.rsplit('@').next().unwrap_or(text);
    port.and_then(|port| port.parse().ok()).map_or_else(|| host.to_owned(), |port| hosts::at_port(host, port))
}

/// The first port that options of `ssh` name, if they name one: none in it if that cannot be read.
fn ssh_port<'a>(items: &[Item], args: &'a [Arg]) -> Option<Option<&'a str>> {
    items.iter().find_map(|item| match *item {
        Item::Value("p", place) => Some(place.text(args)),
        Item::Value("o", place) => {
            let (name, value) = place.prefix(args).split_once(['=', ' '])?;
            let is_certain = place.text(args).is_some();
            name.eq_ignore_ascii_case("port").then(|| is_certain.then(|| value.trim_matches([' ', '='])))
        }
        _ => None,
    })
}

/// `-o Name=value`: some settings hold a command that runs here.
fn ssh_option(meaning: &mut Meaning, args: &[Arg], place: Place) {
    let known = place.prefix(args);
    let end = known.find(['=', ' ']).unwrap_or(known.len());
    let name = known[..end].to_ascii_lowercase();
    match name.as_str() {
        "proxycommand" | "localcommand" | "knownhostscommand" | "proxyusefdpass" => {
            let value = known[end..].trim_start_matches(['=', ' ', '"']);
            if value == "none" && place.text(args).is_some() {
                return;
            }
            let skip = place.skip + known.len() - value.len();
            meaning.runs_option_text(args, Place { skip, ..place });
        }
        "include" | "pkcs11provider" | "securitykeyprovider" | "xauthlocation" | "controlpath" => {
            meaning.departs(DepartureKind::Configuration, place.option);
        }
        "" => {
            meaning.departs(DepartureKind::Configuration, place.option);
            meaning.hides(OpaqueReason::UnknownText, Some(place.option));
        }
        _ => {}
    }
}

const DOCKER: Grammar = Grammar {
    flags: "Dv",
    values: "cHl",
    names: &[
        "config= context= debug host= log-level= tls tlscacert= tlscert= tlskey= tlsverify url= connection= remote \
         identity= root= runroot= storage-driver= cgroup-manager= namespace= address=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

const DOCKER_EXEC: Grammar = Grammar {
    flags: "dit",
    values: "euw",
    names: &[
        "detach detach-keys= env= env-file= interactive privileged tty user= workdir= latest preserve-fds= index= no-TTY",
    ],
    order: Order::First,
    ..Grammar::NONE
};

const DOCKER_RUN: Grammar = Grammar {
    flags: "diPtqTV",
    values: "acehlmpuvw",
    names: &[
        "add-host= annotation= attach= blkio-weight= blkio-weight-device= cap-add= cap-drop= cgroup-parent= cgroupns= \
         cidfile= cpu-count= cpu-percent= cpu-period= cpu-quota= cpu-rt-period= cpu-rt-runtime= cpu-shares= cpus= \
         cpuset-cpus= cpuset-mems= detach detach-keys= device= device-cgroup-rule= device-read-bps= device-read-iops= \
         device-write-bps= device-write-iops= disable-content-trust dns= dns-opt= dns-option= dns-search= domainname= \
         entrypoint= env= env-file= expose= gpus= group-add= health-cmd= health-interval= health-retries= \
         health-start-period= health-timeout= hostname= init interactive io-maxbandwidth= io-maxiops= ip= ip6= ipc= \
         isolation= kernel-memory= label= label-file= link= link-local-ip= log-driver= log-opt= mac-address= memory= \
         memory-reservation= memory-swap= memory-swappiness= mount= name= net= net-alias= network= network-alias= \
         no-healthcheck oom-kill-disable oom-score-adj= pid= pids-limit= platform= privileged publish= publish-all \
         pull= quiet read-only restart= rm runtime= security-opt= shm-size= sig-proxy? stop-signal= stop-timeout= \
         storage-opt= sysctl= tmpfs= tty ulimit= user= userns= uts= volume= volume-driver= volumes-from= workdir= \
         no-deps service-ports use-aliases build replace requires= rootfs systemd= tz= umask= arch= os= secret=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// `docker run`, `docker exec`, `docker compose run`; none for subcommands that change something in other ways.
fn container(invocation: &Invocation<'_>) -> Option<Meaning> {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &DOCKER);
    for item in &items {
        if let Item::Value("H" | "host" | "c" | "context" | "url" | "connection", place) = item {
            meaning.departs(DepartureKind::Configuration, place.option);
        }
        if let Item::Value("config" | "tlscacert" | "tlscert" | "tlskey" | "identity", place) = item {
            meaning.reads(place.on(args));
        }
    }
    let mut name = first_operand(&items, invocation);
    if matches!(invocation.text(name), Some("container")) {
        name += 1;
    } else if invocation.text(name) == Some("compose") {
        const COMPOSE: Grammar = Grammar {
            values: "fp",
            names: &[
                "file= project-name= profile= env-file= project-directory= ansi= parallel= progress= compatibility dry-run",
            ],
            order: Order::First,
            ..Grammar::NONE
        };
        let items = read_from(args, name + 1, &COMPOSE);
        meaning.notes_unknown(&items);
        for item in &items {
            if let Item::Value("f" | "file" | "env-file" | "project-directory", place) = item
                && place.text(args) != Some("-")
            {
                meaning.reads(place.on(args));
            }
        }
        name = first_operand(&items, invocation);
    }
    match invocation.text(name) {
        Some("exec") => contained(&mut meaning, invocation, name + 1, &DOCKER_EXEC),
        Some("run" | "create") => contained(&mut meaning, invocation, name + 1, &DOCKER_RUN),
        Some("build" | "buildx" | "up" | "bake") => meaning.hides(OpaqueReason::Script, Some(name)),
        Some("login" | "pull" | "push" | "search") => {
            meaning.departs(DepartureKind::Network, name);
            meaning.does(EffectKind::Connect, On::Unknown(Some(name)));
        }
        Some(
            "ps" | "images" | "logs" | "inspect" | "version" | "info" | "top" | "stats" | "port" | "diff"
            | "history" | "events" | "ls" | "config" | "help",
        ) => {}
        None if name < args.len() => meaning.hides(OpaqueReason::UnknownProgram, Some(name)),
        None => {}
        Some(_) => return None,
    }
    Some(meaning)
}

fn contained(meaning: &mut Meaning, invocation: &Invocation<'_>, first: usize, grammar: &Grammar) {
    let args = invocation.args;
    let items = read_from(args, first, grammar);
    meaning.notes_unknown(&items);
    // What else looks like a path is one in the container.
    meaning.whole = true;
    let mut program: Option<Arg> = None;
    for item in &items {
        match *item {
            Item::Flag("privileged", at) => privileged(meaning, at),
            Item::Value("v" | "volume" | "mount", place) => mount(meaning, args, place),
            Item::Value("cap-add" | "device" | "security-opt", place) => privileged(meaning, place.option),
            Item::Value("pid" | "ipc" | "userns" | "uts", place) if place.text(args) == Some("host") => {
                privileged(meaning, place.option);
            }
            Item::Value("entrypoint", place) => program = place.value(args),
            Item::Value("cidfile", place) => meaning.writes_option(args, place),
            Item::Value("env-file" | "label-file", place) => meaning.reads(place.on(args)),
            _ => {}
        }
    }
    let image = first_operand(&items, invocation);
    let mut argv: Vec<Arg> = program.into_iter().collect();
    argv.extend(invocation.from(image + 1).iter().cloned());
    if argv.is_empty() {
        // What the image starts by itself is not part of the command.
        meaning.hides(OpaqueReason::Script, (image < args.len()).then_some(image));
    }
    meaning.runs_elsewhere(&argv);
}

fn privileged(meaning: &mut Meaning, at: usize) {
    meaning.departs(DepartureKind::Configuration, at);
    meaning.does(EffectKind::Privilege, On::Machine);
}

/// `-v SOURCE:TARGET[:ro]`, `--mount type=bind,source=SOURCE,…`: the container may change what it is given.
fn mount(meaning: &mut Meaning, args: &[Arg], place: Place) {
    let Some(text) = place.text(args) else {
        // What is mounted is not known.
        meaning.writes(On::Unknown(Some(place.option)));
        return;
    };
    let (source, read_only) = if text.contains('=') {
        let source = text
            .split(',')
            .find_map(|field| field.strip_prefix("source=").or_else(|| field.strip_prefix("src=")));
        (source, text.split(',').any(|field| matches!(field, "ro" | "readonly" | "readonly=true")))
    } else {
        (
            text.split(':').next(),
            text.rsplit(':').next().is_some_and(|mode| mode.split(',').any(|mode| mode == "ro")),
        )
    };
    let Some(source) = source.filter(|source| source.starts_with(['/', '.', '~'])) else { return };
    let plain = source.trim_end_matches('/');
    if plain.is_empty()
        || plain.ends_with("docker.sock")
        || plain.ends_with("podman.sock")
        || plain == "/var/run"
    {
        privileged(meaning, place.option);
    }
    let path = if plain.is_empty() { "/" } else { plain };
    let on = On::Path(path.to_owned(), Some(place.option));
    if read_only {
        meaning.reads(on);
    } else {
        meaning.departs(DepartureKind::Output, place.option);
        meaning.writes(on);
    }
}

const KUBECTL: Grammar = Grammar {
    flags: "itqAhR",
    values: "cfnlosk",
    names: &[
        "container= filename= namespace= context= kubeconfig= cluster= user= stdin tty quiet pod-running-timeout= \
         request-timeout= server= token= as= image= rm restart= command env= labels= attach generator= overrides=",
    ],
    ..Grammar::NONE
};

/// `kubectl exec POD -- COMMAND …` and `kubectl run … -- COMMAND`.
fn kubectl(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &KUBECTL);
    let name = first_operand(&items, invocation);
    if name >= args.len() {
        return meaning;
    }
    meaning.departs(DepartureKind::Network, name);
    meaning.does(EffectKind::Connect, On::Unknown(Some(name)));
    let end = items.iter().find_map(|item| match item {
        Item::End(at) => Some(at + 1),
        _ => None,
    });
    match (invocation.text(name), end) {
        (Some("exec" | "run" | "debug"), Some(first)) => meaning.runs_elsewhere(invocation.from(first)),
        (Some("exec"), None) => {
            // Without `--`, the words behind the pod are the command.
            let mut operands = items.iter().filter_map(|item| match item {
                Item::Operand(at) | Item::Maybe(at) => Some(*at),
                _ => None,
            });
            let first = operands.nth(2).unwrap_or(args.len());
            meaning.runs_elsewhere(invocation.from(first));
        }
        (Some("get" | "describe" | "logs" | "explain" | "version" | "top" | "api-resources"), _) => {}
        _ => meaning.departs(DepartureKind::Change, name),
    }
    meaning
}

const NSENTER: Grammar = Grammar {
    flags: "aFheZV",
    values: "tSGW",
    optional: "muinpCUTrw",
    names: &[
        "all target= mount? uts? ipc? net? pid? cgroup? user? time? setuid= setgid= preserve-credentials keep-caps \
         root? wd? wdns= no-fork follow-context env join-cgroup",
    ],
    order: Order::First,
    ..Grammar::NONE
};

const UNSHARE: Grammar = Grammar {
    flags: "fcrhV",
    values: "RwSGl",
    optional: "muinpCUT",
    names: &[
        "mount? uts? ipc? net? pid? cgroup? user? time? fork mount-proc? map-user= map-group= map-root-user \
         map-current-user map-auto map-users= map-groups= propagation= setgroups= root= wd= setuid= setgid= \
         kill-child? keep-caps monotonic= boottime= load-interp= owner=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

fn namespaces(invocation: &Invocation<'_>, grammar: &Grammar) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, grammar);
    meaning.notes_unknown(&items);
    meaning.does(EffectKind::Privilege, On::Machine);
    // Another mount namespace still holds the same files, so the paths are ours unless the root is another.
    let other_root = items.iter().any(|item| {
        matches!(
            item,
            Item::Value("R" | "root" | "r" | "t" | "target", _) | Item::Flag("r" | "root" | "a" | "all", _)
        )
    });
    let argv = invocation.from(first_operand(&items, invocation));
    if other_root && invocation.program == "nsenter"
        || items.iter().any(|item| matches!(item, Item::Value("R" | "root", _)))
    {
        meaning.runs_elsewhere(argv);
    } else {
        meaning.runs(argv, invocation.more);
    }
    meaning
}

const CHROOT: Grammar = Grammar {
    values: "ugGn",
    names: &["groups= userspec= skip-chdir"],
    order: Order::First,
    ..Grammar::NONE
};

fn chroot(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, &CHROOT);
    meaning.notes_unknown(&items);
    meaning.does(EffectKind::Privilege, On::Machine);
    let root = first_operand(&items, invocation);
    if root >= invocation.args.len() {
        return meaning;
    }
    let command = invocation.from(root + 1);
    // `/` is the root that we have.
    if invocation.text(root) == Some("/") {
        meaning.runs(command, invocation.more);
    } else {
        meaning.runs_elsewhere(command);
    }
    meaning
}
