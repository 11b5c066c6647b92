//! Settings of the health machine that are a choice between rules.

named_enum! {
    /// State that follows Throttle when calls succeed again.
    pub enum ThrottleExit {
        /// Full speed: calls that pass in Throttle are probes already.
        Normal = "normal",
        /// Probes.
        HalfOpen = "half_open",
    }
}

named_enum! {
    /// Duration of a Sleep without a server's time.
    pub enum CooldownRule {
        /// Grows by `cooldown_factor` with each failed recovery.
        Doubling = "doubling",
        /// A share of the time since Normal was left.
        Share = "share",
    }
}

named_enum! {
    /// Time that a probe is given.
    pub enum ProbePatience {
        /// `probe_timeout`.
        Fixed = "fixed",
        /// Three times the usual latency, at least two seconds and at most `probe_timeout`. A good
        /// response that comes later ends the Sleep.
        Latency = "latency",
    }
}

named_enum! {
    /// Instant of a probe.
    pub enum ProbeInstant {
        /// Its failure.
        Failure = "failure",
        /// Its sending: a probe that hangs does not add its timeout to the Sleep.
        Sending = "sending",
    }
}

named_enum! {
    /// Outages after which the rate grows by a ramp.
    pub enum RampRule {
        /// All that end with probes.
        Always = "always",
        /// Those that began with throttled calls: after others the rate was not the cause.
        Throttles = "throttles",
        /// None.
        Never = "never",
    }
}

named_enum! {
    /// Target of a transition from Normal after failures.
    pub enum Escalation {
        /// To a reduced rate.
        Throttle = "throttle",
        /// To a full stop, as a circuit breaker does.
        Sleep = "sleep",
    }
}
