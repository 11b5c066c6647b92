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
    ActionSpec, AllowAll, BatchPosition, ClaimRequest, ClaimedJob, JobEnd, JobStore, Name, NewJob, SettleResult,
    Settlement, SubmitBatch, SubmitReceipt, SubmitResult,
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
pub(crate) trait StoreWorld {
    /// Type of the store.
    type Store: JobStore;

    /// Returns the store.
    fn store(&self) -> &Self::Store;

    /// Returns the shortest span that the store measures reliably.
    fn unit(&self) -> Duration;

    /// Returns the wall time of the store.
    fn wall_time(&self) -> WallTime;

    /// Lets time pass.
    fn advance(&self, span: Duration) -> impl Future<Output = ()>;
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
    let submitted = store.submit(SubmitBatch::from_jobs(jobs)).await.expect("submitted");
    let taken = |receipt: &SubmitReceipt| matches!(receipt, SubmitReceipt::Accepted { .. });
    assert!(submitted.receipts.iter().all(taken), "{submitted:?}");
    submitted
}

/// Makes a request of the session `worker`, under a lease that outlives the test.
pub(crate) fn claim_request(most: usize) -> ClaimRequest {
    claim_request_as("worker", most, Duration::from_hours(1))
}

/// Makes a request of a session.
pub(crate) fn claim_request_as(session: &str, most: usize, lease: Duration) -> ClaimRequest {
    ClaimRequest {
        lane: name("mail"),
        session: name(session),
        max: most,
        lease,
        recoveries: 2,
        limits: None,
        cost: None,
    }
}

/// Claims for the session `worker`.
pub(crate) async fn claim(store: &impl JobStore, most: usize) -> Vec<ClaimedJob> {
    let claims = store.claim(claim_request(most), &mut AllowAll).await;
    claims.expect("claimed").jobs
}

/// Claims exactly one job for the session `worker`.
pub(crate) async fn claim_one(store: &impl JobStore) -> ClaimedJob {
    let mut jobs = claim(store, 1).await;
    assert_eq!(jobs.len(), 1, "one job was to be had");
    jobs.remove(0)
}

