//! Any text is a patch or a refusal, and taking it over any file ends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8])| {
    let (patch, file) = input;
    let _ = helve_tools::try_patch(patch, file);
    // Most texts are no patch, so the same text is tried as a hunk of the file too.
    let wrapped = format!("*** Begin Patch\n*** Update File: f\n@@\n{patch}\n*** End Patch");
    let _ = helve_tools::try_patch(&wrapped, file);
    let diff = format!("--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n{patch}");
    let _ = helve_tools::try_patch(&diff, file);
});
