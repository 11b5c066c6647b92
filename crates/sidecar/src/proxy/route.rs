//! Route of a request: the API that its target names, and the path for that API.

use http::{StatusCode, Uri};
use outflow::Outflow;

use super::problem::ProxyProblem;

/// Target `/{api}{path}`, split after the name. The path stays byte for byte, because it may be signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestRoute<'a> {
    /// Name of the API.
    pub(crate) api: &'a str,
    /// Rest of the target, with the query.
    pub(crate) path: &'a str,
}

impl<'a> RequestRoute<'a> {
    /// Splits a target; returns `None` for `/` itself.
    pub(crate) fn from_uri(uri: &'a Uri) -> Option<Self> {
        let target = uri.path_and_query().map_or("/", |path| path.as_str());
        let target = target.strip_prefix('/').unwrap_or(target);
        if target.is_empty() || target.starts_with('?') {
            return None;
        }
        let end = target.find(['/', '?']).unwrap_or(target.len());
        let (api, path) = target.split_at(end);
        Some(Self { api, path })
    }
}

/// Builds the problem of an unknown API.
pub(crate) fn unknown_api(name: &str, client: &Outflow) -> ProxyProblem {
    let names = sorted_names(client);
    let known = names.join(", ");
    // The caller may send any text here: it is quoted only if it looks like a name.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let detail = match name {
        name if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain) => {
            format!("there is no API `{name}`")
        }
        _ => "the path does not begin with the name of an API".to_owned(),
    };
    ProxyProblem::new(StatusCode::NOT_FOUND, "unknown_api", "there is no such API")
        .detail(detail)
        .fact("known", names)
        .advice(format!("call /NAME/PATH with one of: {known}"))
        .proxy_error("destination_not_found")
}

fn sorted_names(client: &Outflow) -> Vec<String> {
    let mut names: Vec<_> = client.apis().map(String::from).collect();
    names.sort_unstable();
    names
}

/// Builds the text at `/`.
pub(crate) fn help_text(client: &Outflow) -> String {
    let mut text = String::from(
        "outflow: a proxy for rate-limited APIs.\n\n\
         Put the name of an API before its path:\n",
    );
    for name in sorted_names(client) {
        text.push_str(&["  /", &name, "/...\n"].concat());
    }
    text.push_str("\nHeaders such as Outflow-Priority and Outflow-Deadline control one call.\n");
    text
}

/// Length above which a text is not quoted as a name.
const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_after_the_name_stays_byte_for_byte() {
        for (target, api, path) in [
            ("/github/repos?q=%2F#", "github", "/repos?q=%2F"),
            ("/github", "github", ""),
            ("/github?q=1", "github", "?q=1"),
            ("/github//x", "github", "//x"),
            ("//evil.example/x", "", "/evil.example/x"),
            ("http://127.0.0.1:7070/github/x", "github", "/x"),
            ("/..%2f/x", "..%2f", "/x"),
        ] {
            let uri: Uri = target.parse().expect("a target");
            assert_eq!(
                RequestRoute::from_uri(&uri),
                Some(RequestRoute { api, path }),
                "{target}"
            );
        }
        for root in ["/", "/?q", "http://127.0.0.1:7070"] {
            let uri: Uri = root.parse().expect("a target");
            assert_eq!(RequestRoute::from_uri(&uri), None, "{root}");
        }
    }
}
