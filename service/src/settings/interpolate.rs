//! `${NAME}` in a value of a file is a variable of the environment, so that secrets need not be in files.
use std::ops::Range;

/// Why a text cannot be filled in.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfilled {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub help: &'static str,
}

/// The text with every `${NAME}` replaced by what `variable` knows of it; `$${` is a literal `${`.
///
/// # Errors
/// When a variable is not set, or a `${` is not followed by a name and `}`.
pub fn interpolate(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, Unfilled> {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find("${").map(|found| at + found) {
        if text[at..found].ends_with('$') {
            out.push_str(&text[at..found - 1]);
            out.push_str("${");
            at = found + 2;
            continue;
        }
        out.push_str(&text[at..found]);
        let inside = &text[found + 2..];
        let name = inside
            .split_once('}')
            .map(|(name, _)| name)
            .filter(|name| is_name(name));
        let Some(name) = name else {
            return Err(Unfilled {
                span: found..(found + 2),
                message: "`${` begins the name of a variable of the environment".to_owned(),
                help: "write ${NAME}; write $${ for `${` itself",
            });
        };
        let end = found + name.len() + 3;
        let value = variable(name).ok_or_else(|| Unfilled {
            span: found..end,
            message: format!("the variable {name} is not set"),
            help: "set it in the environment of the process; it may be empty",
        })?;
        out.push_str(&value);
        at = end;
    }
    out.push_str(&text[at..]);
    Ok(out)
}

fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(good) && name.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let known = |name: &str| (name == "USER_1").then(|| "ann ${X}".to_owned());
        interpolate(text, known).map_err(|e| format!("{} at {:?}", e.message, e.span))
    }

    #[test]
    fn a_variable_is_filled_in_once_and_a_doubled_dollar_is_none() {
        for (text, expected) in [
            ("", ""),
            ("plain $ {x} $", "plain $ {x} $"),
            ("${USER_1}", "ann ${X}"),
            ("a${USER_1}b${USER_1}", "aann ${X}bann ${X}"),
            ("$${USER_1}", "${USER_1}"),
            ("cost $$${USER_1}", "cost $${USER_1}"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_set_or_no_name_is_named() {
        assert_eq!(
            filled("x ${NOPE}").expect_err("not set"),
            "the variable NOPE is not set at 2..9"
        );
        for bad in ["${", "${}", "${USER_1", "${USER 1}", "${1}", "${USER_1:-x}"] {
            assert!(filled(bad).expect_err(bad).contains("begins the name"), "{bad}");
        }
    }
}
