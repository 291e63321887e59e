//! Completions: names of capabilities, where a resource has one in its address.

use crate::server::resources;
use jarvis_dispatch::{CallError, Dispatch};
use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};

pub(crate) fn complete(dispatch: &Dispatch, request: &CompleteRequestParams) -> Result<CompletionInfo, CallError> {
    let known = match &request.r#ref {
        Reference::Resource(resource) => resources::TEMPLATES.iter().any(|(uri, ..)| *uri == resource.uri),
        // What is asked of a skill is in the person's own words, and other references are not known.
        _ => false,
    };
    if !known || request.argument.name != resources::NAME {
        return Ok(CompletionInfo::default());
    }
    let listing = dispatch.registry().list()?;
    let typed = request.argument.value.as_str();
    let mut names: Vec<String> = listing.capabilities.iter().map(|c| c.name.to_string()).collect();
    names.retain(|name| name.starts_with(typed));
    names.sort();
    let total = names.len();
    names.truncate(CompletionInfo::MAX_VALUES);
    let mut info = CompletionInfo::default();
    info.has_more = Some(total > names.len());
    info.total = u32::try_from(total).ok();
    info.values = names;
    Ok(info)
}
