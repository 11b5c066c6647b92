//! A limiter alone: yes or no for a group, an endpoint, a weight and a timeout, and nothing to settle.

use std::sync::Arc;
use std::time::Duration;

use outflow::core::{Cost, Limit};
use outflow::{AcquireOptions, Events, Group, Rules, SystemClock, Upstream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rules = Rules::unlimited();
    rules
        .groups
        .push(Group::new("quotation", vec![Limit::sliding("10/s".parse()?)]));
    rules
        .groups
        .push(Group::new("order", vec![Limit::sliding("12/s".parse()?)]));
    let upbit = Upstream::new("upbit", rules, Arc::new(SystemClock::new()), Events::new())?;
    let within = AcquireOptions::new().with_max_wait(Duration::from_millis(500));

    for (group, endpoint, weight) in [
        ("quotation", "ticker", 1),
        ("order", "place", 5),
        ("order", "cancel", 8),
    ] {
        let target = upbit.group(group).ok_or("no such group")?;
        let target = upbit.endpoint(target, endpoint).with_cost(Cost::new(weight));
        match upbit.take(target, within).await {
            Ok(()) => println!("{group}/{endpoint}: yes"),
            Err(refusal) => println!("{group}/{endpoint}: no, {refusal}"),
        }
    }

    for group in upbit.report().groups {
        for limit in &group.limits {
            let (usage, history) = (&limit.usage, &limit.history);
            println!(
                "{} {}: {} of {} used",
                group.name,
                limit.limit.rate(),
                usage.weight,
                usage.limit
            );
            println!(
                "  peak {}, recent windows {:?}, {:?}",
                usage.peak, history.windows, history.pattern
            );
        }
    }
    Ok(())
}
