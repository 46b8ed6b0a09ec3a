//! Decimals as text: exact, from and to an unscaled integer.
use std::fmt;

use super::DECIMAL_DIGITS_MAX;

/// Why a text is no decimal of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecimalError {
    /// It is not the text of a number.
    NotANumber,
    /// It has digits other than zero behind those that the scale has room for.
    Scale(u8),
    /// It has more digits than the precision.
    Precision(u8),
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecimalError::NotANumber => f.write_str("not a number"),
            DecimalError::Scale(0) => f.write_str("digits behind the point, the type has none"),
            DecimalError::Scale(scale) => write!(f, "more than {scale} digits behind the point"),
            DecimalError::Precision(precision) => write!(f, "more digits than the {precision} of its type"),
        }
    }
}

/// The unscaled value of a number's text in decimal(precision,scale): `12.5` is 1250 in decimal(18,2), and so is `1.25e1`.
/// Nothing is rounded.
///
/// # Errors
/// The text is no number, or does not fit.
pub fn parse_decimal(text: &str, precision: u8, scale: u8) -> Result<i64, DecimalError> {
    let number = Number::read(text.as_bytes()).ok_or(DecimalError::NotANumber)?;
    if number.digits == 0 {
        return Ok(0);
    }
    let shift = i64::from(scale) + number.exponent;
    if shift < 0 {
        return Err(DecimalError::Scale(scale));
    }
    let precision = precision.min(DECIMAL_DIGITS_MAX);
    if number.digits.saturating_add(shift) > i64::from(precision) {
        return Err(DecimalError::Precision(precision));
    }
    // At most 18 digits: neither the power nor the product overflows.
    let unscaled = (0..shift).fold(number.significand, |value, _| value * 10);
    Ok(if number.negative { -unscaled } else { unscaled })
}

/// A number as its significant digits times a power of ten.
#[derive(Default)]
struct Number {
    negative: bool,
    /// Without zeros at its ends; complete only while `digits` is at most 18.
    significand: i64,
    /// Digits of the significand.
    digits: i64,
    /// Power of ten of the significand's last digit.
    exponent: i64,
    /// Zeros after the significand that the next digit makes part of it.
    zeros: i64,
}

impl Number {
    fn read(text: &[u8]) -> Option<Number> {
        let mut number = Number::default();
        let mut rest = match text {
            [b'-', rest @ ..] => {
                number.negative = true;
                rest
            }
            [b'+', rest @ ..] => rest,
            _ => text,
        };
        let whole = number.read_digits(&mut rest);
        let mut fraction = 0;
        if let [b'.', after @ ..] = rest {
            rest = after;
            fraction = number.read_digits(&mut rest);
            if fraction == 0 {
                return None;
            }
        }
        if whole == 0 {
            return None;
        }
        number.exponent = number.zeros - fraction + read_exponent(rest)?;
        Some(number)
    }

    /// Takes digits from the front; how many.
    fn read_digits(&mut self, rest: &mut &[u8]) -> i64 {
        let mut count = 0;
        while let [digit @ b'0'..=b'9', after @ ..] = *rest {
            self.push(i64::from(digit - b'0'));
            count += 1;
            *rest = after;
        }
        count
    }

    fn push(&mut self, digit: i64) {
        if digit == 0 {
            // Zeros before the first digit mean nothing but their place.
            self.zeros += i64::from(self.digits > 0);
            return;
        }
        self.digits += self.zeros + 1;
        if self.digits <= i64::from(DECIMAL_DIGITS_MAX) {
            for _ in 0..=self.zeros {
                self.significand *= 10;
            }
            self.significand += digit;
        }
        self.zeros = 0;
    }
}

/// Beyond this an exponent says no more than that the number does not fit; the texts that are read are shorter.
const EXPONENT_MAX: i64 = 1 << 40;

/// The exponent at the end of a number; 0 if there is none.
fn read_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'e' | b'E', b'-', digits @ ..] => (true, digits),
        [b'e' | b'E', b'+', digits @ ..] | [b'e' | b'E', digits @ ..] => (false, digits),
        _ => return None,
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        exponent = (exponent * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX);
    }
    Some(if negative { -exponent } else { exponent })
}

/// Writes an unscaled value as a number with `scale` digits behind the point: 1250 with scale 2 is `12.50`.
pub fn write_decimal(unscaled: i64, scale: u8, out: &mut Vec<u8>) {
    // The 19 digits of an i64 and a point, or 18 zeros before the first digit: from the end.
    let mut text = [0; 24];
    let mut at = text.len();
    let mut rest = unscaled.unsigned_abs();
    let mut written = 0;
    while rest > 0 || written <= scale {
        if written == scale && scale > 0 {
            at -= 1;
            text[at] = b'.';
        }
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        written += 1;
    }
    if unscaled < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn reads(text: &str, scale: u8, unscaled: i64) {
        assert_eq!(parse_decimal(text, 18, scale), Ok(unscaled), "{text}");
    }

    #[test]
    fn a_decimal_is_exact_however_its_number_is_written() {
        reads("12.5", 2, 1250);
        reads("-12.50", 2, -1250);
        reads("1.5e2", 2, 15000);
        reads("150E-2", 2, 150);
        reads("0.010000000000000000000000", 2, 1);
        reads("1000e-3", 0, 1);
        reads("0e99999999999999999999", 2, 0);
        reads("-0.000", 2, 0);
        reads("0.000000000000000001", 18, 1);
        reads("999999999999999999", 0, 999_999_999_999_999_999);
        reads("0.00001e5", 0, 1);
        reads("007", 0, 7);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_never_rounded() {
        assert_eq!(parse_decimal("12.345", 18, 2), Err(DecimalError::Scale(2)));
        assert_eq!(parse_decimal("1e-3", 18, 2), Err(DecimalError::Scale(2)));
        assert_eq!(
            parse_decimal("0.1234567890123456789012", 18, 2),
            Err(DecimalError::Scale(2))
        );
        assert_eq!(parse_decimal("100", 4, 2), Err(DecimalError::Precision(4)));
        assert_eq!(parse_decimal("1e16", 18, 2), Err(DecimalError::Precision(18)));
        assert_eq!(
            parse_decimal("1e99999999999999999999", 18, 2),
            Err(DecimalError::Precision(18))
        );
        assert_eq!(
            parse_decimal("1000000000000000000", 18, 0),
            Err(DecimalError::Precision(18))
        );
        for text in [
            "", "-", ".5", "5.", "1e", "1e+", "1.2.3", "0x1", " 1", "1 ", "NaN", "1e1.5", "--1",
        ] {
            assert_eq!(parse_decimal(text, 18, 2), Err(DecimalError::NotANumber), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_written_decimal_reads_as_itself(unscaled in -999_999_999_999_999_999i64..=999_999_999_999_999_999, scale in 0u8..=18) {
            let mut text = Vec::new();
            write_decimal(unscaled, scale, &mut text);
            let text = String::from_utf8(text).expect("ASCII");
            prop_assert_eq!(parse_decimal(&text, 18, scale), Ok(unscaled), "{}", text);
            prop_assert_eq!(text.split_once('.').map_or(0, |(_, behind)| behind.len()), usize::from(scale));
        }
    }
}
