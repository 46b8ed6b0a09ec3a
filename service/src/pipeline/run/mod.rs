//! What happens to rows while a pipeline runs: a plan as a topology of the engine.
//!
//! Nothing is looked up by name here and no text is made but for an error: a step is a function over a row's values by index.
mod aggregate;
mod build;
mod decode;
mod dedup;
mod encode;
mod key_bytes;
mod rows;
mod stream;

pub(super) use build::topology;

use crate::expr::EvalError;
use keyfold::operator::{BadReason, Refused};

impl From<EvalError> for Refused {
    /// The reason is one of the engine's, which are what counters are labelled with.
    fn from(error: EvalError) -> Refused {
        let reason = match error.reason() {
            "overflow" => BadReason::Overflow,
            "division_by_zero" => BadReason::DivisionByZero,
            _ => BadReason::User,
        };
        Refused {
            reason,
            message: error.to_string(),
        }
    }
}
