use super::table;

#[test]
fn int64_is_exact_and_what_does_not_fit_is_an_error() {
    table(
        "1 + 2 * 3 => 7 int64
        (1 + 2) * 3 => 9 int64
        orders + 1 => 8 int64
        orders - 10 => -3 int64
        orders / 2 => 3 int64
        -orders / 2 => -3 int64
        orders % 4 => 3 int64
        -orders % 4 => -3 int64
        orders % -4 => 3 int64
        - - orders => 7 int64
        +orders => 7 int64
        -(-(orders)) => 7 int64
        orders + nothing => NULL int64
        nothing / 2 => NULL int64
        -nothing => NULL int64
        most + 1 => overflow: the result does not fit into int64 in `most + 1`
        least - 1 => overflow: the result does not fit into int64 in `least - 1`
        most * 2 => overflow: the result does not fit into int64 in `most * 2`
        least / -1 => overflow: the result does not fit into int64 in `least / -1`
        least % -1 => 0 int64
        -least => overflow: the result does not fit into int64 in `-least`
        abs(least) => overflow: the result does not fit into int64 in `abs(least)`
        abs(least + 1) => 9223372036854775807 int64
        abs(-3) => 3 int64
        orders / zero => division_by_zero: division by zero in `orders / zero`
        orders % zero => division_by_zero: division by zero in `orders % zero`
        nothing / zero => NULL int64
        1 + (orders / zero) * 2 => division_by_zero: division by zero in `orders / zero`
        9223372036854775807 => 9223372036854775807 int64
        -9223372036854775808 => -9223372036854775808 int64
        007 => 7 int64",
    );
}

#[test]
fn decimals_have_the_scale_of_their_operation() {
    table(
        "amount => 12.50 decimal(18,2)
        amount + 1 => 13.50 decimal(18,2)
        amount + 0.125 => 12.625 decimal(18,3)
        amount - amount => 0.00 decimal(18,2)
        amount * 2 => 25.00 decimal(18,2)
        amount * 0.9 => 11.250 decimal(18,3)
        amount * rate => 1.56250 decimal(18,5)
        rate * rate => 0.015625 decimal(8,6)
        rate + rate => 0.250 decimal(5,3)
        rate + 1 => 1.125 decimal(18,3)
        amount / 3 => 4.166667 decimal(18,6)
        -amount / 3 => -4.166667 decimal(18,6)
        amount / 0.8 => 15.625000 decimal(18,6)
        1 / amount => 0.080000 decimal(18,6)
        2.0 / 3 => 0.666667 decimal(18,6)
        2.0 / 3.0000000 => 0.6666667 decimal(18,7)
        0.0000005 / 1 => 0.0000005 decimal(18,7)
        0.000001 / 2 => 0.000001 decimal(18,6)
        -0.000001 / 2 => -0.000001 decimal(18,6)
        0.000001 / 3 => 0.000000 decimal(18,6)
        amount % 5 => 2.50 decimal(18,2)
        -amount % 5 => -2.50 decimal(18,2)
        orders % 2.5 => 2.0 decimal(2,1)
        -amount => -12.50 decimal(18,2)
        abs(-amount) => 12.50 decimal(18,2)
        no_amount + 1 => NULL decimal(18,2)
        huge + 1 => overflow: the result does not fit into decimal(18,0) in `huge + 1`
        huge + 0 => 999999999999999999 decimal(18,0)
        -huge - 1 => overflow: the result does not fit into decimal(18,0) in `-huge - 1`
        huge * huge => overflow: the result does not fit into decimal(18,0) in `huge * huge`
        huge + 0.1 => overflow: the result does not fit into decimal(18,1) in `huge + 0.1`
        huge / fine => overflow: the result does not fit into decimal(18,18) in `huge / fine`
        most / fine => overflow: the result does not fit into decimal(18,18) in `most / fine`
        fine / huge => 0.000000000000000000 decimal(18,18)
        most * 1.0 => overflow: the result does not fit into decimal(18,1) in `most * 1.0`
        least + 0.5 => overflow: the result does not fit into decimal(18,1) in `least + 0.5`
        least % 0.7 => -0.3 decimal(1,1)
        amount / 0.00 => division_by_zero: division by zero in `amount / 0.00`
        amount % zero => division_by_zero: division by zero in `amount % zero`
        0.5 => 0.5 decimal(1,1)
        .5 => 0.5 decimal(1,1)
        5. => 5 decimal(1,0)
        -0.50 => -0.50 decimal(2,2)
        12.50 => 12.50 decimal(4,2)
        999999999999999.999 => 999999999999999.999 decimal(18,3)",
    );
}

