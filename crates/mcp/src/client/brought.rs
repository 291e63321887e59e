//! Servers that another program names for one session: in the form of those that are set up here, and with no more in their
//! reach than a person wrote down for them.

use super::config::{ServerConfig, ServerConfigs, ServerSandbox, TIMEOUT_S};
use super::import::name_of;
use jarvis_dispatch::ToolRule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of one session.
const MOST: usize = 32;
/// The name of one whose own has no letter that a name here may have.
const NAMELESS: &str = "editor";
/// Those of jarvis are given out by its own config alone.
const SECRET: &str = "${secret:";

/// `[mcp.editor.NAME]`: what a person decides beforehand about a server of that name. `*` is every other one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BroughtRule {
    pub enabled: bool,
    pub timeout_s: u64,
    /// For a program.
    pub sandbox: ServerSandbox,
    /// By the name of a tool; `*` is every other one.
    pub tools: BTreeMap<String, ToolRule>,
}

pub type BroughtRules = BTreeMap<String, BroughtRule>;

impl Default for BroughtRule {
    fn default() -> Self {
        let tools = BTreeMap::new();
        Self { enabled: true, timeout_s: TIMEOUT_S, sandbox: ServerSandbox::default(), tools }
    }
}

/// Adds them to those that are set up. Gives what is left out, and why.
pub fn bring(
    configs: &mut ServerConfigs,
    rules: &BroughtRules,
    servers: impl IntoIterator<Item = (String, ServerConfig)>,
) -> Vec<(String, String)> {
    let mut left = Vec::new();
    for (count, (foreign, config)) in servers.into_iter().enumerate() {
        // The same one, set up here: it has what a person gave it.
        if configs.values().any(|known| known.enabled && same(known, &config)) {
            continue;
        }
        let wanted = match name_of(&foreign) {
            name if name.is_empty() => NAMELESS.to_owned(),
            name => name,
        };
        let name = free(configs, &wanted);
        let rule =
            rules.get(&foreign).or_else(|| rules.get(&name)).or_else(|| rules.get(&wanted)).or_else(|| rules.get("*"));
        let checked = if count >= MOST {
            Err(format!("{MOST} servers of one session are the most"))
        } else {
            ready(&name, config, rule.cloned().unwrap_or_default())
        };
        match checked {
            Ok(config) => _ = configs.insert(name, config),
            Err(why) => left.push((foreign, why)),
        }
    }
    left
}

fn ready(name: &str, config: ServerConfig, rule: BroughtRule) -> Result<ServerConfig, String> {
    if !rule.enabled {
        return Err("mcp.editor in the config says that it is not connected".to_owned());
    }
    let texts = config.args.iter().chain(&config.command).chain(&config.url);
    if texts.chain(config.env.values()).chain(config.headers.values()).any(|text| text.contains(SECRET)) {
        return Err(
            "secrets of jarvis are named by its own config alone: set the server up with jarvis mcp add".to_owned()
        );
    }
    let sandbox = if config.command.is_some() { rule.sandbox } else { ServerSandbox::default() };
    let config = ServerConfig { timeout_s: rule.timeout_s, tools: rule.tools, sandbox, brought: true, ..config };
    config.check(name).map_err(|error| error.problem)?;
    Ok(config)
}

fn same(a: &ServerConfig, b: &ServerConfig) -> bool {
    (&a.command, &a.args, &a.env, &a.url, &a.headers) == (&b.command, &b.args, &b.env, &b.url, &b.headers)
}

/// A name that no other has.
fn free(configs: &ServerConfigs, wanted: &str) -> String {
    // It begins with a letter, as names here do.
    let letter = wanted.starts_with(|c: char| c.is_ascii_alphabetic());
    let wanted = if letter { wanted.to_owned() } else { name_of(&format!("{NAMELESS}-{wanted}")) };
    let numbered = (2..).map(|number| {
        let end = format!("-{number}");
        let kept: String = wanted.chars().take(32 - end.len()).collect();
        kept + &end
    });
    std::iter::once(wanted.clone()).chain(numbered).find(|name| !configs.contains_key(name)).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(args: &[&str]) -> ServerConfig {
        let args = args.iter().map(ToString::to_string).collect();
        ServerConfig { command: Some("/bin/x".to_owned()), args, ..ServerConfig::default() }
    }

    fn brought(configs: &mut ServerConfigs, rules: &str, servers: Vec<(&str, ServerConfig)>) -> Vec<(String, String)> {
        let rules = serde_json::from_str(rules).unwrap();
        bring(configs, &rules, servers.into_iter().map(|(name, config)| (name.to_owned(), config)))
    }

    #[test]
    fn each_gets_a_name_of_its_own_and_one_that_is_set_up_is_not_there_twice() {
        let mut configs: ServerConfigs = [("files".to_owned(), program(&["a"]))].into();
        let servers = vec![
            ("files", program(&["a"])),
            ("files", program(&["b"])),
            ("My files!", program(&["c"])),
            ("文件", program(&["d"])),
            ("工具", program(&["e"])),
            ("7z", program(&["f"])),
        ];
        assert_eq!(brought(&mut configs, "{}", servers), []);
        let names: Vec<_> = configs.keys().map(String::as_str).collect();
        assert_eq!(names, ["My_files", "editor", "editor-2", "editor-7z", "files", "files-2"]);
        assert!(configs.iter().all(|(name, config)| config.check(name).is_ok()));
    }

    #[test]
    fn it_may_touch_what_a_person_wrote_down_and_is_refused_the_secrets() {
        let rules =
            r#"{"文件": {"sandbox": {"write": ["out"]}}, "*": {"tools": {"*": "deny"}}, "off": {"enabled": false}}"#;
        let secret = ServerConfig { env: [("K".to_owned(), "a${secret:X}".to_owned())].into(), ..program(&[]) };
        let web = ServerConfig { url: Some("https://a.example/mcp".to_owned()), ..ServerConfig::default() };
        let mut configs = ServerConfigs::new();
        let servers = vec![("文件", program(&[])), ("off", program(&["1"])), ("s", secret), ("web", web)];
        let left = brought(&mut configs, rules, servers);
        assert_eq!(left.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["off", "s"]);
        assert_eq!(configs["editor"].sandbox.write, [std::path::PathBuf::from("out")]);
        assert_eq!(configs["web"].rule("any"), Some(ToolRule::Deny));
        assert!(configs["editor"].rule("any").is_none(), "a rule of its own stands in place of the one for others");
        let many = (0..40).map(|n| ("n", program(&[&n.to_string()]))).collect();
        assert_eq!(brought(&mut configs, "{}", many).len(), 8);
    }
}
