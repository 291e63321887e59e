//! Why there are no namespaces on this machine, and what a person can do about it.

/// The first cause that is found; without one, all that are known.
pub(super) fn namespaces_fix() -> String {
    let value = |name: &str| std::fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default().trim().to_owned();
    // Each with the one setting that changes it.
    if value("user/max_user_namespaces") == "0" {
        return "allow user namespaces: sudo sysctl -w user.max_user_namespaces=10000".to_owned();
    }
    let root = rustix::process::geteuid().is_root();
    if !root && value("kernel/unprivileged_userns_clone") == "0" {
        return "allow unprivileged user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned();
    }
    if !root && value("kernel/apparmor_restrict_unprivileged_userns") == "1" {
        return "AppArmor restricts user namespaces: give jarvis a profile with `userns,`, or sudo sysctl -w \
                kernel.apparmor_restrict_unprivileged_userns=0"
            .to_owned();
    }
    if ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| std::path::Path::new(mark).exists()) {
        return "this is a container: let it use `unshare` and `mount` (docker run --security-opt seccomp=unconfined \
                --security-opt apparmor=unconfined --security-opt systempaths=unconfined), or run jarvis outside of it"
            .to_owned();
    }
    "use Linux 5.12 or newer, and allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
     user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0)"
        .to_owned()
}