#[test]
fn float64_is_ieee_754_but_makes_no_infinity_of_finite_numbers() {
    table(
        "weight + 1 => 2.5 float64
        weight * amount => 18.75 float64
        1 / 2e0 => 0.5 float64
        weight / 0 => division_by_zero: division by zero in `weight / 0`
        weight % 0.0 => division_by_zero: division by zero in `weight % 0.0`
        weight % 1 => 0.5 float64
        1e308 * 10 => no: the result does not fit into float64 at 1e308 * 10
        weight * 1e308 * 10 => overflow: the result does not fit into float64 in `weight * 1e308 * 10`
        endless + 1 => inf float64
        endless - endless => NaN float64
        odd * 2 => NaN float64
        -weight => -1.5 float64
        abs(-weight) => 1.5 float64
        1e3 => 1000.0 float64
        .5e1 => 5.0 float64
        1.5e-3 => 0.0015 float64
        most + 1e0 => 9.223372036854776e18 float64
        0.1 + 2e-1 => 0.30000000000000004 float64",
    );
}

#[test]
fn rounding_is_half_away_from_zero_at_any_digit() {
    table(
        "round(amount) => 13 decimal(17,0)
        round(-amount) => -13 decimal(17,0)
        round(amount, 1) => 12.5 decimal(18,1)
        round(12.345, 2) => 12.35 decimal(5,2)
        round(12.344, 2) => 12.34 decimal(5,2)
        round(-12.345, 2) => -12.35 decimal(5,2)
        round(amount, 2) => 12.50 decimal(18,2)
        round(amount, 5) => 12.50 decimal(18,2)
        round(amount, -1) => 10 decimal(17,0)
        round(15.0, -1) => 20 decimal(3,0)
        round(amount, -9223372036854775808) => 0 decimal(17,0)
        round(amount, 9223372036854775807) => 12.50 decimal(18,2)
        round(orders) => 7 int64
        round(orders, 3) => 7 int64
        round(orders, -1) => 10 int64
        round(most, -19) => overflow: the result does not fit into int64 in `round(most, -19)`
        round(most, -20) => 0 int64
        round(least, -1) => overflow: the result does not fit into int64 in `round(least, -1)`
        round(nothing, -1) => NULL int64
        round(9.99) => 10 decimal(2,0)
        round(huge, -1) => overflow: the result does not fit into decimal(18,0) in `round(huge, -1)`
        round(weight) => 2.0 float64
        round(-weight) => -2.0 float64
        round(1.005e0, 2) => 1.01 float64
        round(2.5e0) => 3.0 float64
        round(1234e0, -2) => 1200.0 float64
        round(1e300, 2) => 1e300 float64
        round(weight, 400) => 1.5 float64
        round(weight, -400) => 0.0 float64
        round(odd, 2) => NaN float64
        floor(amount) => 12 decimal(17,0)
        floor(-amount) => -13 decimal(17,0)
        ceil(amount) => 13 decimal(17,0)
        ceil(-amount) => -12 decimal(17,0)
        ceil(12.0) => 12 decimal(3,0)
        floor(orders) => 7 int64
        floor(weight) => 1.0 float64
        ceil(-weight) => -1.0 float64
        ceil(0.1) => 1 decimal(1,0)
        floor(no_amount) => NULL decimal(17,0)",
    );
}
