use super::*;

fn check_text(path: &str, text: &str) -> Vec<String> {
    let findings = check_with(&SourceTree::from_files([(path, text)]), &[]);
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_banned_word_is_reported_with_its_replacement() {
    let found = check_text("docs/a.md", "The API\nhelps whoever calls.\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("docs/a.md:2: `whoever`: name the"), "{found:?}");
}

// One text for each place where a word can be.
#[test]
fn identifiers_comments_messages_and_file_names_are_read() {
    for (path, text) in [
        ("a.rs", "fn is_told() {}"),
        ("a.rs", "struct DoorGate;"),
        ("a.rs", "let HTTPDoor = 1;"),
        ("a.rs", "// Told twice."),
        ("a.rs", "bail!(\"nobody waits\")"),
        ("a.rs", "let text = \"a\\nnobody\";"),
        ("a.lua", "-- the bell"),
        ("a.toml", "# whoever asks"),
        ("README.md", "Doors."),
        ("crates/a/src/door.rs", ""),
    ] {
        let found = check_text(path, text);
        assert_eq!(found.len(), 1, "{path}: {text}: {found:?}");
    }
}

#[test]
fn a_phrase_may_span_lines_and_comment_marks() {
    for text in [
        "// for those\n// who wait",
        "/// for those\n    /// who wait",
        "fn those_who_wait() {}",
        "struct ThoseWho;",
        "a call that is under\nway",
    ] {
        let found = check_text("a.rs", text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
    }
    for text in ["those. Who waits?", "those callers who wait", "under a way"] {
        let found = check_text("a.rs", text);
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}

#[test]
fn longer_words_are_different_words() {
    let text = "forward, toward, indeed, steward, workstation, foretold, staffing";
    let found = check_text("a.md", text);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn uses_in_one_file_are_counted() {
    let found = check_text("a.md", "\ndoor, door and doors\n");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("a.md:2: `door` (2 times): "), "{found:?}");
}

#[test]
fn data_and_lock_files_are_not_read() {
    assert!(check_text("Cargo.lock", "name = \"bell\"").is_empty());
    assert!(check_text("fuzz/seeds/rate/01", "bell").is_empty());
}

#[test]
fn an_exception_covers_its_words_below_its_path_and_must_have_a_use() {
    let allowed = [AllowedUse {
        paths: &["docs/"],
        words: &["bell"],
        reason: "the terminal bell",
    }];
    let check_text = |path, text| {
        let tree = SourceTree::from_files([(path, text)]);
        let findings = check_with(&tree, &allowed);
        findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(check_text("docs/a.md", "bell").is_empty());
    assert_eq!(check_text("docs/a.md", "bell door").len(), 1);
    let found = check_text("README.md", "bell");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("the terminal bell"), "{found:?}");
}

// A second rule for a word would hide the first one.
#[test]
fn the_list_has_each_word_once_in_lower_case() {
    let words: Vec<_> = BANNED_WORDS.iter().flat_map(|rule| rule.words).collect();
    let unique: HashSet<_> = words.iter().collect();
    assert_eq!(unique.len(), words.len());
    for word in words {
        assert!(
            word.bytes().all(|byte| byte == b' ' || byte.is_ascii_lowercase()),
            "{word}"
        );
        assert!(word.split(' ').count() <= 2, "{word}");
        let first = word.split(' ').next().unwrap_or_default();
        assert!(WORD_LENGTHS.contains(&first.len()), "{word}");
    }
    for allowed in ALLOWED_USES {
        assert!(!allowed.reason.is_empty(), "{:?}", allowed.paths);
    }
}
