//! SQL that is no scalar expression here, by name.
use sqlparser::ast::Expr;

use super::super::error::ExprError;
use super::Checker;

impl Checker<'_> {
    pub(super) fn unsupported(&self, ast: &Expr) -> ExprError {
        // What it is, the way out, and the words by which its place is found.
        let (what, help, words): (&str, &str, &[&str]) = match ast {
            Expr::Subquery(_) | Expr::Exists { .. } => (
                "subqueries are not supported: an expression sees one record",
                "",
                &["exists", "select", "with"],
            ),
            Expr::Interval(_) => (
                "an interval is no value of its own",
                "it is added to a timestamp: at + INTERVAL '1 day'",
                &["interval"],
            ),
            Expr::ILike { .. } => ("ILIKE is not supported", "lower(name) LIKE 'a%'", &["ilike"]),
            Expr::Like { .. } => (
                "LIKE ANY is not supported",
                "name LIKE 'a%' OR name LIKE 'b%'",
                &["any"],
            ),
            Expr::SimilarTo { .. } | Expr::RLike { .. } => {
                let words = &["similar", "rlike", "regexp"];
                ("regular expressions are not supported", "LIKE knows % and _", words)
            }
            Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => {
                let help = "coalesce(a <> b, a IS NOT NULL OR b IS NOT NULL)";
                ("IS DISTINCT FROM is not supported", help, &["distinct"])
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => (
                "ANY and ALL are not supported",
                "a IN (1, 2, 3)",
                &["any", "all", "some"],
            ),
            Expr::Tuple(_) => ("a list is no value", "lists stand behind IN: a IN (1, 2, 3)", &["("]),
            Expr::Array(_) => (
                "arrays are not written out",
                "split('a b c') makes one of texts",
                &["array", "["],
            ),
            Expr::AtTimeZone { .. } => ("time zones are not supported: timestamps are in UTC", "", &["zone"]),
            Expr::Convert { .. } => ("CONVERT is not supported", "CAST(a AS int64)", &["convert"]),
            Expr::Cast { .. } => ("CAST .. FORMAT is not supported", "", &["format"]),
            Expr::Position { .. } => (
                "POSITION is not supported",
                "LIKE '%x%' tells whether it is there",
                &["position"],
            ),
            Expr::JsonAccess { .. } => ("`:` is not supported", "fields of a struct: address.city", &[":"]),
            Expr::Collate { .. } => (
                "COLLATE is not supported: texts are compared by their code points",
                "",
                &["collate"],
            ),
            Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => ("`*` is no value", "", &["*"]),
            _ => ("this is SQL that is not supported in an expression", "", &[]),
        };
        let error = ExprError::new(self.tokens.word(words), what);
        match help {
            "" => error,
            help => error.help(help),
        }
    }
}
