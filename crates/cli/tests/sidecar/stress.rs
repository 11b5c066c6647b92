//! Many at once who want nothing, or want it slowly, beside a few who want an answer.
