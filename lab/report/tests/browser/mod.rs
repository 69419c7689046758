//! Pages as a browser shows them.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::path::Path;
use std::process::Command;

/// Names of the browser, in the order in which they are looked for.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How a reader looks at a page.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
}

impl Window {
    fn flags(self) -> Vec<String> {
        // Blink's numbers of what a reader prefers.
        let scheme = if self.is_dark { 0 } else { 1 };
        vec![
            format!("--window-size={},{}", self.width, self.height),
            format!("--blink-settings=preferredColorScheme={scheme}"),
            "--hide-scrollbars".to_owned(),
        ]
    }
}

/// The height of a frame that is looked at, and by how much the window is wider, in pixels.
const FRAME_HEIGHT: u32 = 600;
const BESIDE_FRAME: u32 = 800;

/// The page after its scripts have run.
pub(crate) fn in_browser(page: &str) -> String {
    let shown = run(page, &["--dump-dom".to_owned()]);
    assert!(!shown.is_empty(), "the browser shows nothing");
    shown
}

/// Writes a picture of the page to `path`; returns the page as [`in_browser`] does.
pub(crate) fn picture(page: &str, window: Window, path: &Path) -> String {
    let shoot = [format!("--screenshot={}", path.display())];
    run(page, &[window.flags(), shoot.to_vec()].concat());
    run(page, &[window.flags(), vec!["--dump-dom".to_owned()]].concat())
}

/// What the browser prints of the page with these flags.
fn run(page: &str, flags: &[String]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let output = BROWSERS.iter().find_map(|browser| open(browser, folder.path(), &path, flags));
    output.expect("this test opens a page in a browser: install Chromium (`scripts/need chromium`)")
}

fn open(browser: &str, folder: &Path, path: &Path, flags: &[String]) -> Option<String> {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(flags)
        .arg(format!("file://{}", path.display()))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{browser}: {said}");
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
    let style = format!("width:{width}px;height:{}px;border:0", FRAME_HEIGHT);
    let outer = format!(
        "<!DOCTYPE html><html><head><title></title></head>\
         <body><iframe style=\"{style}\" srcdoc=\"{page}\"></iframe></body></html>"
    );
    let window = Window { width: width + BESIDE_FRAME, height: 2 * FRAME_HEIGHT, is_dark: false };
    run(&outer, &[window.flags(), vec!["--dump-dom".to_owned()]].concat())
}

/// The page with such a script.
pub(crate) fn with_steps(page: &str, steps: &str) -> String {
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
