//! Pages as a browser shows them.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::path::Path;
use std::process::Command;

/// Names of the browser, in the order in which they are looked for.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The window of a page that does not care.
const WINDOW: (u32, u32) = (800, 600);

/// The page after its scripts have run.
pub(crate) fn in_browser(page: &str) -> String {
    in_window(page, WINDOW)
}

fn in_window(page: &str, window: (u32, u32)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let output = BROWSERS.iter().find_map(|browser| open(browser, folder.path(), &path, window));
    output.expect("this test opens a page in a browser: install Chromium (`scripts/need chromium`)")
}

fn open(browser: &str, folder: &Path, path: &Path, (width, height): (u32, u32)) -> Option<String> {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--window-size={width},{height}"))
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
    in_browser(&with_steps(page, steps))
}

/// The same as wide as asked for, in a frame: no window is as narrow as a telephone. Only the title
/// of what is returned is the page's.
pub(crate) fn after_sized(page: &str, steps: &str, width: u32) -> String {
    let page = with_steps(page, &format!("{steps} parent.document.title = document.title;"));
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let style = format!("width:{width}px;height:{}px;border:0", WINDOW.1);
    let outer = format!(
        "<!DOCTYPE html><html><head><title></title></head>\
         <body><iframe style=\"{style}\" srcdoc=\"{page}\"></iframe></body></html>"
    );
    in_window(&outer, (width + WINDOW.0, 2 * WINDOW.1))
}

fn with_steps(page: &str, steps: &str) -> String {
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find("/>").unwrap() + 2;
    let script = format!("<script>{steps}</script></body>");
    format!("{}{}", &page[..policy], &page[end..]).replace("</body>", &script)
}

/// The title of a page as it was shown, by which scripts tell what they saw.
pub(crate) fn title_of(shown: &str) -> &str {
    let title = shown.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.expect("a page has a title")
}
