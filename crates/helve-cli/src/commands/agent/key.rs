//! Where the key of a model comes from: a program of the owner's, a variable, or a file that nobody else may read. Nothing
//! here prints one.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve::ModelSettings;
use helve_agent::models;

use crate::failure::Failure;
use crate::harmless::one_line;

/// The file's name in the state directory.
const FILE: &str = "model-keys";
/// No key is longer, and so is no answer of a program that gives one.
const KEY_BYTES: u64 = 16 << 10;
/// The largest file of keys.
const FILE_BYTES: u64 = 256 << 10;
/// A program that asks a person has so long.
const PROGRAM_TIME: Duration = Duration::from_secs(120);
/// What it has put out is read so long after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);

/// A key, and what it is called where it is left out.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) value: String,
}

/// Where the file of keys is.
pub(super) fn path(home: &Path) -> PathBuf {
    home.join(FILE)
}

/// The key for a provider; none if nobody has one.
pub(super) fn find(
    provider: &str,
    settings: &ModelSettings,
    workspace: &Path,
    home: &Path,
) -> Result<Option<Key>, Failure> {
    // Who wants none at its own address is sent none that was not written for it.
    let usable = settings.key_is_its_own || settings.base_url.is_some() || models::wants_key(provider);
    if usable && !settings.key_command.is_empty() {
        let value = from_program(&settings.key_command, workspace)?;
        return Ok(Some(Key { name: "model.key_command".to_owned(), value }));
    }
    let written = settings.key_env.as_deref().filter(|_| usable);
    let usual = models::key_variables(provider).iter().copied().filter(|_| written.is_none());
    for name in written.into_iter().chain(usual) {
        if let Some(value) = std::env::var(name).ok().filter(|value| !value.trim().is_empty()) {
            return Ok(Some(Key { name: name.to_owned(), value: value.trim().to_owned() }));
        }
    }
    let value = from_file(&path(home), provider)?;
    Ok(value.map(|value| Key { name: FILE.to_owned(), value }))
}

/// All keys of the file, so that none of them is shown, whichever model is asked.
pub(super) fn kept(home: &Path) -> Result<Vec<Key>, Failure> {
    let keys = read(&path(home))?.into_iter().map(|(_, value)| Key { name: FILE.to_owned(), value });
    Ok(keys.collect())
}

/// The first line that a program puts out.
fn from_program(words: &[String], workspace: &Path) -> Result<String, Failure> {
    let Some((program, args)) = words.split_first() else {
        return Err(Failure::usage("`model.key_command` is empty; take it out"));
    };
    let wrong = |why: String| Failure::usage(format!("`model.key_command`: {program} gives no key: {why}"));
    // What a command could write must not see the key, or give another.
    let inside = |word: &String| {
        let path = Path::new(word);
        path.starts_with(workspace)
            || path.canonicalize().is_ok_and(|real| path.is_absolute() && real.starts_with(workspace))
    };
    if let Some(word) = words.iter().find(|word| inside(word)) {
        return Err(Failure::usage(format!(
            "`model.key_command`: {word} lies in the workspace, where commands can change it; keep it elsewhere"
        )));
    }
    let mut command = Command::new(program);
    // It may have to ask a person, and says so on the terminal.
    let child = command.args(args).current_dir("/").stdin(Stdio::inherit()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| wrong(format!("{error}")))?;
    let Some(out) = child.stdout.take() else { return Err(wrong("it has no output".to_owned())) };
    let read = Arc::new(Mutex::new(Vec::new()));
    let so_far = Arc::clone(&read);
    let reader = std::thread::spawn(move || {
        let (mut out, mut piece) = (out.take(KEY_BYTES), [0; 1024]);
        while let Ok(count @ 1..) = out.read(&mut piece) {
            locked(&so_far).extend_from_slice(&piece[..count]);
        }
    });
    wait(&mut child).map_err(&wrong)?;
    // What it started may keep its output open for as long as it likes: a whole line is enough.
    let ended = Instant::now();
    while !reader.is_finished() && !locked(&read).contains(&b'\n') && ended.elapsed() < LAST_WORDS {
        std::thread::sleep(TICK);
    }
    let text = std::mem::take(&mut *locked(&read));
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec();
    let text = String::from_utf8(first).map_err(|_| wrong("its output is not text".to_owned()))?;
    match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(wrong("the first line of its output is empty".to_owned())),
    }
}

fn locked(text: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the program's good end, no longer than it may take.
fn wait(child: &mut Child) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Ok(None) if start.elapsed() < PROGRAM_TIME => std::thread::sleep(TICK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} seconds", PROGRAM_TIME.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The key of a provider in the file.
fn from_file(path: &Path, provider: &str) -> Result<Option<String>, Failure> {
    let mut keys = read(path)?.into_iter();
    Ok(keys.find(|(name, _)| name == provider).map(|(_, key)| key))
}

/// The lines `provider key` of a file; none if there is no file.
fn read(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let wrong = |why: String| Failure::usage(format!("the keys in {} cannot be used: {why}", path.display()));
    // A pipe is not even opened: that would wait for whoever writes into it.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(wrong("others may read it; run `chmod 600` on it".to_owned()));
    }
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, key)) = line.split_once(char::is_whitespace) else {
            return Err(wrong(format!("line {}: write PROVIDER KEY", at + 1)));
        };
        if !models::providers().any(|known| known == name) {
            let name = one_line(name, 40);
            return Err(wrong(format!("line {}: there is no provider '{name}'", at + 1)));
        }
        keys.push((name.to_owned(), key.trim().to_owned()));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_program_gives_the_first_line_that_it_puts_out() {
        let run = |script: &str| {
            let words = ["/bin/sh", "-c", script].map(str::to_owned);
            from_program(&words, Path::new("/nowhere")).map_err(Failure::message)
        };
        assert_eq!(run("echo ' key-1 '; echo more"), Ok("key-1".to_owned()));
        // What it leaves running may keep its output open.
        let began = Instant::now();
        assert_eq!(run("echo key-2; sleep 20 & exit 0"), Ok("key-2".to_owned()));
        assert_eq!(run("printf key-3; sleep 20 & exit 0"), Ok("key-3".to_owned()));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        assert!(run("exit 3").is_err_and(|error| error.contains("exit status: 3")));
        assert!(run("echo").is_err_and(|error| error.contains("empty")));
        assert!(run("printf '\\377'").is_err_and(|error| error.contains("not text")));
        let words = ["/bin/sh".to_owned(), "/nowhere/key.sh".to_owned()];
        let error = from_program(&words, Path::new("/nowhere")).unwrap_err().message();
        assert!(error.contains("lies in the workspace"), "{error}");
    }

    #[test]
    fn a_file_of_keys_is_the_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path());
        assert_eq!(from_file(&file, "openai").unwrap(), None);
        std::fs::write(&file, "# mine\n\nopenai  sk-1 \nanthropic sk-2\n").unwrap();
        let set_mode = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o644);
        assert!(from_file(&file, "openai").unwrap_err().message().contains("chmod 600"));
        set_mode(0o600);
        assert_eq!(from_file(&file, "openai").unwrap().as_deref(), Some("sk-1"));
        assert_eq!(from_file(&file, "anthropic").unwrap().as_deref(), Some("sk-2"));
        assert_eq!(from_file(&file, "gemini").unwrap(), None);
        for (text, why) in
            [("secret-without-name\n", "line 1: write"), ("\nopenay sk\n", "line 2: there is no")]
        {
            std::fs::write(&file, text).unwrap();
            let error = from_file(&file, "gemini").unwrap_err().message();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }
}
