//! Contract of every job store: one test for each law.
//!
//! A store is tested in a [`StoreWorld`]: it defines how time passes, virtual or real, and the
//! *unit*, the shortest span that the store measures reliably. Laws express time in units only, so
//! they also hold for a store whose clock runs in another process.
//!
//! `contract!(run)` makes a test of every law; `run` takes an async closure over a world and runs
//! it on a fresh store.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use outflow_core::WallTime;
use outflow_store::{
    ActionSpec, AllowAll, BatchPosition, ClaimRequest, ClaimedJob, JobEnd, JobStore, Name, NewJob,
    SettleResult, Settlement, SubmitBatch, SubmitReceipt, SubmitResult,
};

pub(crate) mod actions;
pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod job_counts;
pub(crate) mod lease;
pub(crate) mod operator;
pub(crate) mod settle;
pub(crate) mod submit;
pub(crate) mod tenant_rules;

/// Fresh store and its time.
pub(crate) trait World {
    /// Type of the store.
    type Store: JobStore;

    /// Returns the store.
    fn store(&self) -> &Self::Store;

    /// Returns the shortest span that the store measures reliably.
    fn unit(&self) -> Duration;

    /// Returns the wall time of the store.
    fn wall(&self) -> WallTime;

    /// Lets time pass.
    fn pass(&self, span: Duration) -> impl Future<Output = ()>;
}

/// Makes a valid name.
pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Makes a job of a tenant in the lane `mail`, with its name as payload.
pub(crate) fn job(tenant: &str, id: &str) -> NewJob {
    let mut job = NewJob::new(name(tenant), name("mail"), Bytes::from(id.to_owned()));
    job.id = Some(name(id));
    job
}

/// Makes jobs of a tenant, named `tenant-0` and so on.
pub(crate) fn jobs(tenant: &str, count: u32) -> Vec<NewJob> {
    (0..count)
        .map(|number| job(tenant, &format!("{tenant}-{number}")))
        .collect()
}

/// Makes a batch of an action.
pub(crate) fn batch(action: &str, jobs: Vec<NewJob>) -> SubmitBatch {
    SubmitBatch {
        action: Some(ActionSpec::new(name(action))),
        ..SubmitBatch::from_jobs(jobs)
    }
}

/// Makes the last batch of an action.
pub(crate) fn last(action: &str, jobs: Vec<NewJob>) -> SubmitBatch {
    SubmitBatch {
        rest: BatchPosition::Last,
        ..batch(action, jobs)
    }
}

/// Submits jobs without an action, all of which must be accepted.
pub(crate) async fn submit(store: &impl JobStore, jobs: Vec<NewJob>) -> SubmitResult {
    let submitted = store
        .submit(SubmitBatch::from_jobs(jobs))
        .await
        .expect("submitted");
    let taken = |receipt: &SubmitReceipt| matches!(receipt, SubmitReceipt::Accepted { .. });
    assert!(submitted.receipts.iter().all(taken), "{submitted:?}");
    submitted
}

/// Makes a request of the session `worker`, under a lease that outlives the test.
pub(crate) fn ask(most: usize) -> ClaimRequest {
    ask_as("worker", most, Duration::from_hours(1))
}

/// Makes a request of a session.
pub(crate) fn ask_as(session: &str, most: usize, lease: Duration) -> ClaimRequest {
    ClaimRequest {
        lane: name("mail"),
        session: name(session),
        most,
        lease,
        recoveries: 2,
        plan: None,
    }
}

/// Claims for the session `worker`.
pub(crate) async fn claim(store: &impl JobStore, most: usize) -> Vec<ClaimedJob> {
    let claims = store.claim(ask(most), &mut AllowAll).await;
    claims.expect("claimed").jobs
}

/// Claims exactly one job for the session `worker`.
pub(crate) async fn claim_one(store: &impl JobStore) -> ClaimedJob {
    let mut jobs = claim(store, 1).await;
    assert_eq!(jobs.len(), 1, "one job was to be had");
    jobs.remove(0)
}

/// Settles claims of the session `worker` with one kind of end.
pub(crate) async fn settle_all(
    store: &impl JobStore,
    jobs: &[ClaimedJob],
    end: JobEnd,
) -> Vec<SettleResult> {
    let ends = jobs.iter().map(|job| Settlement {
        token: job.token,
        end: end.clone(),
    });
    let settled = store.settle(&name("worker"), ends.collect()).await;
    settled.expect("settled")
}

/// Settles one claim of the session `worker`.
pub(crate) async fn settle(store: &impl JobStore, job: &ClaimedJob, end: JobEnd) -> SettleResult {
    settle_all(store, std::slice::from_ref(job), end).await[0]
}

/// Makes an end: done in a millisecond, without a stored result.
pub(crate) fn done() -> JobEnd {
    JobEnd::Done {
        took: Duration::from_millis(1),
        result: None,
    }
}

/// Returns the names of claimed jobs.
pub(crate) fn ids(jobs: &[ClaimedJob]) -> Vec<String> {
    jobs.iter().map(|job| job.id.to_string()).collect()
}

