use super::table;

#[test]
fn casts_between_all_sensible_types() {
    table(
        "CAST(TRUE AS int64) => 1 int64
        CAST(late AS int) => 0 int64
        CAST(paid AS string) => 'true' string
        CAST(orders AS bool) => TRUE bool
        CAST(zero AS boolean) => FALSE bool
        CAST(orders AS decimal(5,2)) => 7.00 decimal(5,2)
        CAST(orders AS decimal(3,2)) => 7.00 decimal(3,2)
        CAST(orders * 10 AS decimal(3,2)) => overflow: the result does not fit into decimal(3,2) in `CAST(orders * 10 AS decimal(3,2))`
        CAST(orders AS float64) => 7.0 float64
        CAST(orders AS double precision) => 7.0 float64
        CAST(orders AS text) => '7' string
        CAST(least AS string) => '-9223372036854775808' string
        CAST(orders AS timestamp) => 1970-01-01T00:00:00.007Z timestamp
        CAST(most AS timestamp) => timestamp_range: a timestamp beyond the years 0 to 9999 in `CAST(most AS timestamp)`
        CAST(amount AS int64) => 13 int64
        CAST(-amount AS int64) => -13 int64
        CAST(12.49 AS int64) => 12 int64
        CAST(amount AS float64) => 12.5 float64
        CAST(huge AS float64) => 1e18 float64
        CAST(amount AS string) => '12.50' string
        CAST(-0.05 AS string) => '-0.05' string
        CAST(amount * 0.9 AS decimal(18,2)) => 11.25 decimal(18,2)
        CAST(12.345 AS decimal(18,2)) => 12.35 decimal(18,2)
        CAST(-12.345 AS decimal(18,2)) => -12.35 decimal(18,2)
        CAST(amount AS decimal(18,4)) => 12.5000 decimal(18,4)
        CAST(huge AS decimal(18,2)) => overflow: the result does not fit into decimal(18,2) in `CAST(huge AS decimal(18,2))`
        CAST(99.95 AS decimal(3,1)) => no: the result does not fit into decimal(3,1) at CAST(99.95 AS decimal(3,1))
        CAST(weight AS int64) => 2 int64
        CAST(-weight AS int64) => -2 int64
        CAST(1e18 AS int64) => 1000000000000000000 int64
        CAST(weight * 1e19 AS int64) => cast: 1.5e+19 is no int64 in `CAST(weight * 1e19 AS int64)`
        CAST(odd AS int64) => cast: NaN is no int64 in `CAST(odd AS int64)`
        CAST(endless AS decimal(18,2)) => cast: Infinity is no decimal(18,2) in `CAST(endless AS decimal(18,2))`
        CAST(1.005e0 AS decimal(18,2)) => 1.01 decimal(18,2)
        CAST(1e-300 AS decimal(18,2)) => 0.00 decimal(18,2)
        CAST(1e300 AS decimal(18,2)) => no: 1e+300 is no decimal(18,2) at CAST(1e300 AS decimal(18,2))
        CAST(weight AS string) => '1.5' string
        CAST(1e0 AS string) => '1.0' string
        CAST(odd AS string) => 'NaN' string
        CAST('12' AS int64) => 12 int64
        CAST(' +12 ' AS int64) => 12 int64
        CAST('-9223372036854775808' AS int64) => -9223372036854775808 int64
        CAST(customer AS int64) => cast: 'Ada' is no int64 in `CAST(customer AS int64)`
        CAST('1.0' AS int64) => no: '1.0' is no int64 at CAST('1.0' AS int64)
        CAST('12.5' AS decimal(18,2)) => 12.50 decimal(18,2)
        CAST('1.25e1' AS numeric(18,2)) => 12.50 decimal(18,2)
        CAST('12.505' AS decimal(18,2)) => no: '12.505' is no decimal(18,2) at CAST('12.505' AS decimal(18,2))
        CAST('1e-3' AS float64) => 0.001 float64
        CAST('Infinity' AS float64) => inf float64
        CAST('1e400' AS float64) => no: '1e400' is no float64 at CAST('1e400' AS float64)
        CAST('TRUE' AS bool) => TRUE bool
        CAST(' false ' AS bool) => FALSE bool
        CAST('yes' AS bool) => no: 'yes' is no bool at CAST('yes' AS bool)
        CAST('2026-03-01' AS timestamp) => 2026-03-01T00:00:00.000Z timestamp
        CAST('2026-03-01 10:00:00' AS timestamp) => 2026-03-01T10:00:00.000Z timestamp
        CAST('2026-03-01T10:00:00.5+02:00' AS timestamp) => 2026-03-01T08:00:00.500Z timestamp
        CAST('2026-02-30' AS timestamp) => no: '2026-02-30' is no timestamp at CAST('2026-02-30' AS timestamp)
        CAST('ab' AS bytes) => X'6162' bytes
        CAST(X'6162' AS string) => 'ab' string
        CAST(raw AS string) => cast: what is not UTF-8 is no string in `CAST(raw AS string)`
        CAST(at AS int64) => 1772359200123 int64
        CAST(at AS string) => '2026-03-01T10:00:00.123Z' string
        CAST(beyond AS string) => timestamp_range: a timestamp beyond the years 0 to 9999 in `CAST(beyond AS string)`
        CAST(nothing AS string) => NULL string
        CAST(NULL AS decimal(18,2)) => NULL decimal(18,2)
        CAST(customer AS string) => 'Ada' string
        CAST(tags AS string) => no: no CAST leads from array(string) to string at CAST(tags AS string); CAST one element: tags[1]
        orders::float64 => 7.0 float64
        CAST(CAST(orders AS string) AS decimal(18,2)) => 7.00 decimal(18,2)
        CAST(orders AS varchar) || '!' => '7!' string",
    );
}

#[test]
fn try_cast_gives_null_where_cast_errs_and_nothing_else_is_hidden() {
    table(
        "TRY_CAST(customer AS int64) => NULL int64
        TRY_CAST('12' AS int64) => 12 int64
        TRY_CAST(huge AS decimal(18,2)) => NULL decimal(18,2)
        TRY_CAST(odd AS int64) => NULL int64
        TRY_CAST(raw AS string) => NULL string
        TRY_CAST('yes' AS bool) => NULL bool
        TRY_CAST('x' AS float64) => NULL float64
        TRY_CAST('x' AS timestamp) => NULL timestamp
        TRY_CAST(most AS timestamp) => NULL timestamp
        TRY_CAST(beyond AS string) => NULL string
        TRY_CAST(orders / zero AS string) => division_by_zero: division by zero in `orders / zero`
        coalesce(TRY_CAST(customer AS int64), -1) => -1 int64",
    );
}
