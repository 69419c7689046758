//! Files of a store that are truncated while a server has it open: requests that need the missing
//! part fail with an error that names file and offset, and all others are answered. Regression: the
//! first such request ended the server.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::path::{Path, PathBuf};

use common::{Client, entity, start_with};

const CHILD: &str = "PELLUCID_SERVER_UNREADABLE_CHILD";
const KEYS: u32 = 8_000;
const PAGE_BYTES: u64 = 4_096;

fn path_of(folder: &Path, kind: &str) -> PathBuf {
    let folders = [folder.join("journal"), folder.join("ledger")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    files.sort();
    files.into_iter().max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap()
}

/// The oldest segment of the journal, which is sealed.
fn segment_of(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder.join("journal")).unwrap();
    files.map(|entry| entry.unwrap().path()).min().unwrap()
}

fn cut(path: &Path, length: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Requests all keys, and returns how many were answered with 200 and how many with 500. The text
/// of each error must name one of `paths`.
fn ask(client: &mut Client, method: &str, paths: &[&Path]) -> (u32, u32) {
    let (mut there, mut refused) = (0, 0);
    for key in 0..KEYS {
        let answer = client.call(method, &entity(format!("key-{key}")), &[], b"");
        match answer.status {
            200 => there += 1,
            500 if method == "HEAD" => refused += 1,
            500 => {
                let text = answer.text();
                let is_named = paths.iter().any(|path| text.contains(path.to_str().unwrap()));
                assert!(is_named && text.contains("at offset"), "{text}");
                refused += 1;
            }
            status => panic!("{method} of {key}: {status} {}", answer.text()),
        }
    }
    (there, refused)
}

#[test]
fn a_missing_page_fails_its_request_and_names_file_and_offset() {
    if std::env::var_os(CHILD).is_none() {
        let name = "a_missing_page_fails_its_request_and_names_file_and_offset";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{told}", output.status);
        return;
    }
    let mut folder = PathBuf::new();
    let running = start_with(|options| {
        folder = options.data.clone();
        // Little memory, so that most of the keys are in tables.
        options.embedded.memory_bytes = 1 << 20;
    });
    let mut client = running.client();
    for key in 0..KEYS {
        let value = vec![key as u8; 100 + (key as usize * 7_919) % 251];
        assert!(client.put(&entity(format!("key-{key}")), value).status < 300);
    }
    assert_eq!(client.call("PUT", "/_admin/compact", &[], b"").status, 200);
    let table = path_of(&folder, "table");
    assert_eq!(ask(&mut client, "HEAD", &[&table]), (KEYS, 0));
    let length = std::fs::metadata(&table).unwrap().len();
    cut(&table, length / 2 / PAGE_BYTES * PAGE_BYTES);
    let (there, refused) = ask(&mut client, "HEAD", &[&table]);
    assert!(there > KEYS / 5 && refused > KEYS / 5, "{there} and {refused}");
    // Requests that need no block of the table are answered: a new write is accepted, and read.
    assert!(client.put(&entity("new"), b"value").status < 300);
    assert_eq!(client.get(&entity("new")).text(), "value");
    let journal = segment_of(&folder);
    cut(&journal, 50 * PAGE_BYTES);
    let (there, refused) = ask(&mut client, "GET", &[&table, &journal]);
    assert!(there > 100 && refused > 100, "{there} and {refused}");
    assert_eq!(client.get("/_admin/status").status, 200);
}
