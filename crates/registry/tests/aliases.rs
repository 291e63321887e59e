//! Other names of a capability, replacing several at once, and the statistics that health is worked out from.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod common;

use common::{CODE, Home, capability, name, register, run, version_of};
use jarvis_protocol::{Status, Version};
use jarvis_registry::health::Build;
use jarvis_registry::{NewVersion, Registry, RegistryError, Run};

fn answering(of: &str, aliases: &[&str]) -> NewVersion {
    let mut capability = capability(of);
    capability.aliases = aliases.iter().map(|alias| name(alias)).collect();
    version_of(capability, CODE)
}

fn resolved(registry: &Registry, of: &str) -> Option<String> {
    registry.resolve(&name(of)).unwrap().map(|capability| capability.name.to_string())
}

#[test]
fn a_name_leads_to_its_own_capability_and_once_that_is_retired_to_the_one_that_replaced_it() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "keep", CODE);
    register(&registry, "gone", "export default ({ text }) => 1");
    assert_eq!(resolved(&registry, "gone").as_deref(), Some("gone"));
    assert_eq!(resolved(&registry, "nobody"), None);
    let before = home.git(&["rev-list", "--count", "HEAD"]);
    let done = registry.register_in_place_of(answering("keep", &["gone"]), &[name("gone")]).unwrap();
    assert_eq!(done.version, Version::new(1, 0, 1));
    assert_eq!(
        home.git(&["rev-list", "--count", "HEAD"]).trim().parse::<u32>().unwrap(),
        before.trim().parse::<u32>().unwrap() + 1
    );
    // In another process as well.
    for registry in [registry.clone(), home.registry()] {
        assert_eq!(resolved(&registry, "gone").as_deref(), Some("keep"));
        assert_eq!(registry.get(&name("gone")).unwrap().unwrap().status, Status::Retired);
    }
    assert_eq!(home.git(&["status", "--porcelain"]), "");
    registry.remove(&name("gone")).unwrap();
    assert_eq!(resolved(&registry, "gone").as_deref(), Some("keep"), "also once nothing else has the name");
}

#[test]
fn a_name_and_an_alias_lead_to_one_capability_each() {
    let home = Home::new();
    let registry = home.registry();
    for of in ["keep", "gone", "third"] {
        register(&registry, of, CODE);
    }
    let index = || std::fs::read(home.index()).unwrap();
    let before = index();
    let refused = registry.register(answering("keep", &["third"])).unwrap_err();
    assert!(matches!(refused, RegistryError::AliasIsName { .. }), "{refused}");
    let refused = registry.register_in_place_of(answering("keep", &["gone", "third"]), &[name("gone")]).unwrap_err();
    assert!(matches!(refused, RegistryError::AliasIsName { .. }), "{refused}");
    let refused = registry.register_in_place_of(answering("keep", &["gone"]), &[name("gone"), name("nobody")]);
    assert!(matches!(refused, Err(RegistryError::NotFound(_))));
    assert!(registry.register(answering("keep", &["keep"])).is_err());
    assert_eq!(index(), before, "all or nothing");

    registry.register_in_place_of(answering("keep", &["gone"]), &[name("gone")]).unwrap();
    let before = index();
    for refused in [
        registry.register(answering("gone", &[])).map(|_| ()),
        registry.register(answering("third", &["gone"])).map(|_| ()),
        registry.set_status(&name("gone"), Status::Active).map(|_| ()),
        registry.set_status(&name("gone"), Status::Quarantined).map(|_| ()),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, RegistryError::AliasTaken { bearer, .. } if bearer == "keep"), "{refused}");
        assert!(refused.body().hint.unwrap().contains("cap rollback keep"));
    }
    assert_eq!(index(), before);
    // The one that bears it goes on as before, and once it is retired the name is free.
    registry.register(answering("keep", &["gone"])).unwrap();
    registry.set_status(&name("keep"), Status::Retired).unwrap();
    assert_eq!(resolved(&registry, "gone").as_deref(), Some("gone"));
    registry.set_status(&name("gone"), Status::Active).unwrap();
    registry.set_status(&name("keep"), Status::Active).unwrap_err();
}

#[test]
fn runs_are_counted_by_version_and_what_building_took_is_kept_until_it_is_forgotten() {
    let home = Home::new();
    let registry = home.registry();
    register(&registry, "keep", CODE);
    let of = name("keep");
    assert_eq!((registry.builds(&of).unwrap(), registry.timing(&of).unwrap()), (Vec::new(), None));
    assert!(!home.path().join("jarvis.db").exists(), "reading makes no file");
    for (minor, ok, wall_us) in [(0, true, 1000), (0, false, 3000), (1, true, 10_000)] {
        let run = Run { version: Version::new(1, minor, 0), ok, wall_us, ..run() };
        registry.record_run(&of, &run).unwrap();
    }
    let seen: Vec<_> = registry
        .version_stats(&of)
        .unwrap()
        .into_iter()
        .map(|v| (v.version.minor, v.runs, v.failures, v.mean_ms))
        .collect();
    assert_eq!(seen, [(0, 2, 1, 2.0), (1, 1, 0, 10.0)]);
    let timing = registry.timing(&of).unwrap().unwrap();
    assert_eq!((timing.runs, timing.p95_ms), (3, 10.0));
    let build =
        |usage| Build { version: Version::new(1, 0, 0), at: "2026-03-01T08:00:00Z".into(), wall_ms: 1500, usage };
    for usage in [Some((120, 30, 0.25)), None] {
        registry.record_build(&of, &build(usage)).unwrap();
    }
    assert_eq!(registry.builds(&of).unwrap(), [build(Some((120, 30, 0.25))), build(None)]);
    registry.remove(&of).unwrap();
    assert_eq!((registry.builds(&of).unwrap(), registry.version_stats(&of).unwrap()), (Vec::new(), Vec::new()));
}
