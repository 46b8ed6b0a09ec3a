use super::{table, told};

/// TRUE, FALSE and NULL as expressions over the row.
const THREE: [(&str, Option<bool>); 3] = [("paid", Some(true)), ("late", Some(false)), ("maybe", None)];

fn truth(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "TRUE bool",
        Some(false) => "FALSE bool",
        None => "NULL bool",
    }
}

#[test]
fn and_or_and_not_are_three_valued() {
    for (a, x) in THREE {
        let not = told(&format!("NOT {a}"));
        assert_eq!(not, truth(x.map(|x| !x)), "NOT {a}");
        for (b, y) in THREE {
            let and = match (x, y) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            let or = match (x, y) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            assert_eq!(told(&format!("{a} AND {b}")), truth(and), "{a} AND {b}");
            assert_eq!(told(&format!("{a} OR {b}")), truth(or), "{a} OR {b}");
        }
        assert_eq!(told(&format!("{a} IS TRUE")), truth(Some(x == Some(true))));
        assert_eq!(told(&format!("{a} IS NOT TRUE")), truth(Some(x != Some(true))));
        assert_eq!(told(&format!("{a} IS FALSE")), truth(Some(x == Some(false))));
        assert_eq!(told(&format!("{a} IS NOT FALSE")), truth(Some(x != Some(false))));
        assert_eq!(told(&format!("{a} IS UNKNOWN")), truth(Some(x.is_none())));
        assert_eq!(told(&format!("{a} IS NOT UNKNOWN")), truth(Some(x.is_some())));
        assert_eq!(told(&format!("{a} IS NULL")), truth(Some(x.is_none())));
        assert_eq!(told(&format!("{a} IS NOT NULL")), truth(Some(x.is_some())));
    }
}

#[test]
fn what_is_decided_already_is_not_evaluated() {
    table(
        "zero <> 0 AND orders / zero > 1 => FALSE bool
        zero = 0 OR orders / zero > 1 => TRUE bool
        orders / zero > 1 AND zero <> 0 => division_by_zero: division by zero in `orders / zero`
        maybe AND orders / zero > 1 => division_by_zero: division by zero in `orders / zero`
        late AND maybe AND orders / zero > 1 => FALSE bool
        maybe AND late AND orders / zero > 1 => FALSE bool
        CASE WHEN zero = 0 THEN 0 ELSE orders / zero END => 0 int64
        CASE WHEN paid THEN 1 WHEN orders / zero > 1 THEN 2 END => 1 int64
        coalesce(orders, orders / zero) => 7 int64
        orders IN (7, orders / zero) => TRUE bool
        orders IN (8, orders / zero) => division_by_zero: division by zero in `orders / zero`
        nothing = orders / zero => division_by_zero: division by zero in `orders / zero`",
    );
}

#[test]
fn comparisons_are_exact_between_all_numbers() {
    table(
        "orders = 7 => TRUE bool
        orders == 7 => TRUE bool
        orders <> 7 => FALSE bool
        orders != 7 => FALSE bool
        orders < 7.5 => TRUE bool
        orders >= 7.0 => TRUE bool
        7.5 > orders => TRUE bool
        orders = 7.0 => TRUE bool
        orders = 7e0 => TRUE bool
        amount > 12 => TRUE bool
        amount = 12.5 => TRUE bool
        amount = 12.500000 => TRUE bool
        amount < 12.5000001 => TRUE bool
        amount > rate => TRUE bool
        huge < most => TRUE bool
        most > huge => TRUE bool
        most > fine => TRUE bool
        least < fine => TRUE bool
        most = 9223372036854775807 => TRUE bool
        amount > 9223372036854775807 => FALSE bool
        amount > weight => TRUE bool
        weight = 1.5 => TRUE bool
        nothing = nothing => NULL bool
        nothing <> 1 => NULL bool
        orders = NULL => NULL bool
        NULL = NULL => NULL bool
        odd = odd => TRUE bool
        odd > endless => TRUE bool
        odd < 1 => FALSE bool
        weight < odd => TRUE bool
        0e0 = -0e0 => TRUE bool
        customer = 'Ada' => TRUE bool
        customer < 'Adam' => TRUE bool
        'Z' < 'a' => TRUE bool
        customer <> 'ada' => TRUE bool
        no_text = '' => NULL bool
        paid = TRUE => TRUE bool
        late < paid => TRUE bool
        raw = X'ff0041' => TRUE bool
        raw > X'ff' => TRUE bool
        at > TIMESTAMP '2026-03-01' => TRUE bool
        at = TIMESTAMP '2026-03-01T10:00:00.123Z' => TRUE bool
        NOT orders = 7 => FALSE bool
        orders > 1 AND orders < 10 => TRUE bool
        orders > 1 IS TRUE => TRUE bool",
    );
}

