//! The decisions of vmpool: pure functions from an observed pool to a plan
