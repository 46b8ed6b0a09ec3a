//! The five operators on int64 and float64. Nothing wraps around and nothing panics: what does not fit is None.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::expr) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    /// Of int64: `/` cuts toward zero, `%` has the sign of the left side. None: overflow; the right side of `/` and `%` is not 0.
    #[inline]
    pub fn longs(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            Arithmetic::Divide => left.checked_div(right),
            // i64::MIN % -1 is 0, although the division overflows.
            Arithmetic::Remainder => Some(left.wrapping_rem(right)),
        }
    }

    /// Of float64. None: finite operands, and a result that is not.
    #[inline]
    pub fn floats(self, left: f64, right: f64) -> Option<f64> {
        let result = match self {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide => left / right,
            Arithmetic::Remainder => left % right,
        };
        let sound = result.is_finite() || !left.is_finite() || !right.is_finite();
        sound.then_some(result)
    }

    /// Whether 0 on the right is an error of its own.
    #[inline]
    pub fn divides(self) -> bool {
        matches!(self, Arithmetic::Divide | Arithmetic::Remainder)
    }
}
