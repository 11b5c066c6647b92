//! Bill of materials in the format `CycloneDX` 1.5: every crate in the program, with version, licence and checksum.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

/// A checked bill of materials.
pub(crate) struct BillOfMaterials {
    document: Value,
}

impl BillOfMaterials {
    /// Builds the bill of a package from `cargo metadata` and the text of `Cargo.lock`.
    pub(crate) fn from_metadata(metadata: &Value, lock: &str, package: &str) -> Result<Self> {
        let packages = by_id(items(metadata, "packages"));
        let nodes = by_id(items(&metadata["resolve"], "nodes"));
        let root = packages.iter().find(|(_, one)| text(one, "name") == package);
        let (root, _) = root.with_context(|| format!("cargo metadata has no package {package}"))?;
        let used = reachable(&nodes, root);
        let checksums = checksums(lock);
        let component = |id: &&str| component(packages.get(*id)?, &checksums);
        let components: Vec<Value> = used.iter().filter(|id| *id != root).filter_map(component).collect();
        let links = used.iter().map(|id| {
            let edges = edges(nodes.get(id).copied()).filter_map(|edge| purl(packages.get(edge)?));
            let sorted: BTreeSet<_> = edges.collect();
            json!({ "ref": packages.get(id).and_then(|one| purl(one)), "dependsOn": sorted })
        });
        let mut subject = packages
            .get(root)
            .and_then(|one| component_of(one, "application"))
            .context("the package has no version")?;
        subject.remove("hashes");
        let document = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": { "component": subject },
            "components": components,
            "dependencies": links.collect::<Vec<_>>(),
        });
        check(&document)?;
        Ok(Self { document })
    }

    /// Returns the bill as indented JSON.
    pub(crate) fn to_json(&self) -> String {
        format!("{:#}\n", self.document)
    }

    /// Returns the number of components.
    pub(crate) fn len(&self) -> usize {
        items(&self.document, "components").len()
    }
}

/// Checks what readers of the format rely on: names, versions, unique references, and links to known ones.
pub(crate) fn check(document: &Value) -> Result<()> {
    for (key, expected) in [
        ("bomFormat", json!("CycloneDX")),
        ("specVersion", json!("1.5")),
        ("version", json!(1)),
    ] {
        if document[key] != expected {
            bail!("`{key}` is {}, and must be {expected}", document[key]);
        }
    }
    let components = items(document, "components");
    let subject = document.pointer("/metadata/component").unwrap_or(&Value::Null);
    let mut known = BTreeSet::new();
    for component in components.iter().chain([subject]) {
        for key in ["type", "bom-ref", "name", "version", "purl"] {
            if text(component, key).is_empty() {
                bail!("a component has no `{key}`: {component}");
            }
        }
        if !known.insert(text(component, "bom-ref")) {
            bail!("two components are {}", text(component, "bom-ref"));
        }
    }
    for link in items(document, "dependencies") {
        let ends = items(link, "dependsOn").iter().filter_map(Value::as_str);
        if let Some(lost) = ends.chain([text(link, "ref")]).find(|end| !known.contains(end)) {
            bail!("a dependency names the unknown component {lost:?}");
        }
    }
    if components.is_empty() {
        bail!("the list is empty");
    }
    Ok(())
}

/// Returns the packages that the program is built from: no tests, and no other workspace members.
fn reachable<'m>(nodes: &BTreeMap<&'m str, &'m Value>, root: &'m str) -> BTreeSet<&'m str> {
    let (mut used, mut open) = (BTreeSet::new(), vec![root]);
    while let Some(id) = open.pop() {
        if used.insert(id) {
            open.extend(edges(nodes.get(id).copied()));
        }
    }
    used
}

/// Returns the dependencies of a package, apart from those of its tests.
fn edges(node: Option<&Value>) -> impl Iterator<Item = &str> {
    let all = node.into_iter().flat_map(|node| items(node, "deps"));
    let is_built = |edge: &&Value| items(edge, "dep_kinds").iter().any(|kind| kind["kind"] != "dev");
    all.filter(is_built).map(|edge| text(edge, "pkg"))
}

fn component(package: &Value, checksums: &BTreeMap<String, String>) -> Option<Value> {
    let mut component = component_of(package, "library")?;
    let name = format!("{} {}", text(package, "name"), text(package, "version"));
    if let Some(checksum) = checksums.get(&name) {
        let hashes = json!([{ "alg": "SHA-256", "content": checksum }]);
        component.insert("hashes".to_owned(), hashes);
    }
    Some(Value::Object(component))
}

fn component_of(package: &Value, kind: &str) -> Option<Map<String, Value>> {
    let purl = purl(package)?;
    let mut component = Map::new();
    for (key, value) in [
        ("type", kind),
        ("bom-ref", purl.as_str()),
        ("name", text(package, "name")),
        ("version", text(package, "version")),
        ("purl", purl.as_str()),
    ] {
        component.insert(key.to_owned(), json!(value));
    }
    if let Some(licence) = package["license"].as_str() {
        // An old notation of `OR`, which the format does not know.
        let expression = licence.replace('/', " OR ");
        component.insert("licenses".to_owned(), json!([{ "expression": expression }]));
    }
    Some(component)
}

fn purl(package: &Value) -> Option<String> {
    let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
    Some(format!("pkg:cargo/{name}@{version}"))
}

/// Returns the checksum of each package by its name and version.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |block: &str, key: &str| {
        let line = block
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let entry = |block: &str| {
        let name = format!("{} {}", value(block, "name")?, value(block, "version")?);
        Some((name, value(block, "checksum")?))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

fn by_id(all: &[Value]) -> BTreeMap<&str, &Value> {
    all.iter().map(|one| (text(one, "id"), one)).collect()
}

fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid() -> Value {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let metadata = json!({
            "packages": [package("a"), package("b"), package("tests")],
            "resolve": { "nodes": [
                { "id": "a", "deps": [
                    { "pkg": "b", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "tests", "dep_kinds": [{ "kind": "dev" }] },
                ] },
                { "id": "b", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"ab12\"\n";
        BillOfMaterials::from_metadata(&metadata, lock, "a")
            .expect("valid")
            .document
    }

    #[test]
    fn a_component_has_version_licence_and_checksum() {
        let document = valid();
        let expected = json!([{
            "type": "library",
            "bom-ref": "pkg:cargo/b@1.0.0",
            "name": "b",
            "version": "1.0.0",
            "purl": "pkg:cargo/b@1.0.0",
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": "ab12" }],
        }]);
        assert_eq!(document["components"], expected);
    }

    #[test]
    fn a_document_that_readers_reject_is_an_error() {
        check(&valid()).expect("valid");
        for (pointer, wrong) in [
            ("/bomFormat", json!("SPDX")),
            ("/specVersion", json!("0.9")),
            ("/components", json!([])),
            ("/components/0/version", json!("")),
            ("/components/0/bom-ref", json!("pkg:cargo/a@1.0.0")),
            ("/dependencies/0/dependsOn", json!(["pkg:cargo/lost@1.0.0"])),
        ] {
            let mut document = valid();
            *document.pointer_mut(pointer).expect(pointer) = wrong;
            assert!(check(&document).is_err(), "{pointer}");
        }
    }
}
