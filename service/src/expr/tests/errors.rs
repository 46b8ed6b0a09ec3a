use super::super::{Aggregate, Expr};
use super::{schema, table};

#[test]
fn a_name_that_is_not_there_is_told_with_the_nearest() {
    table(
        "amout > 1 => no: there is no field `amout` at amout; did you mean `amount`?
        Amount => no: there is no field `Amount` at Amount; did you mean `amount`?
        address.town => no: there is no field `town` at town; one of: city, zip
        address.citi => no: there is no field `citi` at citi; did you mean `city`?
        items[1].prize => no: there is no field `prize` at prize; did you mean `price`?
        input.amount => no: there is no field `input` at input; fields are named without their source: amount
        customer.name => no: `customer` is string, which has no fields at name
        uper(customer) => no: there is no function `uper` at uper; did you mean `upper`?
        1 + lenght(customer) => no: there is no function `lenght` at lenght; did you mean `length`?
        date_trunc('hours', at) => no: 'hours' is no unit of date_trunc at 'hours'; did you mean `hour`?
        date_trunc(customer, at) => no: the unit of date_trunc is written out at customer; one of: second, minute, hour, day, week, month, quarter, year
        CAST(orders AS int32) => no: there is no type int32 at int32; the types are bool, int64, float64, decimal(18,2), string, bytes and timestamp
        CAST(orders AS decimal(20,2)) => no: decimal(20,2): the digits are 1 to 18, of which those behind the point are a part at decimal(20,2); decimal(18,2) has 16 digits before the point and two behind it
        CAST(orders AS decimal) => no: decimal: the digits are 1 to 18, of which those behind the point are a part at decimal; decimal(18,2) has 16 digits before the point and two behind it
        CAST(orders AS money) => no: there is no type money at money; the types are bool, int64, float64, decimal(18,2), string, bytes and timestamp",
    );
}

