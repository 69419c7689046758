//! Stacks in a program without frame pointers, the default of Rust's compiler on x86-64. On aarch64
//! it keeps them.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pellucid_thread::{
    Mutex, Registers, STACK_DEPTH_MAX, WaitKind, capture, capture_interrupted, contended,
    prepare_thread, sample_waits, set_holder_sampling, waits,
};

/// The environment variable of the run that was compiled without frame pointers.
const VARIABLE: &str = "PELLUCID_WITHOUT_FRAME_POINTERS";

/// Compiles this file without frame pointers, and runs it.
fn run_without_frame_pointers() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without_frame_pointers");
    let output = Command::new(env!("CARGO"))
        .args(["test", "-q", "--offline", "--test", "without_frame_pointers"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        // These replace all other flags, such as those of the workspace.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Cforce-frame-pointers=no")
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Releases a lock for which another thread waits, until a release was sampled.
fn contend() {
    sample_waits();
    set_holder_sampling(1);
    let lock = Mutex::new(());
    while contended().is_empty() {
        std::thread::scope(|scope| {
            let guard = lock.lock();
            scope.spawn(|| drop(lock.lock()));
            while !waits().iter().any(|wait| wait.kind == WaitKind::Lock) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(guard);
        });
    }
}

/// Regression: the value of the frame pointer's register, which is any in such a program, was taken
/// for the address of a frame. Three of four programs that embedded the engine ended with SIGSEGV.
#[test]
fn a_program_without_frame_pointers_has_no_stacks() {
    if std::env::var_os(VARIABLE).is_none() {
        return run_without_frame_pointers();
    }
    contend();
    assert!(contended().iter().all(|site| site.stack.is_empty()), "{:x?}", contended());
    prepare_thread();
    let mut frames = [0; STACK_DEPTH_MAX];
    assert_eq!(capture(&mut frames), 0, "{frames:x?}");
    // Words that look like a frame: the end of the chain, and a return address.
    let words = black_box([0_usize, 8_192]);
    let at = &raw const words as usize;
    let pc = a_program_without_frame_pointers_has_no_stacks as *const () as usize;
    let count = capture_interrupted(&Registers { pc, sp: at, fp: at }, &mut frames);
    assert_eq!(frames[..count], [pc], "only the program counter");
}
