use super::table;

#[test]
fn timestamps_move_and_are_cut_in_utc() {
    table(
        "at => 2026-03-01T10:00:00.123Z timestamp
        at + INTERVAL '1 day' => 2026-03-02T10:00:00.123Z timestamp
        at - INTERVAL '1' DAY => 2026-02-28T10:00:00.123Z timestamp
        INTERVAL '1 hour' + at => 2026-03-01T11:00:00.123Z timestamp
        at + INTERVAL '2 hours 30 minutes' => 2026-03-01T12:30:00.123Z timestamp
        at + (INTERVAL '1 week') => 2026-03-08T10:00:00.123Z timestamp
        at + INTERVAL '-1 day' => 2026-02-28T10:00:00.123Z timestamp
        at + INTERVAL 5 MINUTE => 2026-03-01T10:05:00.123Z timestamp
        at + INTERVAL '1' SECOND => 2026-03-01T10:00:01.123Z timestamp
        at + INTERVAL '7 milliseconds' => 2026-03-01T10:00:00.130Z timestamp
        TIMESTAMP '2024-01-31' + INTERVAL '1 month' => 2024-02-29T00:00:00.000Z timestamp
        TIMESTAMP '2024-02-29' + INTERVAL '1 year' => 2025-02-28T00:00:00.000Z timestamp
        TIMESTAMP '2024-01-15' - INTERVAL '2 months' => 2023-11-15T00:00:00.000Z timestamp
        at - TIMESTAMP '2026-03-01' => 36000123 int64
        at - at => 0 int64
        no_time - at => NULL int64
        no_time + INTERVAL '1 day' => NULL timestamp
        at + INTERVAL '9000 years' => timestamp_range: a timestamp beyond the years 0 to 9999 in `at + INTERVAL '9000 years'`
        beyond + INTERVAL '1 day' => timestamp_range: a timestamp beyond the years 0 to 9999 in `beyond + INTERVAL '1 day'`
        at + INTERVAL '9223372036854775807 milliseconds' => timestamp_range: a timestamp beyond the years 0 to 9999 in `at + INTERVAL '9223372036854775807 milliseconds'`
        beyond - TIMESTAMP '0001-01-01' => overflow: the result does not fit into int64 in `beyond - TIMESTAMP '0001-01-01'`
        date_trunc('second', at) => 2026-03-01T10:00:00.000Z timestamp
        date_trunc('minute', at + INTERVAL '59 seconds') => 2026-03-01T10:00:00.000Z timestamp
        date_trunc('hour', at) => 2026-03-01T10:00:00.000Z timestamp
        date_trunc('DAY', at) => 2026-03-01T00:00:00.000Z timestamp
        date_trunc('week', at) => 2026-02-23T00:00:00.000Z timestamp
        date_trunc('week', TIMESTAMP '2026-03-02') => 2026-03-02T00:00:00.000Z timestamp
        date_trunc('month', at) => 2026-03-01T00:00:00.000Z timestamp
        date_trunc('quarter', TIMESTAMP '2026-06-30') => 2026-04-01T00:00:00.000Z timestamp
        date_trunc('year', at) => 2026-01-01T00:00:00.000Z timestamp
        date_trunc('day', TIMESTAMP '1969-12-31T23:59:59.999Z') => 1969-12-31T00:00:00.000Z timestamp
        date_trunc('year', beyond) => timestamp_range: a timestamp beyond the years 0 to 9999 in `date_trunc('year', beyond)`
        date_trunc('day', no_time) => NULL timestamp
        TIMESTAMP '2026-03-01 11:00:00+01:00' = TIMESTAMP '2026-03-01T10:00:00' => TRUE bool",
    );
}

#[test]
fn fields_of_a_timestamp_are_whole_numbers() {
    table(
        "extract(year FROM at) => 2026 int64
        EXTRACT(QUARTER FROM at) => 1 int64
        extract(month FROM at) => 3 int64
        extract(week FROM at) => 9 int64
        extract(week FROM TIMESTAMP '2027-01-03') => 53 int64
        extract(week FROM TIMESTAMP '2024-12-30') => 1 int64
        extract(day FROM at) => 1 int64
        extract(dow FROM at) => 0 int64
        extract(isodow FROM at) => 7 int64
        extract(doy FROM at) => 60 int64
        extract(hour FROM at) => 10 int64
        extract(minute FROM at) => 0 int64
        extract(second FROM at + INTERVAL '7 seconds') => 7 int64
        extract(millisecond FROM at + INTERVAL '7 seconds') => 7123 int64
        extract(epoch FROM at) => 1772359200 int64
        extract(epoch FROM TIMESTAMP '1969-12-31T23:59:59.999Z') => -1 int64
        extract(hour FROM no_time) => NULL int64
        extract(year FROM beyond) => timestamp_range: a timestamp beyond the years 0 to 9999 in `extract(year FROM beyond)`
        1 + extract(year FROM at) * 2 => 4053 int64",
    );
}