#[test]
fn in_and_between_say_null_where_sql_does() {
    table(
        "orders IN (1, 7, 9) => TRUE bool
        orders IN (1, 9) => FALSE bool
        orders NOT IN (1, 9) => TRUE bool
        orders IN (1, NULL) => NULL bool
        orders NOT IN (1, NULL) => NULL bool
        orders IN (7, NULL) => TRUE bool
        orders NOT IN (7, NULL) => FALSE bool
        nothing IN (1, 2) => NULL bool
        orders IN (NULL) => NULL bool
        NULL IN (1, 2) => NULL bool
        orders IN (7.0, 8.5) => TRUE bool
        orders IN (7.5) => FALSE bool
        amount IN (12.5, 3) => TRUE bool
        most IN (12.5, 3) => FALSE bool
        orders IN (nothing, orders) => TRUE bool
        orders IN (nothing, zero) => NULL bool
        amount IN (rate, 12.5, 1) => TRUE bool
        weight IN (1, 1.5) => TRUE bool
        orders IN (7e0) => TRUE bool
        customer IN ('Bob', 'Ada') => TRUE bool
        customer NOT IN ('Bob', 'Eve') => TRUE bool
        customer IN ('Bob', no_text) => NULL bool
        paid IN (TRUE) => TRUE bool
        raw IN (X'00', X'ff0041') => TRUE bool
        at IN (TIMESTAMP '2026-03-01T10:00:00.123Z') => TRUE bool
        orders BETWEEN 1 AND 7 => TRUE bool
        orders BETWEEN 8 AND 9 => FALSE bool
        orders NOT BETWEEN 8 AND 9 => TRUE bool
        orders BETWEEN 9 AND 1 => FALSE bool
        orders BETWEEN 6.5 AND 7.5 => TRUE bool
        orders BETWEEN NULL AND 6 => FALSE bool
        orders BETWEEN NULL AND 8 => NULL bool
        orders BETWEEN 8 AND NULL => FALSE bool
        orders BETWEEN nothing AND 8 => NULL bool
        nothing BETWEEN 1 AND 2 => NULL bool
        amount BETWEEN 12 AND 13 AND paid => TRUE bool
        customer BETWEEN 'A' AND 'B' => TRUE bool
        at BETWEEN TIMESTAMP '2026-01-01' AND TIMESTAMP '2027-01-01' => TRUE bool",
    );
}

#[test]
fn one_of_several_values_has_the_type_of_all() {
    table(
        "CASE WHEN orders > 5 THEN 'many' ELSE 'few' END => 'many' string
        CASE WHEN orders > 9 THEN 'many' END => NULL string
        CASE WHEN maybe THEN 1 ELSE 2 END => 2 int64
        CASE orders WHEN 6 THEN 'six' WHEN 7 THEN 'seven' ELSE '?' END => 'seven' string
        CASE orders WHEN 7.0 THEN 'seven' END => 'seven' string
        CASE nothing WHEN nothing THEN 1 ELSE 2 END => 2 int64
        CASE NULL WHEN 1 THEN 1 ELSE 2 END => 2 int64
        CASE customer WHEN 'Ada' THEN 1 ELSE 0 END => 1 int64
        CASE WHEN paid THEN 1 ELSE 2.5 END => 1.0 decimal(18,1)
        CASE WHEN paid THEN amount ELSE 2.125 END => 12.500 decimal(18,3)
        CASE WHEN paid THEN orders ELSE weight END => 7.0 float64
        CASE WHEN paid THEN NULL ELSE 1 END => NULL int64
        CASE WHEN paid THEN NULL END IS NULL => TRUE bool
        CASE WHEN late THEN tags ELSE split('a b') END => ['a', 'b'] array(string)
        CASE WHEN paid THEN address END => { city: 'Turin', zip: NULL } { city: string, zip: int64 }
        CASE WHEN paid THEN most ELSE 0.5 END => overflow: the result does not fit into decimal(18,1) in `most`
        coalesce(nothing, 5) => 5 int64
        coalesce(nothing, NULL, orders) => 7 int64
        coalesce(no_amount, 0) => 0.00 decimal(18,2)
        coalesce(no_text, customer, 'x') => 'Ada' string
        coalesce(nothing, 2.5) => 2.5 decimal(18,1)
        coalesce(nothing, weight) => 1.5 float64
        coalesce(nothing) => NULL int64
        coalesce(no_tags, tags) => ['new', NULL, 'gift'] array(string)
        nullif(orders, 7) => NULL int64
        nullif(orders, 8) => 7 int64
        nullif(orders, NULL) => 7 int64
        nullif(nothing, 1) => NULL int64
        nullif(amount, 0) => 12.50 decimal(18,2)
        nullif(amount, 12.5) => NULL decimal(18,2)
        nullif(customer, '') => 'Ada' string
        nullif(empty, '') => NULL string
        nullif(weight, 1.5) => NULL float64
        orders / nullif(zero, 0) => NULL int64
        nullif(paid, TRUE) => NULL bool",
    );
}
