use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn store(cap: u64) -> (tempfile::TempDir, Blobs) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let blobs = Blobs::open(&home, cap).unwrap();
    (dir, blobs)
}

fn keep(blobs: &Blobs, bytes: &[u8]) -> BlobRef {
    let mut writer = blobs.writer();
    writer.write(bytes).unwrap();
    writer.finish().unwrap()
}

fn count_files(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { count_files(&path) } else { 1 })
        .sum()
}

#[test]
fn what_is_kept_can_be_read_whole_and_in_part() {
    let (dir, blobs) = store(1000);
    let kept = keep(&blobs, b"hello world");
    assert_eq!(kept.id, format!("b3:{}", blake3::hash(b"hello world").to_hex()));
    assert_eq!((kept.bytes, kept.dropped), (11, 0));
    assert_eq!(blobs.len(&kept.id).unwrap(), 11);
    assert_eq!(blobs.read_range(&kept.id, 6, 100).unwrap(), b"world");
    assert_eq!(blobs.read_range(&kept.id, 50, 100).unwrap(), b"");
    let mut file = blobs.open_blob(&kept.id).unwrap();
    file.seek(SeekFrom::Start(4)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "o world");
    let (first, rest) = kept.id[3..].split_at(2);
    let path = dir.path().join("blobs").join(first).join(rest);
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
}

fn path_of(dir: &tempfile::TempDir, id: &str) -> std::path::PathBuf {
    dir.path().join("blobs").join(&id[3..5]).join(&id[5..])
}

#[test]
fn a_blob_that_was_changed_is_not_served() {
    let (dir, blobs) = store(1000);
    let kept = keep(&blobs, b"hello world");
    assert_eq!(blobs.read_range(&kept.id, 0, 5).unwrap(), b"hello");
    let path = path_of(&dir, &kept.id);
    for other in ["hellO world", "hello", ""] {
        fs::write(&path, other).unwrap();
        for error in [blobs.read_range(&kept.id, 0, 5).unwrap_err(), blobs.open_blob(&kept.id).unwrap_err()] {
            assert!(matches!(&error, StoreError::BlobChanged(id) if *id == kept.id), "{other}: {error}");
        }
        assert_eq!(blobs.len(&kept.id).unwrap(), other.len() as u64);
    }
    // Putting the time of the last write back does not hide it.
    fs::write(&path, "hello world").unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    blobs.open_blob(&kept.id).unwrap();
    fs::write(&path, "hello wOrld").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert!(matches!(blobs.open_blob(&kept.id), Err(StoreError::BlobChanged(_))));
}

#[test]
fn a_blob_is_renewed_only_if_it_is_there_and_sound() {
    let (dir, blobs) = store(1000);
    let id = format!("b3:{}", blake3::hash(b"hello").to_hex());
    assert!(!blobs.renew(&id, 5).unwrap());
    assert_eq!(keep(&blobs, b"hello").id, id);
    let path = path_of(&dir, &id);
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    let fresh = modified();
    assert!(blobs.renew(&id, 5).unwrap());
    assert_eq!(modified(), fresh, "it is new enough");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(fresh - std::time::Duration::from_secs(30)).unwrap();
    assert!(blobs.renew(&id, 5).unwrap());
    assert!(modified() >= fresh, "gc does not take it now");
    assert!(!blobs.renew(&id, 4).unwrap());
    fs::write(&path, "hellO").unwrap();
    assert!(!blobs.renew(&id, 5).unwrap());
    assert!(matches!(blobs.renew("b3:no", 5), Err(StoreError::BadBlobId(_))));
}

#[test]
fn keeping_the_same_bytes_again_mends_a_changed_blob() {
    let (dir, blobs) = store(1000);
    let kept = keep(&blobs, b"hello world");
    let path = path_of(&dir, &kept.id);
    fs::write(&path, "hellO world").unwrap();
    assert_eq!(keep(&blobs, b"hello world"), kept);
    assert_eq!(blobs.read_range(&kept.id, 0, 100).unwrap(), b"hello world");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert_eq!(keep(&blobs, b"hello world"), kept);
    assert_eq!(blobs.read_range(&kept.id, 0, 100).unwrap(), b"hello world");
}

