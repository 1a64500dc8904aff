//! Quoting: the shell gives back exactly what went in.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

mod support;

use std::process::Command;

use helve_shell::{quote, quote_double, quote_single_inner};
use proptest::prelude::*;

/// What `sh` prints for the word.
fn printed(word: &str) -> Vec<u8> {
    let output = Command::new("sh").args(["-c", &format!("printf %s {word}")]).env_clear().output().unwrap();
    assert!(output.status.success(), "{word:?}");
    output.stdout
}

#[test]
fn plain_words_stay_readable() {
    for plain in ["ls", "src/main.rs", "a-b_c.d:e@f%g+h,i", "/usr/bin"] {
        assert_eq!(quote(plain), plain);
    }
    for special in ["", "~", "a=b", "if", "do", "#x", "a b", "*", "{a,b}", "!", "é", "\n", "a\\b"] {
        assert_ne!(quote(special), special);
    }
}

proptest! {
    #![proptest_config(support::proptest_config(200))]

    #[test]
    fn the_shell_reads_it_back(
        text in prop_oneof![r#"[ab'"\\$`!\n\t ~#*?{}()é&|;<>=-]{0,20}"#, any::<String>()]
            .prop_filter("no shell can carry NUL", |text| !text.contains('\0'))
    ) {
        let single = format!("'{}'", quote_single_inner(&text));
        let double = format!("\"{}\"", quote_double(&text));
        for word in [quote(&text).as_ref(), &single, &double] {
            prop_assert_eq!(printed(word), text.as_bytes());
        }
    }
}
