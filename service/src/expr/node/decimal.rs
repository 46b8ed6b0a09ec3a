//! Exact arithmetic on unscaled values, in i128.
use std::io::Write;

use crate::value::{DECIMAL_DIGITS_MAX, Type};

/// 10 to the power of the digits, of which a decimal has at most 18; that of 18 for more.
pub(in crate::expr) fn pow10(digits: u8) -> i64 {
    10_i64.pow(u32::from(digits.min(DECIMAL_DIGITS_MAX)))
}

/// Where a value goes that lies between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::expr) enum Rounding {
    /// To the nearer; a half away from zero.
    Half,
    Down,
    Up,
}

/// `value / divisor`, rounded. The divisor is above 0.
pub(in crate::expr) fn divide(value: i128, divisor: i128, rounding: Rounding) -> i128 {
    match rounding {
        Rounding::Down => value.div_euclid(divisor),
        Rounding::Up => value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) != 0),
        Rounding::Half => quotient(value, divisor),
    }
}

/// `value / divisor`, a half away from zero. The divisor is not 0, and at most 2^64 in size.
pub(in crate::expr) fn quotient(value: i128, divisor: i128) -> i128 {
    // The one case that overflows is i128::MIN / -1; no value here comes near it.
    let cut = value.wrapping_div(divisor);
    let rest = value.wrapping_rem(divisor);
    let away = rest.unsigned_abs() * 2 >= divisor.unsigned_abs();
    match (away, (value < 0) == (divisor < 0)) {
        (false, _) => cut,
        (true, true) => cut + 1,
        (true, false) => cut - 1,
    }
}

/// A float as an unscaled value of this scale, a half away from zero: what its shortest text says, so that 1.005 is 1.01 with two digits. None
/// if it is infinite or NaN, or beyond an i64.
pub(in crate::expr) fn float_to_decimal(value: f64, scale: u8) -> Option<i64> {
    if !value.is_finite() {
        return None;
    }
    // At most `-1.2345678901234567e-308`.
    let mut text = [0_u8; 32];
    let mut rest = text.as_mut_slice();
    write!(rest, "{value:e}").ok()?;
    let left = rest.len();
    let text = std::str::from_utf8(&text[..text.len() - left]).ok()?;
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str, from: i128| {
        part.bytes()
            .filter(u8::is_ascii_digit)
            .fold(from, |n, b| n * 10 + i128::from(b - b'0'))
    };
    let significand = digits(fraction, digits(whole, 0));
    let significand = if value < 0.0 { -significand } else { significand };
    let shift = i32::from(scale) + exponent - i32::try_from(fraction.len()).ok()?;
    let power = |n: i32| 10_i128.checked_pow(n.unsigned_abs());
    let unscaled = if shift >= 0 {
        if significand == 0 {
            0
        } else {
            significand.checked_mul(power(shift)?)?
        }
    } else {
        // Beyond 10^38 nothing of 17 digits is left.
        power(shift).map_or(0, |divisor| quotient(significand, divisor))
    };
    i64::try_from(unscaled).ok()
}

/// Digits before and behind the point that values of a number's type have at most.
pub(in crate::expr) fn decimal_digits(ty: &Type) -> (u8, u8) {
    match ty {
        Type::Decimal { precision, scale } => (precision.saturating_sub(*scale), *scale),
        // Those of i64::MAX.
        _ => (19, 0),
    }
}

/// The average of what adds up to `sum`, with so many digits more behind the point. None if it is beyond an i64: none is, of values that are not.
pub(in crate::expr) fn mean(sum: i128, count: i64, more_digits: u8) -> Option<i64> {
    let (count, up) = (i128::from(count), i128::from(pow10(more_digits)));
    if count == 0 {
        return None;
    }
    // The rest apart, since the sum times a power of ten may be beyond an i128.
    let rest = quotient(sum.wrapping_rem(count) * up, count);
    i64::try_from(sum.wrapping_div(count).checked_mul(up)? + rest).ok()
}
