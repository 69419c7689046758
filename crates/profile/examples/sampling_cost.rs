//! Measures the cost of sampling without other work around it: an allocation and its release with
//! the plain allocator, with the sampling allocator switched off, and at the usual rate; and the
//! cost of one sample of an allocation and one of processor time.
//!
//! `cargo run --release -p pellucid-profile --example sampling_cost`
#![allow(clippy::print_stdout, reason = "it is a program that prints figures")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use pellucid_profile::{
    HERTZ_MAX, Profiler, SAMPLE_BYTES, SampledAllocator, USUAL_HERTZ, set_allocation_sampling,
};

const PAIRS: u64 = 5_000_000;
const ROUNDS: usize = 15;
/// Bytes of an allocation; close to the size that a request typically allocates.
const BYTES: usize = 256;
/// Mean bytes between two samples in the runs that measure the cost of one sample.
const OFTEN_BYTES: u64 = 8 << 10;
/// Steps of work in each round of the second part, which samples processor time.
const STEPS: u64 = 400_000_000;

/// The processor time of this thread, in nanoseconds.
fn cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn pairs(allocator: &impl GlobalAlloc) -> f64 {
    let layout = Layout::from_size_align(BYTES, 8).expect("it is a layout");
    let begun = cpu_ns();
    for _ in 0..PAIRS {
        // SAFETY: the layout is not empty, and the memory is given back as it was taken.
        unsafe {
            let memory = black_box(allocator.alloc(layout));
            allocator.dealloc(memory, layout);
        }
    }
    (cpu_ns() - begun) / PAIRS as f64
}

fn work() -> f64 {
    let begun = cpu_ns();
    let mut value = 1_u64;
    for step in 0..STEPS {
        value = black_box(value.wrapping_mul(3) ^ step);
    }
    black_box(value);
    cpu_ns() - begun
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() -> std::io::Result<()> {
    let sampled = SampledAllocator::new(System);
    let mut figures = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        figures[0].push(pairs(&System));
        set_allocation_sampling(0);
        figures[1].push(pairs(&sampled));
        set_allocation_sampling(SAMPLE_BYTES);
        figures[2].push(pairs(&sampled));
        set_allocation_sampling(OFTEN_BYTES);
        figures[3].push(pairs(&sampled));
    }
    set_allocation_sampling(0);
    let [bare, at_rest, usual, often] = figures.map(median);
    println!("an allocation of {BYTES} bytes and its end: {bare:.2} ns without sampling,");
    println!("{at_rest:.2} ns with none taken, {usual:.2} ns at one in {SAMPLE_BYTES} bytes");
    let sample_ns = (often - at_rest) * OFTEN_BYTES as f64 / BYTES as f64;
    println!("a sample of an allocation, and its end: {sample_ns:.0} ns");
    let (mut with, mut without, mut samples) = (Vec::new(), Vec::new(), 0_usize);
    for _ in 0..ROUNDS {
        without.push(work());
        let profiler = Profiler::start(HERTZ_MAX)?;
        let from_ns = Profiler::now_ns();
        with.push(work());
        samples += profiler.cpu(from_ns, u64::MAX).samples.len();
    }
    let (with, without) = (median(with), median(without));
    let of_round = samples as f64 / ROUNDS as f64;
    let each_ns = (with - without) / of_round;
    println!("a sample of processor time: {:.1} µs, by {of_round:.0} in a round", each_ns / 1e3);
    let share = each_ns * f64::from(USUAL_HERTZ) / 1e9;
    println!("at {USUAL_HERTZ} a second: {:.3} % of a busy thread's time", share * 100.0);
    Ok(())
}
