//! Declared packages: resolved by the real pip from a local folder of wheels, locked, unpacked in the jail, used.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr, reason = "helpers of tests")]

mod jailed;

use jailed::{config, gives, plan, run_plan, runtimes, words};
use jarvis_protocol::{Execution, ExitClass, Runtime};
use jarvis_sandbox::{Access, DependencyError, Executor};
use serde_json::json;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// A folder of wheels, and a cache for what is installed from it.
struct Index {
    folder: tempfile::TempDir,
    cache: tempfile::TempDir,
}

impl Index {
    fn new() -> Index {
        Index { folder: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() }
    }

    /// Made by Python's own zipfile: `files` are (name, content), `needs` the wheel's own requirements.
    fn wheel(&self, name: &str, version: &str, needs: &[&str], files: &[(&str, &str)]) -> PathBuf {
        let path = self.folder.path().join(format!("{name}-{version}-py3-none-any.whl"));
        let info = format!("{name}-{version}.dist-info");
        let needs: String = needs.iter().map(|n| format!("Requires-Dist: {n}\n")).collect();
        let mut all: Vec<(String, String)> = files.iter().map(|(n, c)| ((*n).to_owned(), (*c).to_owned())).collect();
        all.push((
            format!("{info}/METADATA"),
            format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"),
        ));
        all.push((
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ));
        all.push((format!("{info}/RECORD"), all.iter().map(|(n, _)| format!("{n},,\n")).collect()));
        self.zip(&path, &json!(all).to_string());
        path
    }

    fn zip(&self, path: &Path, files: &str) {
        const MAKE: &str = "import sys, json, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n    for name, text in json.loads(sys.argv[2]):\n        info = zipfile.ZipInfo(name.removeprefix('LINK:'))\n        info.external_attr = (0o120777 if name.startswith('LINK:') else 0o100644) << 16\n        z.writestr(info, text)";
        let python = runtimes().python.unwrap();
        let made =
            std::process::Command::new(python).args(["-I", "-S", "-c", MAKE]).arg(path).arg(files).status().unwrap();
        assert!(made.success());
    }

    fn sandbox(&self) -> Executor {
        let mut runtimes = runtimes();
        runtimes.cache = Some(self.cache.path().to_owned());
        runtimes.index =
            vec!["--no-index".to_owned(), "--find-links".to_owned(), self.folder.path().display().to_string()];
        // The machine's own links are not part of the test.
        runtimes.env.retain(|(name, _)| !name.to_string_lossy().starts_with("PIP_"));
        Executor::with_runtimes(config(0), Access::default(), runtimes)
    }

