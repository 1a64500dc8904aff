use super::*;

fn switch(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Each refusal has a cause of its own and a remedy that fits it.
#[test]
fn user_namespaces_are_explained() {
    let refused = Outcome::Refused(libc::EPERM);
    let plain = Switches { program: "/opt/helve/helve".into(), ..Switches::default() };
    for (made, mounted, switches, why, mend) in [
        (
            Outcome::Refused(libc::ENOSPC),
            Outcome::Unknown,
            Switches { most_user_namespaces: switch("0"), ..plain.clone() },
            "user.max_user_namespaces is 0",
            "sysctl -w user.max_user_namespaces=15000",
        ),
        (Outcome::Refused(libc::ENOSPC), refused, plain.clone(), "are in use", "max_user_namespaces"),
        (Outcome::Refused(libc::EINVAL), refused, plain.clone(), "built without", "CONFIG_USER_NS"),
        (
            refused,
            refused,
            Switches { userns_clone: switch("0"), ..plain.clone() },
            "unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        // AppArmor lets the namespace be made and takes the rights in it away.
        (
            Outcome::Done,
            refused,
            Switches { apparmor_userns: switch("1"), ..plain.clone() },
            "AppArmor",
            "profile helve \"/opt/helve/helve\" flags=(unconfined) {\n  userns,\n}",
        ),
        (
            refused,
            refused,
            Switches { container: true, ..plain.clone() },
            "as in many containers",
            "--security-opt seccomp=unconfined",
        ),
        (
            refused,
            refused,
            Switches { filters: switch("1"), ..plain.clone() },
            "system call filter around this process",
            "run Helve outside",
        ),
        (refused, refused, Switches { filters: switch("0"), ..plain.clone() }, "kernel refuses", "chroot"),
        (Outcome::Done, refused, plain.clone(), "nothing can be mounted", "dmesg"),
        (Outcome::Unknown, Outcome::Unknown, plain.clone(), "could not be tried", "less to do"),
    ] {
        let lack = user_namespaces(made, mounted, &switches).unwrap_err();
        assert!(lack.why.contains(why) && lack.mend.contains(mend), "{lack:?}");
    }
    assert!(user_namespaces(Outcome::Done, Outcome::Done, &plain).is_ok());
}

#[test]
fn landlock_is_explained() {
    let on = Switches { modules: switch("capability,landlock,bpf"), ..Switches::default() };
    let off = Switches { modules: switch("capability,yama"), ..Switches::default() };
    for (answer, switches, why, mend) in [
        (libc::EOPNOTSUPP, &off, "not switched on at boot", "lsm=landlock,capability,yama"),
        (libc::ENOSYS, &on, "a system call filter around this process hides it", "without that filter"),
        (libc::ENOSYS, &off, "has no Landlock", "Linux 5.13"),
        (libc::EPERM, &on, "refuses Landlock", "without that filter"),
    ] {
        let lack = landlock(Err(answer), switches).unwrap_err();
        assert!(lack.why.contains(why) && lack.mend.contains(mend), "{lack:?}");
    }
    assert_eq!(landlock(Ok(7), &on), Ok("interface version 7".to_owned()));
    assert_eq!(old_landlock(7), None);
    let lack = old_landlock(4).unwrap();
    assert!(lack.why.contains("signals") && lack.mend.contains("Linux 6.12"), "{lack:?}");
    let old = landlock(Ok(3), &on).unwrap();
    assert!(old.contains("TCP ports (Linux 6.7)") && !old.contains("truncating"), "{old}");
}

#[test]
fn filters_and_tracing_are_explained() {
    assert!(
        seccomp(Ok(())).is_ok() && seccomp(Err(libc::ENOSYS)).unwrap_err().mend.contains("CONFIG_SECCOMP")
    );
    let strict = Switches { ptrace_scope: switch("3"), ..Switches::default() };
    assert!(tracing(Outcome::Done, &strict).is_ok());
    let lack = tracing(Outcome::Refused(libc::EPERM), &strict).unwrap_err();
    assert!(lack.why.contains("ptrace_scope is 3") && lack.mend.contains("boot again"), "{lack:?}");
    let lack = tracing(Outcome::Refused(libc::EPERM), &Switches::default()).unwrap_err();
    assert!(lack.mend.contains("filter"), "{lack:?}");
}
