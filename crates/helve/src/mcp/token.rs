//! The tokens of clients that come over HTTP: one file in the state directory that nobody else may read, a client a line.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use helve_mcp::server::LOCAL;
use helve_store::{Home, StoreError};

/// The file's name in the state directory.
const FILE: &str = "serve-tokens";
/// The client that the first start makes a token for.
pub const FIRST: &str = "default";

/// Why there are no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The state directory cannot be used.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The file cannot be read or written.
    #[error("the tokens in {path} cannot be used: {why}")]
    File {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

/// A client and the token that it brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientToken {
    /// The client's name.
    pub client: String,
    /// Its token.
    pub token: String,
}

/// Where the tokens are.
pub fn path(home: &Path) -> PathBuf {
    home.join(FILE)
}

/// The tokens of all clients. Makes the file with a token for [`FIRST`] where there is none.
pub fn tokens(home: &Path) -> Result<Vec<ClientToken>, TokenError> {
    let dir = Home::open(home)?;
    let path = path(dir.path());
    let failed = |why: String| TokenError::File { path: path.clone(), why };
    if !path.exists() {
        make(&path).map_err(|error| failed(error.to_string()))?;
    }
    let mode = std::fs::metadata(&path).map_err(|error| failed(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed(
            "others may read it; run `chmod 600` on it, or remove it to make new tokens".into(),
        ));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    read(&text).map_err(failed)
}

/// Makes the file as a whole, unless another process was first: nobody finds half of one, whenever this ends.
fn make(path: &Path) -> std::io::Result<()> {
    // No other makes one of this name.
    let (token, new) = (fresh()?, path.with_added_extension(fresh()?));
    let written = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(format!("{FIRST} {token}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::hard_link(&new, path)
    };
    let written = written();
    let _ = std::fs::remove_file(&new);
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        written => written,
    }
}

/// The clients of a file: a name and a token a line.
fn read(text: &str) -> Result<Vec<ClientToken>, String> {
    let mut found: Vec<ClientToken> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("line {}: {why}", at + 1);
        let (client, token) = line.split_once(' ').ok_or_else(|| wrong("write NAME TOKEN"))?;
        let (client, token) = (client.to_owned(), token.trim().to_owned());
        let is_name = client.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !is_name || client.len() > 40 {
            return Err(wrong("a client's name is at most 40 letters, digits, - and _"));
        }
        // Else it would have what was agreed to for another.
        if client == LOCAL {
            return Err(wrong("'local' is the client on standard streams; choose another name"));
        }
        if token.len() < 32 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("a token has at least 32 visible characters"));
        }
        if found.iter().any(|one| one.client == client || one.token == token) {
            return Err(wrong("the name or the token is there already"));
        }
        found.push(ClientToken { client, token });
    }
    if found.is_empty() { Err("there are none; remove the file to make one".to_owned()) } else { Ok(found) }
}

/// A token that nobody can guess.
pub fn fresh() -> std::io::Result<String> {
    let mut bytes = [0_u8; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn the_first_start_makes_a_token_and_the_next_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("state");
        let made = tokens(&home).unwrap();
        assert_eq!((made.len(), made[0].client.as_str(), made[0].token.len()), (1, FIRST, 64));
        assert_eq!(tokens(&home).unwrap(), made);
        let mode = std::fs::metadata(path(&home)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(path(&home), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(tokens(&home).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn of_several_first_starts_all_find_the_same() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().join("state");
            Home::open(&home).unwrap();
            let all: Vec<_> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..6).map(|_| scope.spawn(|| tokens(&home))).collect();
                starts.into_iter().map(|start| start.join().unwrap().unwrap()).collect()
            });
            assert!(all.iter().all(|one| *one == all[0]));
            let left = std::fs::read_dir(&home)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(FILE));
            assert_eq!(left.count(), 1, "nothing else is left");
        }
    }

    #[test]
    fn a_broken_line_is_named() {
        for (text, why) in [
            ("", "there are none"),
            ("alone\n", "line 1: write NAME TOKEN"),
            ("# note\na short\n", "line 2: a token has"),
            (
                "local 0123456789012345678901234567890123\n",
                "line 1: 'local' is the client on standard streams",
            ),
            ("a/b 0123456789012345678901234567890123\n", "line 1: a client's name"),
        ] {
            assert!(read(text).unwrap_err().contains(why), "{text:?}");
        }
        let token = "0123456789012345678901234567890123";
        assert!(read(&format!("a {token}\nb {token}\n")).is_err());
    }
}