#[test]
fn equal_contents_share_one_file() {
    let (dir, blobs) = store(1 << 20);
    let bytes = vec![7_u8; 200_000];
    assert_eq!(keep(&blobs, &bytes), keep(&blobs.clone().with_fsync(true), &bytes));
    assert_eq!(count_files(dir.path()), 1);
}

#[test]
fn the_cap_keeps_the_beginning_and_marks_how_much_is_missing() {
    let (_dir, blobs) = store(100_000);
    let mut writer = blobs.writer();
    for _ in 0..30 {
        writer.write(&[b'x'; 10_000]).unwrap();
    }
    assert_eq!((writer.bytes, writer.dropped), (100_000, 200_000));
    let kept = writer.finish().unwrap();
    let mark = b"\n[helve: 200000 more bytes were not kept]\n";
    let expected = [vec![b'x'; 100_000], mark.to_vec()].concat();
    assert_eq!((kept.bytes, kept.dropped), (expected.len() as u64, 200_000));
    assert_eq!(kept.id, format!("b3:{}", blake3::hash(&expected).to_hex()));
    assert!(blobs.read_range(&kept.id, 0, usize::MAX).unwrap() == expected);
}

#[test]
fn outputs_of_different_lengths_are_different_blobs_although_the_cap_kept_the_same() {
    let (_dir, blobs) = store(4);
    assert_eq!((keep(&blobs, b"abcd").bytes, keep(&blobs, b"abcd").dropped), (4, 0));
    let (five, six) = (keep(&blobs, b"abcde"), keep(&blobs, b"abcdef"));
    assert_ne!(five.id, six.id);
    let text = blobs.read_range(&six.id, 0, usize::MAX).unwrap();
    assert_eq!(text, b"abcd\n[helve: 2 more bytes were not kept]\n");
}

#[test]
fn nothing_is_made_before_it_is_needed_and_nothing_stays_when_dropped() {
    let (dir, blobs) = store(1 << 30);
    let mut writer = blobs.writer();
    writer.write(b"short").unwrap();
    assert_eq!(count_files(dir.path()), 0);
    writer.write(&vec![0; 100_000]).unwrap();
    assert_eq!(count_files(&dir.path().join("blobs/tmp")), 1);
    drop(writer);
    assert_eq!(count_files(dir.path()), 0);
    assert_eq!(keep(&blobs, b"").bytes, 0);
}

#[test]
fn ids_are_checked_before_they_become_paths() {
    let (_dir, blobs) = store(10);
    let hex = "0".repeat(64);
    for bad in [hex.clone(), "b3:".into(), format!("b3:{}", "A".repeat(64)), format!("b3:../{}", &hex[3..])] {
        assert!(matches!(blobs.open_blob(&bad), Err(StoreError::BadBlobId(_))), "{bad}");
    }
    assert!(matches!(blobs.len(&format!("b3:{hex}")), Err(StoreError::NoSuchBlob(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_chunks_come_back_in_order(
        chunks in prop::collection::vec((any::<u8>(), 0_usize..90_000), 0..6), cap in 0_u64..300_000,
    ) {
        let (_dir, blobs) = store(cap);
        let mut writer = blobs.writer();
        let mut whole = Vec::new();
        for (byte, len) in chunks {
            let chunk = vec![byte; len];
            writer.write(&chunk).unwrap();
            whole.extend_from_slice(&chunk);
        }
        let kept = writer.finish().unwrap();
        let mut expected = whole[..whole.len().min(cap as usize)].to_vec();
        let dropped = whole.len() - expected.len();
        if dropped > 0 {
            expected.extend(format!("\n[helve: {dropped} more bytes were not kept]\n").bytes());
        }
        prop_assert_eq!((kept.bytes, kept.dropped), (expected.len() as u64, dropped as u64));
        prop_assert!(blobs.read_range(&kept.id, 0, usize::MAX).unwrap() == expected);
    }
}