#[test]
fn a_type_that_does_not_fit_is_told_with_both_and_the_cast() {
    table(
        "customer > 1 => no: string and int64 are not compared: `customer` and `1` at customer > 1; CAST(customer AS int64)
        at > '2026-03-01' => no: timestamp and string are not compared: `at` and `'2026-03-01'` at at > '2026-03-01'; TIMESTAMP '2026-03-01'
        amount = customer => no: decimal(18,2) and string are not compared: `amount` and `customer` at amount = customer; CAST(customer AS decimal(18,2))
        paid = 1 => no: bool and int64 are not compared: `paid` and `1` at paid = 1; CAST(paid AS int64)
        raw = amount => no: bytes and decimal(18,2) are not compared: `raw` and `amount` at raw = amount
        tags = tags => no: `tags` is array(string); arrays and structs are not compared at tags; compare their parts: tags[1], address.city
        orders IN (1, 'x') => no: int64 and string are not compared: `orders` and `'x'` at orders IN (1, 'x'; CAST('x' AS int64)
        orders AND paid => no: AND takes bool, but `orders` is int64 at orders; CAST(orders AS bool)
        paid OR customer => no: OR takes bool, but `customer` is string at customer; CAST(customer AS bool)
        NOT amount => no: NOT takes bool, but `amount` is decimal(18,2) at amount
        customer + 1 => no: `+` takes numbers, but `customer` is string at customer; texts are joined by ||
        customer * 2 => no: `*` takes numbers, but `customer` is string at customer; CAST(customer AS int64), or a decimal
        at + 1 => no: `+` takes numbers, but `at` is timestamp at at; a timestamp moves by INTERVAL '1 day'; two of them differ by milliseconds
        paid + 1 => no: `+` takes numbers, but `paid` is bool at paid
        -customer => no: the sign takes a number, but `customer` is string at customer
        'a' || 1 => no: `||` takes string, but `1` is int64 at 1; CAST(1 AS string)
        paid || late => no: `||` joins texts at paid || late; OR, not ||
        lower(orders) => no: lower takes string, but `orders` is int64 at orders; CAST(orders AS string)
        length(tags) => no: length takes string or bytes, but `tags` is array(string) at tags; cardinality counts the elements of an array
        cardinality(customer) => no: cardinality takes an array, but `customer` is string at customer; length counts the characters of a text
        abs(customer) => no: abs takes a number, but `customer` is string at customer
        round(customer) => no: round takes a number, but `customer` is string at customer; CAST(customer AS float64)
        round(amount, orders) => no: the digits of round are a whole number, written out at orders; round(amount, 2)
        floor(at) => no: floor and ceil takes a number, but `at` is timestamp at at
        substr(customer, 1.5) => no: substr takes int64, but `1.5` is decimal(2,1) at 1.5; CAST(1.5 AS int64)
        customer LIKE 1 => no: LIKE takes string, but `1` is int64 at 1; CAST(1 AS string)
        orders LIKE 'a' => no: LIKE takes string, but `orders` is int64 at orders; CAST(orders AS string)
        customer[1] => no: `customer` is string, not an array at customer[1]
        tags['a'] => no: the index of an array takes int64, but `'a'` is string at 'a'; CAST('a' AS int64)
        CASE WHEN orders THEN 1 END => no: WHEN takes bool, but `orders` is int64 at orders; CAST(orders AS bool)
        CASE WHEN paid THEN 1 ELSE 'x' END => no: CASE takes int64 here, but `'x'` is string at 'x'; CAST('x' AS int64)
        coalesce(orders, customer) => no: coalesce takes int64 here, but `customer` is string at customer; CAST(customer AS int64)
        nullif(orders, 1.5) => no: nullif takes int64 here, but `1.5` is decimal(2,1) at 1.5; CAST(1.5 AS int64)
        extract(hour FROM customer) => no: extract takes timestamp, but `customer` is string at customer; CAST(customer AS timestamp)
        date_trunc('hour', orders) => no: date_trunc takes timestamp, but `orders` is int64 at orders; CAST(orders AS timestamp)
        orders IS TRUE => no: IS TRUE, IS FALSE and IS UNKNOWN takes bool, but `orders` is int64 at orders; CAST(orders AS bool)
        CAST(paid AS timestamp) => no: no CAST leads from bool to timestamp at CAST(paid AS timestamp); by way of int64: CAST(CAST(.. AS int64) AS timestamp)
        CAST(amount AS bool) => no: no CAST leads from decimal(18,2) to bool at CAST(amount AS bool); by way of int64: CAST(CAST(.. AS int64) AS bool)
        CAST(raw AS int64) => no: no CAST leads from bytes to int64 at CAST(raw AS int64); by way of string: CAST(CAST(.. AS string) AS int64)
        fine * amount => no: decimal(18,18) times decimal(18,2) has 20 digits behind the point, and a decimal has at most 18 at fine * amount; CAST one side to fewer, as in CAST(rate AS decimal(18,4))
        NULL => no: NULL alone has no type at NULL; CAST(NULL AS string)",
    );
}

#[test]
fn sql_that_is_no_scalar_expression_is_refused_by_name() {
    table(
        "(SELECT 1) => no: subqueries are not supported: an expression sees one record at SELECT
        orders IN (SELECT 1) => no: IN takes a list of values here, not a subquery or a table at orders IN; a IN (1, 2, 3)
        EXISTS (SELECT 1) => no: subqueries are not supported: an expression sees one record at EXISTS
        sum(amount) > 5 => no: sum is an aggregate: it folds many records, and an expression sees one at sum(amount); an `aggregate` step takes it: aggregate: { sum: sum(amount) }
        count(*) => no: count is an aggregate: it folds many records, and an expression sees one at count(*); an `aggregate` step takes it: aggregate: { count: count(*) }
        sum(amount) OVER (PARTITION BY customer) => no: window functions (OVER) are not supported in an expression at sum(amount); fold the records of a key in an `aggregate` step
        now() => no: there is no now: a record that is read again has to give the same result at now(); the time of the record: _timestamp
        CURRENT_TIMESTAMP => no: there is no current_timestamp: a record that is read again has to give the same result at CURRENT_TIMESTAMP; the time of the record: _timestamp
        customer ILIKE 'a%' => no: ILIKE is not supported at ILIKE; lower(name) LIKE 'a%'
        customer SIMILAR TO 'a' => no: regular expressions are not supported at SIMILAR; LIKE knows % and _
        orders IS DISTINCT FROM 1 => no: IS DISTINCT FROM is not supported at DISTINCT; coalesce(a <> b, a IS NOT NULL OR b IS NOT NULL)
        orders = ANY(tags) => no: ANY and ALL are not supported at ANY; a IN (1, 2, 3)
        ARRAY[1, 2] => no: arrays are not written out at ARRAY; split('a b c') makes one of texts
        (1, 2) => no: a list is no value at (; lists stand behind IN: a IN (1, 2, 3)
        at AT TIME ZONE 'UTC' => no: time zones are not supported: timestamps are in UTC at ZONE
        INTERVAL '1 day' => no: an interval is no value of its own at INTERVAL; it is added to a timestamp: at + INTERVAL '1 day'
        INTERVAL '1 day' - at => no: an interval is added to a timestamp or taken from one at INTERVAL '1 day'; at + INTERVAL '1 day'
        at * INTERVAL '1 day' => no: an interval is added to a timestamp or taken from one, nothing else at at * INTERVAL '1 day'
        at + INTERVAL '1 fortnight' => no: '1 fortnight' is no interval at INTERVAL '1 fortnight'; INTERVAL '1 day', INTERVAL '2 hours 30 minutes', INTERVAL '1' MONTH
        at + INTERVAL 'soon' => no: 'soon' is no interval at INTERVAL 'soon'; INTERVAL '1 day', INTERVAL '2 hours 30 minutes', INTERVAL '1' MONTH
        extract(century FROM at) => no: CENTURY is not extracted at extract(century FROM at); year, quarter, month, week, day, dow, isodow, doy, hour, minute, second, millisecond, epoch
        DATE '2026-03-01' => no: constants of the form DATE '..' are not supported at DATE '2026-03-01'; TIMESTAMP '2026-03-01 10:00:00', or CAST('..' AS a type)
        TIMESTAMP 'soon' => no: 'soon' is no timestamp at 'soon'; as in TIMESTAMP '2026-03-01', '2026-03-01 10:00:00' (UTC) or '2026-03-01T10:00:00.250+01:00'
        tags[1:2] => no: slices of arrays are not supported at tags[1:2]; take one element: tags[1]
        orders | 1 => no: the operator `|` is not supported at | 1
        floor(amount, 1) => no: floor and ceil take one number at floor(amount, 1); digits: round(x, 2); timestamps: date_trunc('hour', at)
        lower(customer, 1) => no: lower does not take 2 arguments at lower(customer, 1); lower(text)
        coalesce() => no: coalesce takes one argument at least at coalesce()
        lower(DISTINCT customer) => no: DISTINCT, ORDER BY and the like are not supported here at lower(DISTINCT customer)
        customer LIKE 'a' ESCAPE 'xy' => no: ESCAPE takes one character, written out at 'xy'; LIKE '50!%' ESCAPE '!'
        customer LIKE 'a!' ESCAPE '!' => no: the pattern ends with its escape character, which escapes nothing at 'a!'
        X'f' => no: X'..' takes pairs of hexadecimal digits at X'f'
        N'abc' => no: `N'abc'` is not supported at N'abc'; texts are written 'in single quotes', bytes as X'00ff', numbers as 12.50",
    );
}

#[test]
fn a_constant_that_errs_is_told_when_it_is_compiled() {
    table(
        "orders > 1 / 0 => no: division by zero at 1 / 0
        9223372036854775807 + 1 => no: the result does not fit into int64 at 9223372036854775807 + 1
        9223372036854775808 => no: 9223372036854775808 is beyond the range of int64 at 9223372036854775808; as float64: 9223372036854775808e0
        1.0000000000000000001 => no: 1.0000000000000000001 has more than the 18 digits of a decimal at 1.0000000000000000001; as float64: 1.0000000000000000001e0
        1e999 => no: 1e999 is beyond the range of float64 at 1e999
        orders = CAST('x' AS int64) => no: 'x' is no int64 at CAST('x' AS int64)
        zero <> 0 AND 1 % 0 = 1 => no: division by zero at 1 % 0
        substr('abc', 1, -1) => no: a length of -1 at substr('abc', 1, -1)
        TIMESTAMP '9999-12-31' + INTERVAL '1 year' => no: a timestamp beyond the years 0 to 9999 at TIMESTAMP '9999-12-31' + INTERVAL '1 year'",
    );
}

/// Message and part of the text of an expression that does not parse.
fn syntax(text: &str) -> (String, String, Option<String>) {
    let error = Expr::compile(text, &schema()).unwrap_err();
    (error.message, text[error.span].to_owned(), error.help)
}

#[test]
fn what_does_not_parse_is_told_at_its_token() {
    for (text, message, part, help) in [
        ("", "the expression is empty", "", None),
        ("  ", "the expression is empty", "", None),
        ("amount >", "expected an expression, found the end", "", None),
        ("amount > )", "expected an expression, found )", ")", None),
        ("(amount", "expected ), found the end", "", None),
        (
            "amount 5",
            "unexpected `5`: the expression could end before it",
            "5",
            None,
        ),
        (
            "amount > 1; drop",
            "unexpected `;`: the expression could end before it",
            ";",
            None,
        ),
        (
            "paid && late",
            "No infix parser for token Overlap",
            "&&",
            Some("AND, not &&"),
        ),
        ("!paid", "expected an expression, found !", "!", Some("NOT, not !")),
        ("CASE WHEN paid THEN 1", "expected END, found the end", "", None),
        ("orders IN ()", "expected an expression, found )", ")", None),
        (
            "\u{e4} + \u{e4}\u{e4} )",
            "unexpected `)`: the expression could end before it",
            ")",
            None,
        ),
        ("orders +\n  * 2", "expected an expression, found *", "*", None),
    ] {
        let (got, at, hint) = syntax(text);
        let lower = |text: &str| text.to_lowercase();
        assert_eq!(
            (lower(&got), at.as_str(), hint.as_deref()),
            (lower(message), part, help),
            "{text:?}"
        );
    }
    let (message, part, _) = syntax("customer = 'Ada");
    assert!(message.contains("nterminated"), "{message}");
    assert_eq!(part, "'Ada");
}

#[test]
fn words_of_sql_can_be_names_of_fields_in_quotes_and_most_without() {
    use crate::value::{Row, Schema, Type, Value};
    let free = [
        "value",
        "key",
        "at",
        "date",
        "timestamp",
        "time",
        "first",
        "last",
        "count",
        "sum",
        "min",
        "max",
        "text",
        "name",
        "type",
        "status",
        "user",
        "year",
        "month",
        "day",
        "hour",
        "level",
        "message",
        "id",
        "url",
        "host",
        "position",
        "status_code",
        "_key",
        "_timestamp",
        "_offset",
        "_partition",
        "_topic",
        "region",
        "state",
        "source",
        "zone",
        "map",
        "language",
        "domain",
        "role",
        "session",
        "data",
        "method",
        "path",
        "version",
        "version2",
        "amount_eur",
        "currency",
        "rank",
        "row",
        "object",
        "index",
        "label",
        "values",
        "from",
        "order",
        "group",
        "table",
        "to",
        "left",
        "right",
    ];
    let quoted = [
        "case",
        "interval",
        "not",
        "null",
        "true",
        "exists",
        "Order No",
        "d\u{e9}j\u{e0}",
        "a.b",
    ];
    for (names, quote) in [(&free[..], ""), (&quoted[..], "\"")] {
        for name in names {
            let schema = Schema::new(vec![super::field(name, Type::Int)]);
            for text in [
                format!("{quote}{name}{quote}"),
                format!("{quote}{name}{quote} + 1 > 1"),
                format!("abs({quote}{name}{quote})"),
            ] {
                let expr = Expr::compile(&text, &schema).unwrap_or_else(|error| panic!("{text}: {error:?}"));
                assert!(!expr.eval(&Row(vec![Value::Int(1)])).unwrap().is_null(), "{text}");
            }
        }
    }
}

#[test]
fn a_condition_is_bool() {
    let error = Expr::compile_bool(" amount ", &schema()).unwrap_err();
    assert_eq!(error.message, "a condition is bool, and this is decimal(18,2)");
    assert_eq!(
        error.help.as_deref(),
        Some("compare it with something, as in amount IS NOT NULL")
    );
    assert!(Expr::compile_bool("amount > 1", &schema()).is_ok());
}

#[test]
fn an_aggregate_that_is_none_is_told() {
    for (text, message, part, help) in [
        (
            "sum(customer)",
            "sum takes numbers, but `customer` is string",
            "customer",
            "sum(CAST(customer AS int64)), or a decimal",
        ),
        ("sum(at)", "sum takes numbers, but `at` is timestamp", "at", ""),
        ("summ(amount)", "`summ` is no aggregate", "summ", "did you mean `sum`?"),
        (
            "lower(customer)",
            "`lower` is no aggregate",
            "lower",
            "one of: count, sum, min, max, avg, first, last, count_distinct",
        ),
        (
            "amount",
            "an aggregate is one call: count, sum, min, max, avg, first, last, count_distinct",
            "amount",
            "last(x) keeps the last value",
        ),
        (
            "sum(amount) / count()",
            "an aggregate is one call: count, sum, min, max, avg, first, last, count_distinct",
            "sum(amount) / count()",
            "compute with its result in a `map` step behind",
        ),
        ("sum()", "sum takes one argument", "sum()", "sum(amount)"),
        ("sum(*)", "sum takes one argument", "sum(*)", "sum(amount)"),
        (
            "min(tags)",
            "min takes what can be compared, but `tags` is array(string)",
            "tags",
            "take a part: tags[1], address.city",
        ),
        (
            "sum(DISTINCT orders)",
            "DISTINCT stands in count only",
            "sum(DISTINCT orders)",
            "count(DISTINCT x)",
        ),
        (
            "sum(amount) FILTER (WHERE paid)",
            "FILTER is not supported",
            "sum(amount)",
            "sum(CASE WHEN paid THEN amount END)",
        ),
        (
            "sum(amout)",
            "there is no field `amout`",
            "amout",
            "did you mean `amount`?",
        ),
        (
            "sum(NULL)",
            "sum of NULL, which has no type",
            "NULL",
            "sum(CAST(NULL AS int64))",
        ),
        (
            "sum(max(amount))",
            "max is an aggregate: it folds many records, and an expression sees one",
            "max(amount)",
            "an `aggregate` step takes it: aggregate: { max: max(amount) }",
        ),
    ] {
        let error = Aggregate::compile(text, &schema()).unwrap_err();
        let got = (
            error.message.as_str(),
            &text[error.span.clone()],
            error.help.as_deref().unwrap_or_default(),
        );
        assert_eq!(got, (message, part, help), "{text}");
    }
}
