//! The OpenAPI document as a check of every response.

use serde_json::Value;

/// The OpenAPI document that the program serves.
pub struct ApiDocument(Value);

impl ApiDocument {
    pub fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).expect("the document is JSON"))
    }

    /// Panics if the document does not describe this response. Unknown routes are not checked.
    pub fn check_response(&self, method: &str, target: &str, answer: &super::support::AdminResponse) {
        let path = target.split('?').next().unwrap_or_default();
        let Some(operation) = self.operation(&method.to_lowercase(), path) else {
            return;
        };
        let response_text = format!("{method} {target}: {} {}", answer.status, answer.text());
        let response = &operation["responses"][answer.status.to_string()];
        let response = self.resolved(response);
        assert!(response.is_object(), "undescribed status of {response_text}");
        let Some(content) = response["content"].as_object() else {
            assert!(answer.body.is_empty(), "a body that is not described: {response_text}");
            return;
        };
        let kind = answer.header("content-type").unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default();
        let media = content.get(essence);
        let media = media.unwrap_or_else(|| panic!("undescribed type {kind} of {response_text}"));
        if essence.ends_with("json") {
            let fits = self.fits(&answer.json(), &media["schema"], "$");
            assert_eq!(fits, Ok(()), "{response_text}");
        }
    }

    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let paths = self.0["paths"].as_object()?;
        let same = |pattern: &str| {
            let (pattern, path) = (pattern.split('/'), path.split('/'));
            pattern.clone().count() == path.clone().count()
                && pattern.zip(path).all(|(p, s)| p == s || p.starts_with('{'))
        };
        let (_, item) = paths.iter().find(|(pattern, _)| same(pattern))?;
        item.get(method)
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(target) => {
                let target = self.0.pointer(target.trim_start_matches('#'));
                target.expect("the reference resolves")
            }
            None => value,
        }
    }

    /// Checks a value against the part of JSON Schema that the document uses.
    fn fits(&self, value: &Value, schema: &Value, at: &str) -> Result<(), String> {
        let schema = self.resolved(schema);
        if let Some(choices) = schema["oneOf"].as_array() {
            let fitting = choices.iter().filter(|one| self.fits(value, one, at).is_ok());
            return (fitting.count() == 1)
                .then_some(())
                .ok_or(format!("{at}: {value} fits no choice"));
        }
        if !is_of_type(value, &schema["type"]) {
            return Err(format!("{at}: {value} is not {}", schema["type"]));
        }
        if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
            return Err(format!("{at}: {value} is no word of {}", schema["enum"]));
        }
        match value {
            Value::Object(_) => self.members_fit(value, schema, at),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| self.fits(item, &schema["items"], &format!("{at}[{index}]"))),
            _ => Ok(()),
        }
    }

    fn members_fit(&self, value: &Value, schema: &Value, at: &str) -> Result<(), String> {
        let members = value.as_object().expect("an object");
        for name in schema["required"].as_array().into_iter().flatten() {
            if !members.contains_key(name.as_str().expect("a name")) {
                return Err(format!("{at}: {name} is missing"));
            }
        }
        members.iter().try_for_each(|(name, member)| {
            let at = format!("{at}.{name}");
            match schema["properties"].get(name) {
                Some(schema) => self.fits(member, schema, &at),
                None if schema["additionalProperties"] == false => Err(format!("{at}: unexpected")),
                None => Ok(()),
            }
        })
    }
}

fn is_of_type(value: &Value, types: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap_or_default() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    };
    match types {
        Value::Null => true,
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    }
}

// The check must be able to fail.
#[test]
fn the_document_rejects_an_undescribed_response() {
    let document = ApiDocument::parse(
        r#"{"paths":{},"components":{"schemas":{"A":{"type":"object","required":["n"],
            "additionalProperties":false,"properties":{"n":{"type":["integer","null"]},
            "w":{"type":"string","enum":["x"]},"l":{"type":"array","items":{"type":"boolean"}}}}}}}"#,
    );
    let schema = serde_json::json!({ "$ref": "#/components/schemas/A" });
    for (value, fits) in [
        (r#"{"n":1}"#, true),
        (r#"{"n":null,"w":"x","l":[true]}"#, true),
        (r"{}", false),
        (r#"{"n":"1"}"#, false),
        (r#"{"n":1,"w":"y"}"#, false),
        (r#"{"n":1,"l":[1]}"#, false),
        (r#"{"n":1,"more":1}"#, false),
        ("[]", false),
    ] {
        let value = serde_json::from_str(value).expect("JSON");
        assert_eq!(document.fits(&value, &schema, "$").is_ok(), fits, "{value}");
    }
}