    fn environments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.cache.path().join("environments")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

async fn install(sandbox: &Executor, wanted: &[&str]) -> Result<jarvis_sandbox::Packages, DependencyError> {
    sandbox.install(&list(wanted), &CancellationToken::new()).await
}

fn list(wanted: &[&str]) -> Vec<String> {
    wanted.iter().map(|w| (*w).to_owned()).collect()
}

async fn run(sandbox: &Executor, code: &str, wanted: &[&str]) -> Execution {
    let mut plan = plan(Runtime::Python, code, json!({}));
    plan.dependencies = list(wanted);
    run_plan(sandbox, plan).await
}

const CODE: &str =
    "import tinypkg\ndef run(args): return [tinypkg.answer(), tinypkg.__file__.endswith('site/tinypkg/__init__.py')]";

#[tokio::test]
async fn a_declared_package_is_installed_once_with_what_it_needs_and_used() {
    let index = Index::new();
    index.wheel(
        "tinypkg",
        "1.2",
        &["helperpkg>=1"],
        &[("tinypkg/__init__.py", "import helperpkg\ndef answer(): return helperpkg.VALUE\n")],
    );
    index.wheel(
        "helperpkg",
        "1.5",
        &[],
        &[
            ("helperpkg.py", "VALUE = 42\n"),
            ("helperpkg-1.5.data/scripts/evil", "#!/bin/sh\n"),
            ("helperpkg-1.5.data/purelib/extra.py", "X = 1\n"),
        ],
    );
    let sandbox = index.sandbox();
    let before = run(&sandbox, CODE, &["tinypkg==1.2"]).await;
    assert!(before.exit == ExitClass::Rejected && words(&before).contains("not installed"), "{}", words(&before));
    let checked = sandbox.check(CODE, Runtime::Python, &[]).await.unwrap().unwrap_err();
    assert!(checked.message.contains("tinypkg") && checked.line == Some(1), "{checked}");

    let packages = install(&sandbox, &["tinypkg==1.2"]).await.unwrap();
    let names: Vec<_> =
        packages.lock.wheels.iter().map(|w| (w.name.as_str(), w.version.as_str(), w.sha256.len())).collect();
    assert_eq!(names, [("helperpkg", "1.5", 64), ("tinypkg", "1.2", 64)]);
    assert!(packages.folder.join("extra.py").is_file() && !packages.folder.join("evil").exists());
    gives(&run(&sandbox, CODE, &["tinypkg==1.2"]).await, json!([42, true]), CODE);
    assert!(sandbox.check(CODE, Runtime::Python, &list(&["tinypkg==1.2"])).await.unwrap().is_ok());
    let code = "import tinypkg, os\ndef run(args):\n    tried = []\n    for f in (lambda: open(tinypkg.__file__, 'a'), lambda: os.remove(tinypkg.__file__), lambda: os.chmod(tinypkg.__file__, 0o777), lambda: open(os.path.dirname(tinypkg.__file__) + '/x.py', 'w')):\n        try: f(); tried.append(1)\n        except OSError: pass\n    return tried";
    gives(&run(&sandbox, code, &["tinypkg==1.2"]).await, json!([]), "read-only");
    // Without it in its list, another capability does not see it.
    let other = run(&sandbox, CODE, &[]).await;
    assert!(words(&other).contains("ModuleNotFoundError"), "{}", words(&other));

    // The lock stays: a newer helper does not slip in, and the index is not asked again.
    index.wheel("helperpkg", "2.0", &[], &[("helperpkg.py", "VALUE = 43\n")]);
    let again = install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap();
    assert_eq!(again.digest, packages.digest);
    std::fs::remove_dir_all(index.folder.path()).unwrap();
    std::fs::create_dir(index.folder.path()).unwrap();
    assert_eq!(install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap().digest, packages.digest);
    assert_eq!(index.environments().len(), 1, "nothing half is left");
}

#[tokio::test]
async fn no_code_of_a_package_runs_when_it_is_installed() {
    let index = Index::new();
    let marker = index.cache.path().join("ran");
    let evil = format!("open({:?}, 'w')\n", marker.display().to_string());
    index.wheel(
        "tinypkg",
        "1.2",
        &[],
        &[
            ("tinypkg/__init__.py", &evil),
            ("setup.py", &evil),
            ("tinypkg.pth", &format!("import os; {evil}")),
            ("sitecustomize.py", &evil),
            ("encodings/__init__.py", &evil),
            ("broken.py", "def ("),
        ],
    );
    let packages = install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap();
    assert!(packages.folder.join("tinypkg/__init__.py").is_file());
    // Nor by having them there: neither `.pth` files nor `sitecustomize` are looked at.
    gives(&run(&index.sandbox(), "def run(args): return 1", &["tinypkg==1.2"]).await, json!(1), "run");
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_wheel_that_is_not_the_locked_one_is_refused() {
    let index = Index::new();
    index.wheel("tinypkg", "1.2", &[], &[("tinypkg/__init__.py", "def answer(): return 1\n")]);
    install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap();
    // The environment and its wheels are lost, the lock is not; meanwhile somebody replaced the package.
    std::fs::remove_dir_all(index.cache.path().join("environments")).unwrap();
    std::fs::remove_dir_all(index.cache.path().join("wheels")).unwrap();
    index.wheel("tinypkg", "1.2", &[], &[("tinypkg/__init__.py", "def answer(): return 'evil'\n")]);
    let error = install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap_err();
    assert!(matches!(error, DependencyError::Hash { .. }) && error.hint().unwrap().contains("find out who"), "{error}");
    assert!(index.environments().is_empty(), "nothing was built");
    // A wheel in the cache that was changed is refused as well.
    index.wheel("tinypkg", "1.2", &[], &[("tinypkg/__init__.py", "def answer(): return 1\n")]);
    install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap();
    std::fs::remove_dir_all(index.cache.path().join("environments")).unwrap();
    let wheel = std::fs::read_dir(index.cache.path().join("wheels"))
        .unwrap()
        .flatten()
        .map(|e| e.path().join("tinypkg-1.2-py3-none-any.whl"))
        .find(|p| p.is_file())
        .unwrap();
    std::fs::write(&wheel, b"PK").unwrap();
    let error = install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap_err();
    assert!(matches!(error, DependencyError::Hash { .. }), "{error}");
}

#[tokio::test]
async fn an_environment_that_was_changed_is_not_used() {
    let index = Index::new();
    index.wheel("tinypkg", "1.2", &[], &[("tinypkg/__init__.py", "def answer(): return 1\n")]);
    let packages = install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap();
    let extra = packages.folder.join("json.py");
    std::fs::write(&extra, "evil").unwrap();
    let done = run(&index.sandbox(), CODE, &["tinypkg==1.2"]).await;
    assert!(done.exit == ExitClass::Rejected && words(&done).contains("was changed"), "{}", words(&done));
    std::fs::remove_file(&extra).unwrap();
    let file = packages.folder.join("tinypkg/__init__.py");
    let same_size = std::fs::read_to_string(&file).unwrap().replace('1', "2");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, same_size).unwrap();
    let error = install(&index.sandbox(), &["tinypkg==1.2"]).await.unwrap_err();
    assert!(matches!(error, DependencyError::Changed { .. }), "{error}");
}

#[tokio::test]
async fn wheels_that_lead_out_of_their_folder_are_refused() {
    for (bad, text) in [
        ("../evil.py", "leads out"),
        ("tinypkg/../../evil.py", "leads out"),
        ("/tmp/evil.py", "leads out"),
        ("tinypkg\\evil.py", "leads out"),
        ("C:/evil.py", "leads out"),
        ("LINK:tinypkg/link", "is a link"),
        ("tinypkg//evil.py", "leads out"),
    ] {
        let index = Index::new();
        let path = index.wheel("tinypkg", "1.2", &[], &[("tinypkg/__init__.py", ""), (bad, "/etc")]);
        let outcome = install(&index.sandbox(), &["tinypkg==1.2"]).await;
        let error = outcome.map(|p| format!("{:?}", p.folder)).unwrap_err();
        assert!(matches!(&error, DependencyError::Wheel { why } if why.contains(text)), "{bad}: {error}");
        assert!(index.environments().is_empty() && !index.cache.path().join("evil.py").exists(), "{bad}");
        assert!(path.is_file());
    }
    let index = Index::new();
    index.wheel("onepkg", "1", &[], &[("same.py", "A = 1\n")]);
    index.wheel("twopkg", "1", &[], &[("same.py", "A = 2\n")]);
    let error = install(&index.sandbox(), &["onepkg==1", "twopkg==1"]).await.unwrap_err();
    assert!(error.to_string().contains("both hold `same.py`"), "{error}");
    let index = Index::new();
    let path = index.folder.path().join("tinypkg-1.2-py3-none-any.whl");
    std::fs::write(path, b"no zip").unwrap();
    assert!(install(&index.sandbox(), &["tinypkg==1.2"]).await.is_err());
}

#[tokio::test]
async fn what_cannot_be_had_is_explained() {
    let index = Index::new();
    index.wheel("tinypkg", "1.2", &[], &[("tinypkg/__init__.py", "")]);
    index.wheel("apkg", "1", &["tinypkg==9"], &[("apkg.py", "")]);
    index.zip(
        &index.folder.path().join("sourcepkg-1.0.zip"),
        "[[\"sourcepkg-1.0/setup.py\", \"open('/tmp/jarvis-setup-ran','w')\"]]",
    );
    let sandbox = index.sandbox();
    for (wanted, expected) in [
        ("tinypkg==9.9", "no wheel of `tinypkg==9.9` fits this Python; there are 1.2"),
        ("nosuchpkg==1", "no wheel of `nosuchpkg==1`"),
        ("sourcepkg==1.0", "no wheel of `sourcepkg==1.0`"),
        ("apkg==1", "no wheel of `tinypkg==9`"),
        ("tinypkg>=1", "name==version"),
        ("tinypkg==1.2; os_name=='x'", "name==version"),
    ] {
        let error = install(&sandbox, &[wanted]).await.unwrap_err();
        assert!(error.to_string().contains(expected) && error.hint().is_some(), "{wanted}: {error}");
    }
    assert!(!Path::new("/tmp/jarvis-setup-ran").exists(), "no source package is built");
    assert!(index.environments().is_empty());
    let mut unreachable = runtimes();
    unreachable.cache = Some(index.cache.path().to_owned());
    unreachable.index = ["--index-url", "http://127.0.0.1:9/simple", "--timeout", "2"].map(str::to_owned).to_vec();
    unreachable.env.retain(|(name, _)| !name.to_string_lossy().starts_with("PIP_"));
    let sandbox = Executor::with_runtimes(config(0), Access::default(), unreachable);
    let error = install(&sandbox, &["tinypkg==1.2"]).await.unwrap_err();
    assert!(matches!(error, DependencyError::Network { .. }), "{error}");
    let without = Executor::with_runtimes(config(0), Access::default(), runtimes());
    assert!(matches!(install(&without, &["tinypkg==1.2"]).await, Err(DependencyError::Missing { .. })));
    let stopped = CancellationToken::new();
    stopped.cancel();
    let error = index.sandbox().install(&list(&["tinypkg==1.2"]), &stopped).await.unwrap_err();
    assert!(matches!(error, DependencyError::Cancelled), "{error}");
}

#[tokio::test]
async fn two_that_install_at_the_same_time_end_with_one_environment() {
    let index = Index::new();
    index.wheel("tinypkg", "1.2", &[], &[("tinypkg/__init__.py", "def answer(): return 1\n")]);
    let (one, two) = (index.sandbox(), index.sandbox());
    let (first, second) = tokio::join!(install(&one, &["tinypkg==1.2"]), install(&two, &["tinypkg==1.2"]));
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(index.environments().len(), 1);
}
