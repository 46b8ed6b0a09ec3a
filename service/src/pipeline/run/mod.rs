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

pub(crate) use aggregate::AGGREGATES_SCHEMA;
pub(super) use build::topology;

use crate::expr::EvalError;
use keyfold::operator::{BadReason, Refused};

impl From<EvalError> for Refused {
    fn from(error: EvalError) -> Refused {
        refused(error.reason(), error.to_string())
    }
}

fn refused(reason: BadReason, message: impl Into<String>) -> Refused {
    Refused {
        reason,
        message: message.into(),
    }
}