/// Makes a test of every law.
macro_rules! contract {
    ($run:ident) => {
        contract!(@laws $run, submit:
            a_batch_is_taken_in_order_and_told_its_places
            a_name_that_is_known_is_a_duplicate_and_changes_nothing
            a_name_twice_in_one_batch_is_taken_once
            a_finished_job_is_known_as_long_as_it_was_said
            a_job_without_a_name_gets_one_of_its_own
            nothing_is_taken_beyond_the_bound
            an_empty_batch_changes_nothing
            a_closed_action_takes_no_more_jobs
            a_batch_opens_its_action_as_it_says
            an_open_action_stays_as_it_was_opened
            a_batch_of_known_jobs_leaves_an_action_that_is_over_as_it_was
            a_new_job_begins_an_action_that_is_over_anew
            a_cancelled_action_begins_anew_with_a_new_job
            a_full_queue_opens_no_action
            a_batch_without_jobs_opens_and_closes
            a_full_queue_leaves_the_action_open_for_the_rest
            waiting_for_a_change_ends_with_a_submission
        );
        contract!(@laws $run, claim:
            tenants_take_turns_whatever_their_backlogs
            thousands_of_one_do_not_delay_ten_of_another
            weights_share_a_lane_as_they_say
            a_tenant_of_high_priority_gets_four_times_as_much
            classes_of_one_tenant_share_sixteen_to_four_to_one
            a_long_line_keeps_its_order
            lanes_do_not_meet
            a_claim_carries_all_that_was_submitted
            the_gate_is_asked_in_order_and_obeyed
            a_parked_tenant_lets_others_pass_and_returns_in_time
            a_job_does_not_begin_before_its_time
            a_job_past_its_deadline_ends_as_expired
            no_more_than_a_tenants_bound_are_under_way
            no_two_claims_have_the_same_number
        );
        contract!(@laws $run, settle:
            a_done_job_is_gone_and_counted
            a_retry_waits_and_then_stands_before_later_jobs
            a_job_out_of_retries_is_buried_with_its_history
            what_came_of_the_last_try_is_kept
            a_final_failure_is_buried_at_once
            a_refused_job_returns_to_the_head_and_uses_no_retry
            a_refusal_of_the_lane_stops_everybody
            a_returned_job_was_never_claimed
            an_interrupted_job_keeps_its_attempt
            a_failure_that_is_put_off_uses_a_retry
            a_fixed_put_off_waits_as_long_as_it_says
            the_formula_puts_off_by_how_many_are_put_off
            a_claim_settles_once
            settlements_of_one_call_are_answered_in_order
        );
        contract!(@laws $run, lease:
            a_beat_keeps_a_session_alive
            a_lost_session_is_fenced_and_its_jobs_return_first
            a_job_that_kills_its_workers_is_buried
            an_attempt_that_a_worker_lived_through_clears_its_job
            a_job_buried_with_its_worker_tells_why
            reaping_takes_no_more_than_it_is_told
            a_job_that_is_too_late_ends_though_its_line_stands_still
            what_a_session_never_heard_of_goes_back_as_it_was
            a_session_that_never_claimed_is_lost
            one_session_cannot_settle_for_another
        );
        contract!(@laws $run, actions:
            an_action_moves_through_its_stages
            an_action_ends_only_after_it_was_closed
            an_end_is_ripe_until_it_was_told
            an_end_is_given_to_one_who_tells_it
            an_action_that_takes_too_long_fails_and_cancels_the_rest
            an_end_waits_for_what_a_dead_worker_had
            a_cancelled_action_is_ripe_when_nothing_of_it_is_open
            an_end_that_was_told_is_told_once_whatever_its_letters_do
            a_cancellation_changes_no_end_that_is_to_be_told
            the_name_of_an_action_that_is_over_can_be_opened_again
            outcomes_come_in_order_with_what_was_kept
            an_action_counts_its_own_jobs_only
            closing_what_nobody_opened_is_refused
            actions_are_listed_by_name
            what_an_action_has_left_is_told_by_place
        );
        contract!(@laws $run, operator:
            a_paused_tenant_waits_and_others_go_on
            an_action_tells_how_many_stopped_tenants_hold_it_up
            a_paused_action_does_not_hold_its_tenants_other_jobs
            released_jobs_stand_in_line_again
            a_rule_is_kept_and_told
            dead_letters_are_listed_and_revived_as_if_never_tried
            purged_letters_stay_counted_as_failed
            a_revived_job_does_not_reopen_its_action
            a_revived_job_leaves_an_end_that_is_being_told_as_it_is
            a_revived_job_counts_in_an_action_that_goes_on
            a_revived_job_has_one_outcome_in_an_action_that_goes_on
            statistics_are_forgotten_but_not_while_jobs_are_put_off
            snapshots_tell_how_congested_a_tenant_was
            tidying_forgets_what_is_too_old
        );
        contract!(@laws $run, cancel:
            cancelling_a_tenant_ends_what_has_not_begun
            nothing_of_a_cancelled_tenant_goes_again_wherever_it_was
            what_a_pause_held_of_a_cancelled_tenant_ends
            a_tenant_that_was_refused_waits_although_its_jobs_were_cancelled
            cancelling_an_action_ends_only_its_own_jobs
            a_cancelled_job_under_way_does_not_begin_again
            what_came_of_a_cancelled_job_under_way_is_kept
            what_ends_late_counts_for_no_other_action_of_the_name
            a_cancellation_that_two_ask_for_counts_once
        );
        contract!(@laws $run, tenant_rules:
            the_usual_bound_holds_for_whoever_has_no_rule
            the_usual_bound_holds_for_jobs_that_wait_already
            the_usual_weight_counts_against_an_own_one
            an_own_rule_wins_whichever_was_set_first
            a_rule_that_was_taken_away_gives_way_to_the_usual
            a_rule_is_kept_for_a_tenant_without_jobs
        );
        contract!(@laws $run, job_counts:
            every_job_is_in_exactly_one_part
            a_tenant_is_active_while_it_has_work
            a_tenant_begins_its_counts_anew_when_it_has_work_again
            lanes_with_work_are_told
            tenants_are_listed_by_name
        );
    };
    (@laws $run:ident, $suite:ident: $($law:ident)+) => {
        mod $suite {
            $(
                #[test]
                fn $law() {
                    super::$run(async |world| crate::contract::$suite::$law(world).await);
                }
            )+
        }
    };
}
