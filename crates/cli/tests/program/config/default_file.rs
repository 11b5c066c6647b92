//! The default file and the defaults of the program's own sections.

use outflow_cli::ProgramConfig;

use super::support::read;

// Documented and actual defaults are compared as they print, with every field; and every key must be in
// the file, set or behind a `#`.
#[test]
fn the_default_file_documents_every_key_with_its_default() {
    let written = include_str!("../../../../client/config.default.toml");
    let documented = read(written, &[]).expect("no error");
    let warnings = &documented.client.warnings;
    assert!(warnings.is_empty(), "{warnings}");
    let empty = read("", &[]).expect("valid");
    let sections = |config: &ProgramConfig| {
        let sections = (&config.server, &config.admin, &config.bulk);
        format!("{sections:#?}")
    };
    assert_eq!(sections(&documented), sections(&empty));
    for (key, _) in empty.client.origins.iter() {
        let name = key.rsplit('.').next().expect("a name");
        let documents = |line: &str| {
            let line = line.trim_start_matches('#');
            line.starts_with(&format!("{name} = "))
        };
        assert!(written.lines().any(documents), "`{key}` is not documented");
    }
}
