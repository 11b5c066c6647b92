//! Generator of the collection: the admin API from its OpenAPI document, the sidecar from a list of requests.

use serde_json::{Map, Value, json};

/// Folders with the operations in the order of the run. A permit is used once, so there are two.
pub(super) const FOLDERS: [(&str, &[&str]); 4] = [
    (
        "Queries",
        &[
            "alive", "ready", "apis", "metrics", "document", "snapshot", "api", "limits", "explain", "tasks", "config",
        ],
    ),
    ("Control", &["force", "release", "set", "reload", "audit"]),
    ("Limiter", &["check", "acquire", "settle", "acquire", "refund"]),
    (
        "Bulk jobs",
        &[
            "bulk",
            "bulk_open",
            // The tenant is paused first, so that its job can still be cancelled at the end.
            "bulk_tenant_pause",
            "bulk_submit",
            "bulk_tenants",
            "bulk_tenant",
            "bulk_history",
            "bulk_actions",
            "bulk_action",
            "bulk_results",
            "bulk_action_pause",
            "bulk_action_resume",
            "bulk_tenant_release",
            "bulk_tenant_reset",
            "bulk_action_close",
            "bulk_dead",
            "bulk_dead_retry",
            "bulk_dead_purge",
            "bulk_action_cancel",
            "bulk_tenant_cancel",
            "bulk_tenant_resume",
        ],
    ),
];

/// Generates the collection.
pub(super) fn collection(document: &Value) -> Value {
    let mut folders: Vec<_> = FOLDERS
        .iter()
        .map(|(name, ids)| {
            let items: Vec<_> = ids.iter().map(|id| operation_item(id, document)).collect();
            json!({ "name": name, "item": items })
        })
        .collect();
    // After the queries: an override or a cooldown of the other folders would stop its calls.
    folders.insert(1, sidecar_folder());
    let schema = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json";
    json!({
        "info": { "name": "Outflow", "schema": schema, "description": DESCRIPTION },
        "auth": { "type": "bearer", "bearer": [{ "key": "token", "value": "{{token}}" }] },
        "item": folders,
    })
}

fn sidecar_folder() -> Value {
    let requests: Vec<Value> = serde_json::from_str(include_str!("sidecar.json")).expect("JSON");
    let items: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let lines: Vec<_> = request["checks"].as_array().expect("checks").iter().collect();
            let events = [event("test", &json!(lines))];
            json!({ "name": request["name"], "request": request["request"], "event": events })
        })
        .collect();
    let token = "const token = pm.environment.get(\"calls_token\"); \
                 if (token) pm.request.headers.upsert({ key: \"Outflow-Token\", value: token });";
    let events = [event("prerequest", &json!([token]))];
    json!({ "name": "Calls through the sidecar", "item": items, "event": events })
}

/// Returns method, path and operation.
pub(super) fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let all = paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("an item").iter();
        let methods = methods.filter(|(name, _)| *name != "parameters");
        methods.map(|(method, operation)| (method.as_str(), path.as_str(), operation))
    });
    all.collect()
}

fn operation_item(id: &str, document: &Value) -> Value {
    let all = operations(document).into_iter();
    let mut all = all.filter(|(_, _, operation)| operation["operationId"] == *id);
    let (method, path, operation) = all.next().expect("it is in the document");
    let mut request = json!({
        "method": method.to_uppercase(),
        "description": operation["summary"],
        "header": [],
        "url": url(path, operation),
    });
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    if !example.is_null() {
        let text = serde_json::to_string_pretty(example).expect("JSON");
        request["header"] = json!([{ "key": "Content-Type", "value": "application/json" }]);
        request["body"] = json!({ "mode": "raw", "raw": with_variables(&text) });
    }
    let mut events = vec![event("test", &json!(checks(operation, document)))];
    events.extend(preparation(id).map(|line| event("prerequest", &json!([line]))));
    json!({ "name": operation["summary"], "request": request, "event": events })
}

fn event(listen: &str, lines: &Value) -> Value {
    json!({ "listen": listen, "script": { "type": "text/javascript", "exec": lines } })
}

