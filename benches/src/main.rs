//! Measures ours and its peers in one run, and says who lost.
mod alloc;
mod clock;
mod contenders;
mod figure;
mod figures;
mod measure;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() {
    println!(
        "{}",
        figure::table(&figures::designs::figures(measure::Plan::FULL))
    );
}
