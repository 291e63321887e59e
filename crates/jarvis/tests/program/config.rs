//! Settings in layers, and files that are not right.

use crate::common::Home;

fn answers(home: &Home, args: &[&str]) -> (String, String) {
    let list = home.run(&[&["model", "list", "--json"], args].concat()).ok().json();
    (
        list["answers"]["id"].as_str().unwrap_or("none").to_owned(),
        list["answers"]["why"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_defaults() {
    let home = Home::new();
    assert_eq!(home.run(&["config", "get", "limits.max_turns"]).ok().out, "25\n");
    let home = home.config("model = \"ollama/from-file\"\n\n[limits]\nmax_turns = 7\n");
    assert_eq!(home.run(&["config", "get", "limits.max_turns"]).ok().out, "7\n");
    assert_eq!(answers(&home, &[]), ("ollama/from-file".into(), "config".into()));
    let home = home.var("JARVIS_MAX_TURNS", "9").var("JARVIS_MODEL", "ollama/from-environment");
    assert_eq!(home.run(&["config", "get", "limits.max_turns"]).ok().out, "9\n");
    assert_eq!(answers(&home, &[]).0, "ollama/from-environment");
    assert_eq!(answers(&home, &["--model", "ollama/from-flag"]), ("ollama/from-flag".into(), "--model".into()));
}

#[test]
fn a_key_in_the_environment_chooses_its_provider() {
    let (id, why) = answers(&Home::new().var("OPENAI_API_KEY", "sk-test"), &[]);
    assert!(id.starts_with("openai/") && why.contains("OPENAI_API_KEY"), "{id} {why}");
    let both = Home::new().var("OPENAI_API_KEY", "sk-test").var("ANTHROPIC_API_KEY", "sk-ant-test");
    assert!(answers(&both, &[]).0.starts_with("anthropic/"));
    // An empty key is no key; a model in the config goes before keys.
    assert!(!answers(&Home::new().var("OPENAI_API_KEY", " "), &[]).0.starts_with("openai/"));
    let config = Home::new().var("OPENAI_API_KEY", "sk-test").config("model = \"ollama/q\"\n");
    assert_eq!(answers(&config, &[]).0, "ollama/q");
}

#[test]
#[cfg(feature = "local")]
fn without_anything_set_up_the_embedded_model_answers() {
    let (id, why) = answers(&Home::new(), &[]);
    assert_eq!((id.as_str(), why.as_str()), ("local/qwen2.5-coder-1.5b", "no key is set"));
}

#[test]
#[cfg(not(feature = "local"))]
fn without_key_and_without_the_embedded_model_it_names_three_ways_out() {
    let ran = Home::new().run(&["hello"]).failed(1, &["no model", "ANTHROPIC_API_KEY", "ollama", "build with"]);
    assert_eq!(ran.out, "");
}

#[test]
fn a_provider_of_ones_own_needs_no_list() {
    let home = Home::new().config(
        "[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_env = \"MINE_KEY\"\nwire = \"anthropic\"\nmodel = \"m1\"\n",
    );
    let _ = home.run(&["--model", "mine", "hi"]).failed(2, &["MINE_KEY is not set", "hint:"]);
    let home = home.var("MINE_KEY", "k");
    assert_eq!(answers(&home, &["--model", "mine"]).0, "mine/m1");
    assert_eq!(answers(&home, &["--model", "mine/a/b:c"]).0, "mine/a/b:c");
    let _ = home.run(&["--model", "unknown/x", "hi"]).failed(2, &["no provider `unknown`", "ollama", "mine"]);
    let _ = home.run(&["--model", "ollama", "hi"]).failed(2, &["which model of ollama", "--model ollama/MODEL"]);
}

#[test]
fn broken_toml_is_told_with_its_line_and_nothing_is_changed() {
    let broken = "model = \"ollama/x\"\n[limits\nmax_turns = 3\n";
    let home = Home::new().config(broken);
    for args in [&["hello"][..], &["config", "get"], &["config", "set", "model", "ollama/y"], &["model", "list"]] {
        let _ = home.run(args).failed(2, &["config.toml", "line 2", "hint:"]);
        assert_eq!(std::fs::read_to_string(home.file("config.toml")).unwrap(), broken);
    }
}

#[test]
fn a_misspelt_key_or_a_wrong_value_is_told_with_its_line() {
    for (text, says) in [
        ("\n\nmodle = \"x\"\n", "line 3"),
        ("mode = \"fast\"\n", "fast"),
        ("[sandbox]\nnetwork = \"sometimes\"\n", "sometimes"),
        ("[sandbox]\nnetwork = \"open\"\n", "open"),
        ("[limits]\nmax_turns = 0\n", "max_turns"),
        ("[providers.local]\nbase_url = \"http://x\"\n", "local"),
        ("[providers.mine]\nbase_url = \"ftp://x\"\n", "ftp://x"),
        ("[prices.\"a/b\"]\ninput = -1.0\noutput = 1.0\n", "prices.\"a/b\""),
        ("[prices.\"a/b\"]\ninput = 1.0\noutput = 1.0\ncached = inf\n", "prices.\"a/b\""),
        ("[prices.\"a/b\"]\ninput = 1.0\noutput = 1.0\ncache = 1.0\n", "cache"),
        ("[models.\"../x\"]\nfile = \"x\"\nbytes = 1\nsha256 = \"00\"\nsources = []\n", "models"),
    ] {
        let _ = Home::new().config(text).run(&["config", "get"]).failed(2, &[says, "config.toml"]);
    }
    let _ = Home::new().var("JARVIS_MAX_TURNS", "many").run(&["config", "get"]).failed(2, &["JARVIS_MAX_TURNS"]);
}

#[test]
fn set_keeps_comments_and_refuses_what_is_not_right() {
    let home = Home::new().config("# mine\nmodel = \"ollama/a\" # small\n\n[limits]\n# few\nmax_turns = 3\n");
    let _ = home.run(&["config", "set", "model", "ollama/b"]).ok();
    let _ = home.run(&["config", "set", "sandbox.network", "closed"]).ok();
    let _ = home.run(&["config", "set", "providers.mine.base_url", "http://127.0.0.1:1/v1"]).ok();
    let _ = home.run(&["config", "set", "prices.\"openai/gpt-4.1\".input", "2.0"]).failed(2, &["output"]);
    let _ = home.run(&["config", "set", "prices.\"openai/gpt-4.1\"", "{ input = 2.0, output = 8.0 }"]).ok();
    let text = std::fs::read_to_string(home.file("config.toml")).unwrap();
    assert!(text.starts_with("# mine\nmodel = \"ollama/b\" # small\n\n[limits]\n# few\nmax_turns = 3\n"), "{text}");
    assert_eq!(home.run(&["config", "get", "sandbox.network"]).ok().out, "closed\n");
    for (key, value) in
        [("limits.max_turns", "no"), ("nonsense", "1"), ("mode", "fast"), ("model.name", "x"), ("", "x")]
    {
        let _ = home.run(&["config", "set", key, value]).failed(2, &["hint:"]);
        assert_eq!(std::fs::read_to_string(home.file("config.toml")).unwrap(), text, "{key}");
    }
}

#[test]
fn for_scripts_there_is_the_value_itself() {
    let home = Home::new();
    let set = |key: &str, value: &str| home.run(&["config", "set", key, value, "--json"]).ok().json();
    assert_eq!(set("limits.max_turns", "7"), serde_json::json!({"key": "limits.max_turns", "value": 7}));
    assert_eq!(set("mode", "staged")["value"], "staged");
    assert_eq!(set("prices.\"a/b\"", "{ input = 2.5, output = 8.0 }")["value"]["input"], 2.5);
    assert_eq!(set("providers.mine.model", "a \"7\"")["value"], "a \"7\"");
    // A number where text belongs.
    assert_eq!(set("providers.mine.model", "7")["value"], "7");
    let path = home.run(&["config", "path", "--json"]).ok().json();
    assert_eq!(path["path"], home.file("config.toml").to_str().unwrap());
    let edited = home.command(&["config", "edit", "--json"]).env("EDITOR", "true").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&edited.stdout), "{\"changed\":false}\n");
    let quiet = home.run(&["config", "set", "mode", "auto", "--quiet"]).ok();
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
}

#[test]
fn the_help_names_both_wires() {
    let help = Home::new().run(&["config", "--help"]).ok().out;
    let mut lines = help.lines().skip_while(|line| line.trim() != "providers.NAME.wire");
    let wire = lines.nth(1).unwrap();
    assert!(wire.contains("openai") && wire.contains("anthropic"), "{wire}");
}

#[test]
fn a_model_of_an_unknown_provider_is_not_set() {
    let home = Home::new();
    let _ = home.run(&["config", "set", "model", "nope/x"]).failed(2, &["no provider `nope`", "local, anthropic"]);
    assert!(!home.file("config.toml").exists());
    // The key may come later, and so may the provider of one's own.
    let _ = home.run(&["config", "set", "model", "anthropic/some"]).ok();
    let _ = home.run(&["config", "set", "providers.nope.base_url", "http://127.0.0.1:1/v1"]).ok();
    let _ = home.run(&["config", "set", "model", "nope/x"]).ok();
    assert_eq!(home.run(&["config", "get", "model"]).ok().out, "nope/x\n");
}

#[test]
fn every_key_of_the_help_can_be_read_or_is_told_as_unset() {
    let home = Home::new();
    let help = home.run(&["config", "--help"]).ok().out;
    let keys: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|key| {
            ["model", "mode", "approve", "hub"].contains(key)
                || key.starts_with("limits.")
                || key.starts_with("sandbox.")
                || key.starts_with("local.")
        })
        .collect();
    assert!(keys.len() >= 13, "{help}");
    for key in keys {
        let ran = home.run(&["config", "get", key]);
        assert!(ran.code == 0 || ran.err.contains("is not set"), "{key}: {}", ran.err);
        assert!(!ran.err.contains("not a key"), "{key}");
    }
}

