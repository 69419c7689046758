//! A browser for tests: it shows pages, runs scripts in them, and takes pictures.

use std::path::Path;
use std::process::Command;

/// The names of the browser's program, in the order in which they are tried.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The window in which a page is shown.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
}

impl Window {
    fn flags(self) -> Vec<String> {
        // Blink's numbers for the preferred colour scheme.
        let scheme = if self.is_dark { 0 } else { 1 };
        vec![
            format!("--window-size={},{}", self.width, self.height),
            format!("--blink-settings=preferredColorScheme={scheme}"),
            "--hide-scrollbars".to_owned(),
        ]
    }
}

/// The height of the frame for [`after_sized`], and the additional width of its window, in pixels.
const FRAME_HEIGHT: u32 = 600;
const BESIDE_FRAME: u32 = 800;

/// Returns the page after its scripts have run.
pub(crate) fn in_browser(page: &str) -> String {
    let shown = run(page, &["--dump-dom".to_owned()]);
    assert!(!shown.is_empty(), "the browser shows nothing");
    shown
}

/// Returns the page as [`in_browser`] does, in a given window.
pub(crate) fn in_window(page: &str, window: Window) -> String {
    run(page, &[window.flags(), vec!["--dump-dom".to_owned()]].concat())
}

/// Writes a picture of the page to `path`.
pub(crate) fn picture(page: &str, window: Window, path: &Path) {
    run(page, &[window.flags(), vec![format!("--screenshot={}", path.display())]].concat());
}

/// Returns the output of the browser for the page, with these flags.
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

/// Returns the page after `steps`, a script that does what a reader would do. The page's policy
/// would forbid it, and is removed.
pub(crate) fn after(page: &str, steps: &str) -> String {
    in_browser(&with_steps(page, steps))
}

/// The same with a given width, in a frame, because no window is as narrow as a telephone. Only the
/// title of the result is that of the page.
pub(crate) fn after_sized(page: &str, steps: &str, width: u32) -> String {
    let page = with_steps(page, &format!("{steps} parent.document.title = document.title;"));
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let style = format!("width:{width}px;height:{}px;border:0", FRAME_HEIGHT);
    let outer = format!(
        "<!DOCTYPE html><html><head><title></title></head>\
         <body><iframe style=\"{style}\" srcdoc=\"{page}\"></iframe></body></html>"
    );
    let window = Window { width: width + BESIDE_FRAME, height: 2 * FRAME_HEIGHT, is_dark: false };
    in_window(&outer, window)
}

/// The page with a script at its end, and without its policy.
pub(crate) fn with_steps(page: &str, steps: &str) -> String {
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find("/>").unwrap() + 2;
    let script = format!("<script>{steps}</script></body>");
    format!("{}{}", &page[..policy], &page[end..]).replace("</body>", &script)
}

/// The title of a page that was shown; scripts report their results in it.
pub(crate) fn title_of(shown: &str) -> &str {
    let title = shown.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.expect("a page has a title")
}