/// Replaces the names of the examples: every run uses a configured API, and an action and a tenant of its own.
fn with_variables(text: &str) -> String {
    let names = [
        ("\"stock\"", "\"{{api}}\""),
        ("\"acme\"", "\"postman\""),
        ("\"nightly\"", "\"{{action}}\""),
        ("order-17", "{{action}}-17"),
    ];
    names
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn url(path: &str, operation: &Value) -> String {
    let given = operation["parameters"].as_array().into_iter().flatten();
    let given = given.filter(|parameter| !parameter["example"].is_null());
    let given: Vec<_> = given
        .map(|parameter| {
            let value = parameter["example"].to_string().replace('"', "").replace(' ', "%20");
            format!("{}={value}", parameter["name"].as_str().expect("a name"))
        })
        .collect();
    let query = if given.is_empty() {
        String::new()
    } else {
        format!("?{}", given.join("&"))
    };
    let query = query
        .replace("api=stock", "api={{api}}")
        .replace("action=nightly", "action={{action}}");
    let path = path.replace("{api}", "{{api}}");
    let path = path.replace("{tenant}", "postman").replace("{action}", "{{action}}");
    format!("{{{{base}}}}{path}{query}")
}

/// Returns the script that runs before a request, if there is one.
fn preparation(id: &str) -> Option<&'static str> {
    match id {
        "bulk" => Some("pm.environment.set(\"action\", \"postman-\" + Date.now());"),
        _ if id.starts_with("bulk_") => {
            Some("if (pm.environment.get(\"bulk\") === \"off\") pm.execution.skipRequest();")
        }
        _ => None,
    }
}

/// Renders the checks of a response: its status and its required members.
fn checks(operation: &Value, document: &Value) -> Vec<String> {
    let responses = operation["responses"].as_object().expect("responses");
    let (status, good) = responses.iter().next().expect("a response");
    let mut lines = vec![format!(
        "pm.test(\"answers {status}\", () => pm.response.to.have.status({status}));"
    )];
    lines.extend(required_members(good, document).map(|members| {
        format!(
            "pm.test(\"holds its required members\", () => \
             pm.expect(pm.response.json()).to.include.all.keys({members}));"
        )
    }));
    match operation["operationId"].as_str() {
        Some("acquire") => lines.push("pm.environment.set(\"permit\", pm.response.json().permit);".to_owned()),
        Some("apis") => lines.extend(CHOOSE_API.map(str::to_owned)),
        Some("bulk") => lines = without_bulk(&lines),
        // A run has no dead letter, unless an earlier one left some.
        Some("bulk_dead_retry") => lines = vec![RETRIES_OR_NONE.to_owned()],
        _ => {}
    }
    lines
}

fn required_members<'d>(response: &Value, document: &'d Value) -> Option<&'d Value> {
    let schema = &response["content"]["application/json"]["schema"]["$ref"];
    let schema = document.pointer(schema.as_str()?.trim_start_matches('#'))?;
    schema.as_object().and_then(|schema: &Map<_, _>| schema.get("required"))
}

/// Wraps the checks: a program without bulk jobs says how to run them, and the rest of the folder is skipped.
fn without_bulk(lines: &[String]) -> Vec<String> {
    let off = "pm.response.code === 404 && pm.response.json().type.endsWith(\":no_bulk\")";
    let first = [
        format!("const off = {off};"),
        "pm.environment.set(\"bulk\", off ? \"off\" : \"on\");".to_owned(),
        "if (off) {".to_owned(),
        "  pm.test(\"says how to run bulk jobs\", () => pm.expect(pm.response.json().detail).to.include(\"--bulk\"));"
            .to_owned(),
        "} else {".to_owned(),
    ];
    let checks = lines.iter().map(|line| format!("  {line}"));
    first.into_iter().chain(checks).chain(["}".to_owned()]).collect()
}

const RETRIES_OR_NONE: &str = "pm.test(\"retries dead letters, or says that there are none\", () => \
     pm.expect(pm.response.code === 200 || pm.response.json().type.endsWith(\":no_dead_letters\")).to.be.true);";

/// Uses the API of the environment if the program has it, or else the first one.
const CHOOSE_API: [&str; 3] = [
    "const names = pm.response.json().apis.map((api) => api.name);",
    "pm.test(\"has an API\", () => pm.expect(names).to.not.be.empty);",
    "if (!names.includes(pm.environment.get(\"api\"))) pm.environment.set(\"api\", names[0]);",
];

const DESCRIPTION: &str = "The admin API and the sidecar of a running Outflow. docs/postman/README.md says how to run \
                           it.";