#[test]
fn an_editor_that_leaves_a_broken_file_changes_nothing() {
    let home = Home::new().config("model = \"ollama/a\"\n");
    let editor = home.write("editor.sh", "#!/bin/sh\necho 'model = ' > \"$1\"\n");
    let home = home.var("EDITOR", &format!("sh {}", editor.display()));
    let ran = home.run(&["config", "edit"]).failed(2, &["line 1", "is kept in"]);
    assert_eq!(ran.out, "");
    assert_eq!(std::fs::read_to_string(home.file("config.toml")).unwrap(), "model = \"ollama/a\"\n");
    home.write("editor.sh", "#!/bin/sh\necho 'model = \"ollama/b\"' > \"$1\"\n");
    let _ = home.run(&["config", "edit"]).ok();
    assert_eq!(home.run(&["config", "get", "model"]).ok().out, "ollama/b\n");
}

#[test]
fn a_limit_of_cost_without_a_known_price_is_refused() {
    let home = Home::new().config("[providers.mine]\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let _ = home.run(&["--model", "mine/m", "--max-cost", "0.1", "hi"]).failed(2, &["no price of mine/m", "prices"]);
}

#[test]
fn use_writes_the_model_and_refuses_unknown_ones() {
    let home = Home::new().config("[providers.mine]\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    let _ = home.run(&["model", "use", "mine/m"]).ok();
    assert_eq!(answers(&home, &[]), ("mine/m".into(), "config".into()));
    let before = std::fs::read_to_string(home.file("config.toml")).unwrap();
    let _ = home.run(&["model", "use", "nobody/m"]).failed(2, &["nobody"]);
    assert_eq!(std::fs::read_to_string(home.file("config.toml")).unwrap(), before);
}