/// Settles claims of the session `worker` with one kind of end.
pub(crate) async fn settle_all(store: &impl JobStore, jobs: &[ClaimedJob], end: JobEnd) -> Vec<SettleResult> {
    let ends = jobs.iter().map(|job| Settlement {
        token: job.token,
        end: end.clone(),
        arrived: None,
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
            a_batch_keeps_its_order_and_returns_its_places
            a_known_name_is_a_duplicate_and_changes_nothing
            a_name_twice_in_one_batch_is_accepted_once
            a_finished_job_name_is_remembered_for_its_retention
            a_job_without_a_name_gets_a_unique_one
            no_job_is_accepted_beyond_the_queue_bound
            an_empty_batch_changes_nothing
            a_closed_action_accepts_no_more_jobs
            a_batch_opens_its_action_with_its_spec
            an_open_action_keeps_its_spec
            a_batch_of_known_jobs_does_not_change_a_finished_action
            a_new_job_reopens_a_finished_action
            a_new_job_reopens_a_cancelled_action
            a_full_queue_opens_no_action
            a_batch_without_jobs_opens_and_closes
            a_full_queue_leaves_the_action_open_for_the_rest
            waiting_for_a_change_ends_with_a_submission
        );
        contract!(@laws $run, claim:
            tenants_take_turns_with_any_backlogs
            thousands_of_jobs_do_not_delay_ten_of_another_tenant
            a_claim_for_one_cost_hands_out_no_other
            weights_divide_a_lane
            a_high_priority_tenant_gets_four_times_the_turns
            classes_of_one_tenant_share_sixteen_to_four_to_one
            a_long_queue_keeps_its_order
            lanes_are_independent
            a_claim_carries_every_submitted_field
            the_filter_is_asked_in_order_and_obeyed
            a_parked_tenant_lets_others_pass_and_returns_in_time
            a_job_does_not_start_before_its_time
            a_job_past_its_deadline_ends_as_expired
            no_tenant_exceeds_its_in_flight_bound
            claim_numbers_are_unique
        );
        contract!(@laws $run, settle:
            a_done_job_leaves_the_queue_and_is_counted
            a_retry_waits_and_then_goes_before_later_jobs
            a_job_out_of_retries_is_dead_lettered_with_its_history
            the_result_of_the_last_attempt_is_stored
            a_job_that_the_api_failed_keeps_its_place_and_its_retries
            a_job_that_the_api_failed_ends_with_its_cancelled_action
            a_final_failure_is_dead_lettered_at_once
            a_throttled_job_returns_to_the_head_and_uses_no_retry
            a_throttled_lane_stops_all_tenants
            a_returned_job_is_as_if_never_claimed
            an_interrupted_job_keeps_its_attempt
            a_deferred_failure_uses_a_retry
            a_fixed_deferral_waits_for_its_span
            the_formula_defers_by_the_number_of_deferred_jobs
            the_formula_uses_the_lower_speed
            a_claim_settles_once
            settlements_of_one_call_are_answered_in_order
        );
        contract!(@laws $run, lease:
            a_heartbeat_keeps_a_session_alive
            a_lost_session_is_fenced_and_its_jobs_return_first
            a_job_that_kills_its_workers_is_dead_lettered
            a_survived_attempt_clears_its_job
            a_job_lost_with_its_worker_has_an_error
            reaping_respects_its_limit
            an_expired_job_ends_in_a_blocked_queue
            claims_a_session_never_received_return_unchanged
            a_session_that_never_claimed_is_lost
            one_session_cannot_settle_for_another
        );
        contract!(@laws $run, actions:
            an_action_moves_through_its_stages
            an_action_ends_only_after_it_was_closed
            a_finished_action_is_returned_until_notified
            a_finished_action_is_leased_to_one_caller
            an_action_past_its_timeout_fails_and_cancels_the_rest
            an_action_times_out_after_its_last_progress
            a_paused_action_does_not_time_out
            a_paused_tenant_stops_the_timeout
            a_cancelled_job_can_be_submitted_again
            an_action_ends_after_the_claims_of_a_dead_worker
            a_cancelled_action_finishes_without_open_jobs
            a_notified_action_stays_notified_after_requeues_and_purges
            a_cancellation_does_not_change_a_finished_action
            a_finished_action_can_be_opened_again
            outcomes_come_in_order_with_their_results
            an_action_counts_its_own_jobs_only
            closing_an_unknown_action_is_refused
            actions_are_listed_by_name
            remaining_work_is_listed_by_lane_and_tenant
            remaining_work_counts_the_jobs_before_the_last_one
            remaining_work_knows_small_and_urgent_actions
            remaining_work_knows_the_end_of_a_retry
        );
        contract!(@laws $run, operator:
            a_paused_tenant_waits_and_others_continue
            an_action_counts_the_paused_tenants_that_hold_it_up
            a_paused_action_does_not_block_its_tenants_other_jobs
            released_jobs_are_queued_again
            a_rule_is_stored_and_reported
            dead_letters_are_listed_and_requeued_as_new
            purged_letters_stay_counted_as_failed
            a_requeued_job_counts_in_its_completed_action
            a_requeued_job_delays_the_end_of_its_action
            a_requeued_job_counts_in_an_open_action
            a_requeued_job_has_one_outcome_in_an_open_action
            statistics_are_reset_only_without_deferred_jobs
            samples_record_the_congestion_of_a_tenant
            one_caller_takes_the_samples_of_an_interval
            a_tenant_reports_its_lanes_and_a_lane_its_tenants
            garbage_collection_removes_old_data
        );
        contract!(@laws $run, cancel:
            cancelling_a_tenant_ends_its_waiting_jobs
            no_job_of_a_cancelled_tenant_starts_again
            held_jobs_of_a_cancelled_tenant_end
            a_cooldown_outlives_the_cancelled_jobs_of_its_tenant
            cancelling_an_action_ends_only_its_own_jobs
            a_cancelled_job_in_flight_does_not_start_again
            the_result_of_a_cancelled_job_in_flight_is_stored
            a_late_end_does_not_count_for_a_new_action_of_the_name
            two_concurrent_cancellations_count_each_job_once
        );
        contract!(@laws $run, tenant_rules:
            the_default_bound_applies_without_an_own_rule
            the_default_bound_applies_to_waiting_jobs
            the_default_weight_counts_against_an_own_one
            an_own_rule_wins_in_any_order
            a_removed_rule_gives_way_to_the_default
            a_rule_is_kept_for_a_tenant_without_jobs
        );
        contract!(@laws $run, job_counts:
            every_job_is_in_exactly_one_state
            a_tenant_is_active_while_it_has_work
            an_idle_tenant_restarts_its_counts_with_new_work
            lanes_with_work_are_listed
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
