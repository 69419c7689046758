//! Pages as a browser shows them.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::path::Path;
use std::process::Command;

/// Names of the browser, in the order in which they are looked for.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The page after its scripts have run.
pub(crate) fn in_browser(page: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let output = BROWSERS.iter().find_map(|browser| open(browser, folder.path(), &path));
    output.expect("this test opens a page in a browser: install Chromium (`scripts/need chromium`)")
}

fn open(browser: &str, folder: &Path, path: &Path) -> Option<String> {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--dump-dom", &format!("file://{}", path.display())])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !output.stdout.is_empty(), "{browser}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The page after a reader has done what `steps` do, which are a script at its end. The page's
/// policy would not let it run, and is taken out.
pub(crate) fn after(page: &str, steps: &str) -> String {
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find("/>").unwrap() + 2;
    let script = format!("<script>{steps}</script></body>");
    in_browser(&format!("{}{}", &page[..policy], &page[end..]).replace("</body>", &script))
}

/// The title of a page as it was shown, by which scripts tell what they saw.
pub(crate) fn title_of(shown: &str) -> &str {
    let title = shown.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.expect("a page has a title")
}
