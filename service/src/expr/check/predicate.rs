//! `IS`, `IN`, `BETWEEN` and `LIKE`.
use sqlparser::ast::{self, InTarget};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::super::error::{At, ExprError};
use super::super::node::{BoolOp, Node, Pattern, Probe};
use super::Checker;
use super::operand::Checked;

impl Checker<'_> {
    /// `IS [NOT] NULL`, `IS [NOT] TRUE`, `FALSE`, `UNKNOWN`.
    pub(super) fn is(&mut self, ast: &ast::Expr) -> Result<Checked, ExprError> {
        use ast::Expr;
        // What a bool is, or None for NULL; whether that is negated; the last word.
        let (operand, truth, negated, word) = match ast {
            Expr::IsNull(of) => (of, None, false, Keyword::NULL),
            Expr::IsNotNull(of) => (of, None, true, Keyword::NULL),
            Expr::IsTrue(of) => (of, Some(true), false, Keyword::TRUE),
            Expr::IsNotTrue(of) => (of, Some(true), true, Keyword::TRUE),
            Expr::IsFalse(of) => (of, Some(false), false, Keyword::FALSE),
            Expr::IsNotFalse(of) => (of, Some(false), true, Keyword::FALSE),
            Expr::IsUnknown(of) => (of, None, false, Keyword::UNKNOWN),
            Expr::IsNotUnknown(of) => (of, None, true, Keyword::UNKNOWN),
            other => return Err(self.unsupported(other)),
        };
        let checked = self.expr(operand)?;
        let at = self.up_to_keyword(checked.at, word);
        if truth.is_none() && word == Keyword::NULL {
            let node = match checked.typed {
                None => Node::constant(!negated),
                Some((of, _)) => Node::op(BoolOp::IsNull { of, negated }),
            };
            return Ok(Checked::bool(at, node));
        }
        let of = self.bool(checked, "IS TRUE, IS FALSE and IS UNKNOWN")?;
        let op = match truth {
            Some(truth) => BoolOp::IsTruth { of, truth, negated },
            None => BoolOp::IsNull {
                of: super::super::node::Typed::Bool(of),
                negated,
            },
        };
        Ok(Checked::bool(at, Node::op(op)))
    }

    pub(super) fn up_to_keyword(&self, at: At, keyword: Keyword) -> At {
        self.tokens.up_to(
            at,
            |token| matches!(token, Token::Word(word) if word.keyword == keyword),
        )
    }

    /// With the closing parenthesis behind it.
    pub(super) fn closed(&self, at: At) -> At {
        self.tokens.up_to(at, |token| *token == Token::RParen)
    }

    pub(super) fn in_list(
        &mut self,
        operand: &ast::Expr,
        target: &InTarget,
        negated: bool,
    ) -> Result<Checked, ExprError> {
        let operand = self.expr(operand)?;
        let InTarget::List(list) = target else {
            let at = self.up_to_keyword(operand.at, Keyword::IN);
            return Err(
                ExprError::new(at, "IN takes a list of values here, not a subquery or a table").help("a IN (1, 2, 3)"),
            );
        };
        let mut at = operand.at;
        let mut others = Vec::with_capacity(list.len());
        for item in list {
            let checked = self.expr(item)?;
            at = at.to(checked.at);
            others.push(checked);
        }
        let at = self.closed(at);
        let node = match self.probe(operand, others)? {
            None => Node::Const(None),
            Some(probe) => Node::op(in_op(probe, negated)),
        };
        Ok(Checked::bool(at, node))
    }

    pub(super) fn between(
        &mut self,
        operand: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
        negated: bool,
    ) -> Result<Checked, ExprError> {
        let (operand, low, high) = (self.expr(operand)?, self.expr(low)?, self.expr(high)?);
        let at = operand.at.to(high.at);
        let node = match self.probe(operand, vec![low, high])? {
            None => Node::Const(None),
            Some(probe) => Node::op(BoolOp::Between { probe, negated }),
        };
        Ok(Checked::bool(at, node))
    }

    pub(super) fn like(
        &mut self,
        operand: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        negated: bool,
    ) -> Result<Checked, ExprError> {
        let (operand, pattern) = (self.expr(operand)?, self.expr(pattern)?);
        let mut at = operand.at.to(pattern.at);
        let escape = match escape {
            None => None,
            Some(escape) => {
                let checked = self.expr(escape)?;
                at = at.to(checked.at);
                Some(self.escape(checked)?)
            }
        };
        let of = self.text(operand, "LIKE")?;
        let pattern_at = pattern.at;
        let pattern = self.text(pattern, "LIKE")?;
        let known = match &pattern {
            Node::Const(Some(text)) => Some(Pattern::new(text, escape).ok_or_else(|| {
                ExprError::new(
                    pattern_at,
                    "the pattern ends with its escape character, which escapes nothing",
                )
            })?),
            _ => None,
        };
        let like = BoolOp::Like {
            of,
            pattern,
            known,
            escape,
            negated,
            at,
        };
        Ok(Checked::bool(at, Node::op(like)))
    }

    fn escape(&self, checked: Checked) -> Result<char, ExprError> {
        let at = checked.at;
        if let Node::Const(Some(text)) = self.text(checked, "ESCAPE")? {
            let mut chars = text.chars();
            if let (Some(escape), None) = (chars.next(), chars.next()) {
                return Ok(escape);
            }
        }
        Err(ExprError::new(at, "ESCAPE takes one character, written out").help("LIKE '50!%' ESCAPE '!'"))
    }
}

/// Constants of one scale are looked up, others are compared one by one.
fn in_op(probe: Probe, negated: bool) -> BoolOp {
    match probe {
        Probe::Longs(of, list) if list.iter().all(|item| matches!(item, Node::Const(_))) => {
            let (list, null) = sorted(list.into_iter().map(|item| match item {
                Node::Const(value) => value,
                _ => None,
            }));
            BoolOp::InLongs {
                of,
                list,
                null,
                negated,
            }
        }
        Probe::Texts(of, list) if list.iter().all(|item| matches!(item, Node::Const(_))) => {
            let (list, null) = sorted(list.into_iter().map(|item| match item {
                Node::Const(value) => value,
                _ => None,
            }));
            BoolOp::InTexts {
                of,
                list,
                null,
                negated,
            }
        }
        probe => BoolOp::In { probe, negated },
    }
}

/// The values in order, and whether NULL is among them.
fn sorted<T: Ord>(items: impl Iterator<Item = Option<T>>) -> (Vec<T>, bool) {
    let all: Vec<Option<T>> = items.collect();
    let null = all.iter().any(Option::is_none);
    let mut list: Vec<T> = all.into_iter().flatten().collect();
    list.sort_unstable();
    list.dedup();
    (list, null)
}
