//! Programs that run whatever they are given, or destroy: allowing one of them for longer allows everything.

/// Shells and what reads commands.
const SHELLS: &str = "
    . alias ash bash builtin cmd csh dash elvish enable eval exec fish ksh ksh93 loksh mksh nu oksh osh posh powershell
    pwsh rbash rksh rzsh sash sh source tcsh trap xonsh yash ysh zsh";

/// Interpreters, and programs with a language of their own that can start others.
const INTERPRETERS: &str = "
    Rscript awk babel-node bc bun clisp coffee csi dc deno ed elixir emacs emacsclient erl escript ex expect
    gawk gdb ghci gjs gnuplot groovy guile gvim hx hy iex ipython irb java javaw jjs jruby jshell julia jython kak kotlin
    kscript lldb lua luajit m4 matlab mawk mono mysql nawk node nodejs nvim ocaml octave osascript perl php psql pypy
    python qjs racket raku rlwrap ruby runghc runhaskell rvim sbcl scala scheme sqlite sqlite3 swift swipl tclsh ts-node
    tsx vi view vim vimdiff wine wish wscript cscript";

/// Programs that start another one, here or elsewhere.
const STARTERS: &str = "
    7z ansible ansible-playbook at batch bunx busybox bwrap capsh catchsegv cgexec chpst chroot chronic
    chrt command concurrently cpulimit crontab daemonize dbus-run-session direnv distrobox doas docker-compose dtach
    dumb-init entr env eatmydata fab faketime fakechroot fakeroot fd fdfind find firejail flatpak flatpak-spawn flock
    foreman forever gmake gosu guix honcho i386 ifne ionice just ld.so lftp linux32 linux64 ltrace lxc lxc-attach
    machinectl make minijail0 mosh nc ncat nerdctl netcat nice nix-shell nodemon nohup npx nsenter numactl
    open parallel pee perf pipx pkexec pm2 pnpx prlimit proot proxychains proxychains4 rsh run-parts run0 runcon
    runit runsv runuser screen script scriptreplay sem setarch setpriv setsid setuidgid sg snap socat softlimit ssh
    ssh-agent sshpass start-stop-daemon stdbuf strace su su-exec sudo sudoedit supervisord systemd-inhibit
    systemd-nspawn systemd-run tar taskset telnet time timeout tini tmux toolbox torify torsocks toybox trickle
    tsocks unbuffer unshare uvx vagrant valgrind watch watchexec wsl xargs xdg-open xvfb-run zip";

/// Programs that destroy, or change who may do what.
const DESTROYERS: &str = "
    blkdiscard cfdisk chgrp chmod chown chpasswd dd eject fdisk gdisk halt hdparm init insmod iptables kill killall lvremove
    mkfs modprobe mount nft parted passwd pkill poweroff reboot rm rmdir rmmod setcap setfacl sfdisk sgdisk shred shutdown
    srm swapoff systemctl telinit truncate umount unlink useradd userdel usermod vgremove visudo wipe wipefs";

/// Names of which the rest says the variant: `mkfs.ext4`, `ld-linux-x86-64.so.2`, `qemu-arm`.
const STARTS: &[&str] = &["ld-linux", "ld-musl", "mkfs", "qemu-", "s6-"];

/// Whether a program of this name is one of them.
pub(super) fn gives_away_everything(name: &str) -> bool {
    let lists = [SHELLS, INTERPRETERS, STARTERS, DESTROYERS];
    name.is_empty()
        || lists.iter().flat_map(|list| list.split_whitespace()).any(|known| known == name)
        || STARTS.iter().any(|start| name.starts_with(start))
}
