//! `CASE`, `coalesce` and `nullif`: values of which one is taken, so that all have one type.
use sqlparser::ast;

use super::super::error::{At, ExprError};
use super::super::node::{Case, Kind, Node, NullIf, Ordered, Typed, When};
use super::Checker;
use super::operand::{Checked, NodeOf, nodes};
use crate::value::Type;

/// Builds a [`Typed`] of the kind that `$ty` has, with `$kind` as its name.
macro_rules! of_kind {
    ($ty:expr, $kind:ident => $body:expr) => {{
        use super::super::node::{Bool, Bytes, Float, Long, Nested, Text};
        match $ty {
            Type::Bool => {
                type $kind = Bool;
                Typed::Bool($body)
            }
            Type::Int | Type::Decimal { .. } | Type::Timestamp => {
                type $kind = Long;
                Typed::Long($body)
            }
            Type::Float => {
                type $kind = Float;
                Typed::Float($body)
            }
            Type::String => {
                type $kind = Text;
                Typed::Text($body)
            }
            Type::Bytes => {
                type $kind = Bytes;
                Typed::Bytes($body)
            }
            Type::Array(_) | Type::Struct(_) => {
                type $kind = Nested;
                Typed::Nested($body)
            }
        }
    }};
}

impl Checker<'_> {
    pub(super) fn case(
        &mut self,
        ast: &ast::Expr,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Checked, ExprError> {
        let at = match ast {
            ast::Expr::Case {
                case_token, end_token, ..
            } => self.tokens.at(case_token.0.span).to(self.tokens.at(end_token.0.span)),
            _ => self.tokens.whole(),
        };
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        let mut whens = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for branch in conditions {
            whens.push(self.expr(&branch.condition)?);
            results.push(self.expr(&branch.result)?);
        }
        // Without ELSE it is NULL.
        results.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => Checked::null(at),
        });
        let when = self.when(operand, whens)?;
        let Some(ty) = self.common_of(&results, "CASE")? else {
            return Ok(Checked::null(at));
        };
        let results = self.widen_all(results, &ty)?;
        let node = match when {
            // Nothing is equal to NULL.
            None => of_kind!(&ty, K => last::<K>(results)),
            Some(when) => of_kind!(&ty, K => case_of::<K>(when, results)),
        };
        Ok(Checked::new(at, node, ty))
    }

    fn when(&self, operand: Option<Checked>, whens: Vec<Checked>) -> Result<Option<When>, ExprError> {
        if let Some(operand) = operand {
            return Ok(self.probe(operand, whens)?.map(When::Equal));
        }
        let conditions: Result<Vec<_>, ExprError> = whens.into_iter().map(|when| self.bool(when, "WHEN")).collect();
        Ok(Some(When::True(conditions?)))
    }

    fn widen_all(&self, all: Vec<Checked>, ty: &Type) -> Result<Vec<Typed>, ExprError> {
        all.into_iter().map(|checked| self.widen(checked, ty)).collect()
    }

    pub(super) fn coalesce(&mut self, arguments: Vec<Checked>, at: At) -> Result<Checked, ExprError> {
        if arguments.is_empty() {
            return Err(ExprError::new(at, "coalesce takes one argument at least"));
        }
        let Some(ty) = self.common_of(&arguments, "coalesce")? else {
            return Ok(Checked::null(at));
        };
        let all = self.widen_all(arguments, &ty)?;
        let node = of_kind!(&ty, K => Node::Coalesce(nodes::<K>(all)));
        Ok(Checked::new(at, node, ty))
    }

    /// The second is brought to the type of the first, which is that of the result.
    pub(super) fn nullif(&mut self, of: Checked, other: Checked, at: At) -> Result<Checked, ExprError> {
        let Some(ty) = of.ty().cloned() else {
            return Ok(Checked::null(at));
        };
        if matches!(ty, Type::Array(_) | Type::Struct(_)) {
            return Err(ExprError::new(of.at, format!("nullif does not compare {ty}")));
        }
        let fits = other
            .ty()
            .is_none_or(|other| Self::common(&ty, other).as_ref() == Some(&ty) || narrower(other, &ty));
        if !fits {
            return Err(self.mismatch(&other, "nullif", &format!("{ty} here"), Some(&ty)));
        }
        let other = self.widen(other, &ty)?;
        let Some((of, _)) = of.typed else {
            return Ok(Checked::null(at));
        };
        let node = match (of, other) {
            (Typed::Bool(of), Typed::Bool(other)) => Typed::Bool(null_if(of, other)),
            (Typed::Long(of), Typed::Long(other)) => Typed::Long(null_if(of, other)),
            (Typed::Float(of), Typed::Float(other)) => Typed::Float(null_if(of, other)),
            (Typed::Text(of), Typed::Text(other)) => Typed::Text(null_if(of, other)),
            (Typed::Bytes(of), Typed::Bytes(other)) => Typed::Bytes(null_if(of, other)),
            // invariant: both are of one type, and that is none of the others.
            (of, _) => of,
        };
        Ok(Checked::new(at, node, ty))
    }
}

/// Whether a decimal or an int64 fits into a decimal, but for the digits that its type could have.
fn narrower(from: &Type, to: &Type) -> bool {
    let scale = |ty: &Type| match ty {
        Type::Int => Some(0),
        Type::Decimal { scale, .. } => Some(*scale),
        _ => None,
    };
    matches!(to, Type::Decimal { .. }) && scale(from).zip(scale(to)).is_some_and(|(from, to)| from <= to)
}

fn null_if<K: Ordered>(of: Node<K>, other: Node<K>) -> Node<K> {
    Node::NullIf(Box::new(NullIf {
        of,
        other,
        compare: K::compare,
    }))
}

fn case_of<K: NodeOf>(when: When, results: Vec<Typed>) -> Node<K> {
    let mut then = nodes::<K>(results);
    let otherwise = then.pop().unwrap_or(Node::Const(None));
    Node::Case(Box::new(Case { when, then, otherwise }))
}

fn last<K: NodeOf + Kind>(results: Vec<Typed>) -> Node<K> {
    nodes::<K>(results).pop().unwrap_or(Node::Const(None))
}
