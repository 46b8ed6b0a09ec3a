//! Fields by name and by path: `amount`, `address.city`, `tags[1]`, `items[1].name`.
use sqlparser::ast::{self, AccessExpr, Ident, Subscript};

use super::super::error::{At, ExprError};
use super::super::node::{Inside, Nested, Node, Step, Typed};
use super::Checker;
use super::operand::{Checked, column};
use crate::nearest;
use crate::value::{Schema, Type};

impl Checker<'_> {
    /// `amount` or `address.city`.
    pub(super) fn field(&mut self, names: &[Ident]) -> Result<Checked, ExprError> {
        let Some((first, rest)) = names.split_first() else {
            return Err(ExprError::new(self.tokens.whole(), "a name is missing"));
        };
        let at = self.tokens.at(first.span);
        let Some((index, field)) = self.schema.find(&first.value) else {
            let missing = Some(first.value.clone());
            return Err(ExprError {
                missing,
                ..no_field(self.schema, &first.value, at, rest)
            });
        };
        self.reads += 1;
        self.columns.insert(index);
        let mut path = Path::new(Checked::new(at, column(index, &field.ty), field.ty.clone()));
        for name in rest {
            self.step_into(&mut path, name)?;
        }
        Ok(path.finish())
    }

    /// `tags[1]`, `items[1].name`, `split(line)[1]`.
    pub(super) fn access(&mut self, root: &ast::Expr, chain: &[AccessExpr]) -> Result<Checked, ExprError> {
        let mut path = Path::new(self.expr(root)?);
        for step in chain {
            match step {
                AccessExpr::Dot(ast::Expr::Identifier(name)) => self.step_into(&mut path, name)?,
                AccessExpr::Subscript(Subscript::Index { index }) => self.element(&mut path, index)?,
                AccessExpr::Subscript(Subscript::Slice { .. }) => {
                    let at = self.tokens.up_to(path.at, |token| token.to_string() == "]");
                    return Err(
                        ExprError::new(at, "slices of arrays are not supported").help("take one element: tags[1]")
                    );
                }
                AccessExpr::Dot(_) => {
                    let at = self.tokens.up_to(path.at, |token| token.to_string() == ".");
                    return Err(ExprError::new(
                        at,
                        "only the name of a field may stand behind the point",
                    ));
                }
            }
        }
        Ok(path.finish())
    }

    fn step_into(&mut self, path: &mut Path, name: &Ident) -> Result<(), ExprError> {
        let at = self.tokens.at(name.span);
        let Some(Type::Struct(schema)) = &path.ty else {
            let ty = path.ty.as_ref().map_or_else(|| "NULL".to_owned(), Type::to_string);
            let before = self.text_of(path.at);
            let message = format!("`{before}` is {ty}, which has no fields");
            return Err(ExprError::new(at, message));
        };
        let Some((index, field)) = schema.find(&name.value) else {
            return Err(no_field(schema, &name.value, at, &[]));
        };
        let ty = field.ty.clone();
        path.push(Step::Field(index), ty, path.at.to(at));
        Ok(())
    }

    fn element(&mut self, path: &mut Path, index: &ast::Expr) -> Result<(), ExprError> {
        let index = self.expr(index)?;
        let at = self
            .tokens
            .up_to(path.at.to(index.at), |token| token.to_string() == "]");
        let Some(Type::Array(element)) = &path.ty else {
            let before = self.text_of(path.at);
            let ty = path.ty.as_ref().map_or_else(|| "NULL".to_owned(), Type::to_string);
            return Err(ExprError::new(at, format!("`{before}` is {ty}, not an array")));
        };
        let element = element.as_ref().clone();
        let index = self.int(index, "the index of an array")?;
        path.push(Step::Element(index), element, at);
        Ok(())
    }
}

fn no_field(schema: &Schema, name: &str, at: At, rest: &[Ident]) -> ExprError {
    let names = || schema.fields().iter().map(|field| field.name.as_str());
    let help = match rest.first() {
        // `orders.amount`: as one would write it with tables.
        Some(next) if nearest::nearest(name, names()).is_none() && schema.find(&next.value).is_some() => {
            format!("fields are named without their source: {}", next.value)
        }
        _ => nearest::help(name, names()),
    };
    ExprError::new(at, format!("there is no field `{name}`")).help(help)
}

/// A root and the steps into it so far.
struct Path {
    at: At,
    ty: Option<Type>,
    root: Typed,
    steps: Vec<Step>,
}

impl Path {
    fn new(root: Checked) -> Path {
        let (node, ty) = match root.typed {
            Some((node, ty)) => (node, Some(ty)),
            None => (Typed::Nested(Node::Const(None)), None),
        };
        Path {
            at: root.at,
            ty,
            root: node,
            steps: Vec::new(),
        }
    }

    fn push(&mut self, step: Step, ty: Type, at: At) {
        self.steps.push(step);
        self.ty = Some(ty);
        self.at = at;
    }

    fn finish(self) -> Checked {
        let Some(ty) = self.ty else {
            return Checked::null(self.at);
        };
        let node = match self.root {
            root if self.steps.is_empty() => root,
            Typed::Nested(root) => inside(root, self.steps, &ty),
            // invariant: steps are taken into arrays and structs only.
            _ => inside(Node::Const(None), self.steps, &ty),
        };
        Checked::new(self.at, node, ty)
    }
}

fn inside(root: Node<Nested>, steps: Vec<Step>, ty: &Type) -> Typed {
    let inside = Box::new(Inside { root, steps });
    match ty {
        Type::Bool => Typed::Bool(Node::Inside(inside)),
        Type::Int | Type::Decimal { .. } | Type::Timestamp => Typed::Long(Node::Inside(inside)),
        Type::Float => Typed::Float(Node::Inside(inside)),
        Type::String => Typed::Text(Node::Inside(inside)),
        Type::Bytes => Typed::Bytes(Node::Inside(inside)),
        Type::Array(_) | Type::Struct(_) => Typed::Nested(Node::Inside(inside)),
    }
}
