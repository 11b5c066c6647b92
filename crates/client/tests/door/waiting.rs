//! Turns, deadlines and refusals.

use outflow::core::{Cost, Decision, Priority};
use outflow::{Cause, Group, Mode, Why};

use crate::support::{World, by_sending, ms, rules, secs};

// Two a second: the third waits until the first is a second old, to the nanosecond.
#[test]
fn the_next_goes_when_the_oldest_has_left_the_window() {
    let world = World::new(rules(vec![by_sending("2/s")]));
    let _permits = [
        world.caller(world.ask()).admitted(),
        world.caller(world.ask()).admitted(),
    ];
    let mut third = world.waiting(world.ask());
    world.pass(ms(999));
    assert!(!third.is_woken() && third.poll().is_none());
    world.pass(ms(1));
    assert!(third.is_woken());
    assert_eq!(third.admitted().waited(), secs(1));
}

// A cost of 11 never fits 10 a second, whether or not somebody waits.
#[test]
fn a_cost_above_the_limit_is_refused_for_good() {
    let world = World::new(rules(vec![by_sending("10/s")]));
    let heavy = outflow::Ask::new(world.group("default").costing(Cost::new(11)));
    let refusal = world.door.try_admit(heavy).expect_err("never");
    assert!(matches!(refusal.cause, Cause::Never { .. }), "{refusal:?}");
    assert_eq!(world.door.check(heavy), Decision::Never);
    let _all = world
        .caller(outflow::Ask::new(
            world.group("default").costing(Cost::new(10)),
        ))
        .admitted();
    let _waits = world.waiting(world.ask());
    let refusal = world.caller(heavy).refused();
    assert!(matches!(refusal.cause, Cause::Never { .. }), "{refusal:?}");
}
