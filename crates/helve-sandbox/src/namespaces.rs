//! Why a machine refuses user namespaces, read from the switches that systems have for it. No process is started.

/// The likely reason why namespaces are refused, from the switches that systems have for it.
pub(crate) fn why_none() -> &'static str {
    let switch = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/{name}"))
            .map(|text| text.trim().to_owned())
            .unwrap_or_default()
    };
    if switch("user/max_user_namespaces") == "0" {
        "User namespaces are refused: set the sysctl user.max_user_namespaces above 0"
    } else if switch("kernel/unprivileged_userns_clone") == "0" {
        "User namespaces are refused: set the sysctl kernel.unprivileged_userns_clone to 1"
    } else if switch("kernel/apparmor_restrict_unprivileged_userns") == "1" {
        "User namespaces are refused by AppArmor: install an AppArmor profile for the program that has the rule `userns`"
    } else {
        "User namespaces may be refused here, as in many containers: allow them for the user who runs Helve"
    }
}
