//! `+ - * / %` and the sign.
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

use super::super::error::{At, ExprError};
use super::super::node::{
    Arithmetic, BoolOp, Cmp, Decimals, FloatOp, LongOp, Node, Target, TextOp, Typed, decimal_digits,
};
use super::Checker;
use super::literal;
use super::operand::{Checked, constant};
use crate::value::{DECIMAL_DIGITS_MAX, Type, Value};

/// Digits behind the point of a quotient of decimals, at least. Six, as PostgreSQL and Spark give at least; more would leave fewer than
/// twelve before it.
const QUOTIENT_SCALE_MIN: u8 = 6;

impl Checker<'_> {
    pub(super) fn binary(
        &mut self,
        whole: &ast::Expr,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Checked, ExprError> {
        let arithmetic = match op {
            BinaryOperator::And | BinaryOperator::Or => return self.chain_of_bools(whole, op),
            BinaryOperator::StringConcat => return self.chain_of_texts(whole),
            BinaryOperator::Eq => return self.comparison(Cmp::Equal, left, right),
            BinaryOperator::NotEq => return self.comparison(Cmp::NotEqual, left, right),
            BinaryOperator::Lt => return self.comparison(Cmp::Less, left, right),
            BinaryOperator::LtEq => return self.comparison(Cmp::LessOrEqual, left, right),
            BinaryOperator::Gt => return self.comparison(Cmp::Greater, left, right),
            BinaryOperator::GtEq => return self.comparison(Cmp::GreaterOrEqual, left, right),
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            BinaryOperator::Modulo => Arithmetic::Remainder,
            _ => return self.unknown_operator(left, op, right),
        };
        if let Some(shifted) = self.shift(arithmetic, left, right)? {
            return Ok(shifted);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        self.arithmetic(arithmetic, op, left, right)
    }

    fn arithmetic(
        &self,
        arithmetic: Arithmetic,
        op: &BinaryOperator,
        left: Checked,
        right: Checked,
    ) -> Result<Checked, ExprError> {
        let at = left.at.to(right.at);
        let what = format!("`{op}`");
        let wrong = |side: &Checked| {
            let error = self.mismatch(side, &what, "numbers", None);
            match side.ty() {
                Some(Type::String) if arithmetic == Arithmetic::Add => error.help("texts are joined by ||"),
                Some(Type::String) => error.help(format!("CAST({} AS int64), or a decimal", self.text_of(side.at))),
                Some(Type::Timestamp) => {
                    error.help("a timestamp moves by INTERVAL '1 day'; two of them differ by milliseconds")
                }
                _ => error,
            }
        };
        if let (Arithmetic::Subtract, Some(Type::Timestamp), Some(Type::Timestamp)) =
            (arithmetic, left.ty(), right.ty())
        {
            let (left, right) = (self.timestamp(left, &what)?, self.timestamp(right, &what)?);
            return Ok(Checked::int(at, LongOp::Elapsed { left, right, at }));
        }
        for side in [&left, &right] {
            if side.ty().is_some_and(|ty| !ty.is_numeric()) {
                return Err(wrong(side));
            }
        }
        let (Some((left_node, left_ty)), Some((right_node, right_ty))) = (left.typed, right.typed) else {
            return Ok(Checked::null(at));
        };
        if left_ty == Type::Float || right_ty == Type::Float {
            let left = self.float(Checked::new(left.at, left_node, left_ty));
            let right = self.float(Checked::new(right.at, right_node, right_ty));
            let op = FloatOp::Arithmetic {
                op: arithmetic,
                left,
                right,
                at,
            };
            return Ok(Checked::new(at, Typed::Float(Node::op(op)), Type::Float));
        }
        let (Typed::Long(left), Typed::Long(right)) = (left_node, right_node) else {
            return Ok(Checked::null(at));
        };
        if left_ty == Type::Int && right_ty == Type::Int {
            let op = arithmetic;
            return Ok(Checked::int(at, LongOp::Arithmetic { op, left, right, at }));
        }
        self.decimals(arithmetic, (left, &left_ty), (right, &right_ty), at)
    }

    /// Two decimals, or a decimal and an int64.
    fn decimals(
        &self,
        op: Arithmetic,
        (left, left_ty): (Node<super::super::node::Long>, &Type),
        (right, right_ty): (Node<super::super::node::Long>, &Type),
        at: At,
    ) -> Result<Checked, ExprError> {
        let ((whole_left, scale_left), (whole_right, scale_right)) =
            (decimal_digits(left_ty), decimal_digits(right_ty));
        let scale_max = scale_left.max(scale_right);
        let power = |digits: u8| 10_i128.pow(u32::from(digits));
        let aligned = (power(scale_max - scale_left), power(scale_max - scale_right));
        let (whole, scale, (left_up, right_up)) = match op {
            Arithmetic::Add | Arithmetic::Subtract => (whole_left.max(whole_right) + 1, scale_max, aligned),
            Arithmetic::Remainder => (whole_left.min(whole_right), scale_max, aligned),
            Arithmetic::Multiply => (whole_left + whole_right, scale_left + scale_right, (1, 1)),
            Arithmetic::Divide => {
                let scale = scale_max.max(QUOTIENT_SCALE_MIN);
                (DECIMAL_DIGITS_MAX, scale, (power(scale - scale_left + scale_right), 1))
            }
        };
        if scale > DECIMAL_DIGITS_MAX {
            let message = format!(
                "{left_ty} times {right_ty} has {scale} digits behind the point, and a decimal has at most {DECIMAL_DIGITS_MAX}"
            );
            return Err(ExprError::new(at, message).help("CAST one side to fewer, as in CAST(rate AS decimal(18,4))"));
        }
        let precision = whole.saturating_add(scale).clamp(1, DECIMAL_DIGITS_MAX);
        let ty = Type::Decimal { precision, scale };
        let decimals = Decimals {
            op,
            left,
            right,
            left_up,
            right_up,
            to: Target {
                ty: ty.clone(),
                lenient: false,
                at,
            },
        };
        Ok(Checked::new(at, Typed::Long(Node::op(LongOp::Decimals(decimals))), ty))
    }

    pub(super) fn unary(&mut self, op: &UnaryOperator, operand: &ast::Expr) -> Result<Checked, ExprError> {
        if let (UnaryOperator::Minus, ast::Expr::Value(value)) = (op, operand)
            && let ast::Value::Number(text, false) = &value.value
        {
            // With its sign, so that the least int64 can be written.
            let at = self.tokens.with_previous(self.tokens.at(value.span));
            return literal::number(&format!("-{text}"), at);
        }
        let checked = self.expr(operand)?;
        let at = self.tokens.with_previous(checked.at);
        match op {
            UnaryOperator::Not => {
                let of = self.bool(checked, "NOT")?;
                Ok(Checked::bool(at, Node::op(BoolOp::Not(of))))
            }
            UnaryOperator::Minus | UnaryOperator::Plus => self.signed(*op == UnaryOperator::Minus, checked, at),
            other => Err(ExprError::new(at, format!("the operator `{other}` is not supported"))),
        }
    }

    fn signed(&self, negative: bool, checked: Checked, at: At) -> Result<Checked, ExprError> {
        if checked.ty().is_some_and(|ty| !ty.is_numeric()) {
            return Err(self.mismatch(&checked, "the sign", "a number", None));
        }
        let typed = match checked.typed {
            Some((Typed::Float(of), ty)) if negative => Some((Typed::Float(Node::op(FloatOp::Negate(of))), ty)),
            Some((Typed::Long(of), ty)) if negative => Some((Typed::Long(Node::op(LongOp::Negate(of, at))), ty)),
            other => other,
        };
        Ok(Checked { at, typed })
    }

    /// `a || b || c` as one node.
    fn chain_of_texts(&mut self, whole: &ast::Expr) -> Result<Checked, ExprError> {
        let mut operands = Vec::new();
        let mut at: Option<At> = None;
        for operand in spine(whole, &BinaryOperator::StringConcat) {
            let checked = self.expr(operand)?;
            at = Some(at.map_or(checked.at, |before| before.to(checked.at)));
            operands.push(checked);
        }
        let at = at.unwrap_or_default();
        if operands.iter().all(|checked| checked.ty() == Some(&Type::Bool)) {
            return Err(ExprError::new(at, "`||` joins texts").help("OR, not ||"));
        }
        let mut parts = Vec::with_capacity(operands.len());
        for checked in operands {
            parts.push(self.text(checked, "`||`")?);
        }
        let skip_null = false;
        let concat = TextOp::Concat { parts, skip_null, at };
        Ok(Checked::new(at, Typed::Text(Node::op(concat)), Type::String))
    }

    /// `a AND b AND c` as one node.
    fn chain_of_bools(&mut self, whole: &ast::Expr, op: &BinaryOperator) -> Result<Checked, ExprError> {
        let mut parts = Vec::new();
        let mut at: Option<At> = None;
        for operand in spine(whole, op) {
            let checked = self.expr(operand)?;
            at = Some(at.map_or(checked.at, |before| before.to(checked.at)));
            parts.push(self.bool(checked, &op.to_string())?);
        }
        let node = match op {
            BinaryOperator::And => BoolOp::And(parts),
            _ => BoolOp::Or(parts),
        };
        Ok(Checked::bool(at.unwrap_or_default(), Node::op(node)))
    }

    fn unknown_operator(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Checked, ExprError> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let at = self.tokens.between(left.at, left.at.to(right.at));
        let error = ExprError::new(at, format!("the operator `{op}` is not supported"));
        Err(match op {
            BinaryOperator::Spaceship => error.help("(a = b) IS TRUE, or with IS NULL beside it"),
            BinaryOperator::BitwiseXor => error.help("there are + - * / %"),
            _ => error,
        })
    }
}

/// The operands of a chain of one operator, from left to right. A loop, since a chain may be as long as the expression.
fn spine<'e>(whole: &'e ast::Expr, chain: &BinaryOperator) -> Vec<&'e ast::Expr> {
    let mut operands = Vec::new();
    let mut at = whole;
    while let ast::Expr::BinaryOp { left, op, right } = at
        && op == chain
    {
        operands.push(right.as_ref());
        at = left;
    }
    operands.push(at);
    operands.reverse();
    operands
}

/// NULL of a type.
pub(super) fn null(ty: &Type) -> Typed {
    constant(Value::Null, ty)
}
