"""The functions of Spark SQL that expressions may call.

Query plans are reused for every epoch. The result of a nondeterministic function would be frozen into the plan, and
would depend on retries. So only deterministic functions are allowed, grouped as in Spark's documentation. Functions
excluded on purpose have a hint. Spark's analyzer checks the types of arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...runtime.expressions.types import NUMBERS, holds_map


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


GROUPS = {
    "arrays": """
        array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat
        array_size array_union arrays_overlap arrays_zip flatten get sequence slice sort_array
    """,
    "collections": """
        cardinality concat element_at reverse size try_element_at
    """,
    "conditions": """
        coalesce if ifnull nanvl nullif nullifzero nvl nvl2 zeroifnull
    """,
    "conversions": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint
        try_cast
    """,
    "dates and times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub
        date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime
        from_utc_timestamp hour last_day make_date make_dt_interval make_interval make_time make_timestamp
        make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname months_between next_day
        quarter second time_bucket time_diff time_from_micros time_from_millis time_from_seconds
        time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis
        timestampadd timestampdiff timestamp_nanos timestamp_seconds to_date to_time to_timestamp
        to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval
        try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time
        try_to_timestamp unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday
        weekofyear year
    """,
    "hashes": """
        crc32 hash md5 sha sha1 sha2 xxhash64
    """,
    "JSON": """
        from_json get_json_object json_array_length json_object_keys schema_of_json to_json
    """,
    "CSV": """
        from_csv schema_of_csv to_csv
    """,
    "XML": """
        from_xml schema_of_xml to_xml
    """,
    "URLs": """
        parse_url try_parse_url try_url_decode url_decode url_encode
    """,
    "higher order": """
        aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
        transform_values zip_with
    """,
    "maps": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values
        str_to_map
    """,
    "structs": """
        named_struct struct
    """,
    "mathematics": """
        abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees
        div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod
        positive pow power radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide
        try_mod try_multiply try_subtract unhex width_bucket
    """,
    "miscellaneous": """
        aes_decrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count hmac raise_error
        try_aes_decrypt typeof
    """,
    "predicates": """
        equal_null ilike isnan isnotnull isnull like regexp regexp_like rlike
    """,
    "text": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws
        contains decode elt encode endswith find_in_set format_number format_string from_base32 initcap instr
        is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad ltrim
        luhn_check make_valid_utf8 mask octet_length overlay position printf quote regexp_count regexp_extract
        regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace right rpad rtrim sentences
        soundex space split split_part startswith substr substring substring_index to_base32 to_binary to_char
        to_number to_varchar translate trim try_to_binary try_to_number try_validate_utf8 ucase unbase64 upper
        validate_utf8
    """,
    "bits": """
        bit_count bit_get getbit shiftleft shiftright shiftrightunsigned
    """,
    "variants": """
        is_valid_variant is_variant_null parse_json schema_of_variant to_variant_object try_parse_json
        try_variant_array_append try_variant_get try_variant_insert try_variant_set variant_array_append
        variant_delete variant_get variant_insert variant_set variant_strip_nulls
    """,
    "vectors": """
        vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
        vector_normalize vector_sum
    """,
}
"""Functions by subject, in the groups of Spark's documentation."""

SCALAR_FUNCTIONS: frozenset[str] = frozenset(name for names in GROUPS.values() for name in names.split())
"""Deterministic functions over one row."""

GENERATORS: frozenset[str] = _words("""
    explode explode_outer inline inline_outer posexplode posexplode_outer stack variant_explode variant_explode_outer
    json_tuple
    """)
WINDOW_FUNCTIONS: frozenset[str] = _words("""
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """)

_RANDOM = "Take it from the data: a hash of columns, such as `xxhash64(id)`, is the same in every run."
_CLOCK = "the planned time of the epoch."
_WHERE = "It depends on how Spark runs the job, not on the record."
_SESSION = "Pass it with `var()`."

FORBIDDEN: dict[str, str] = {
    **dict.fromkeys(_words("rand randn random randstr uniform uuid shuffle aes_encrypt"), _RANDOM),
    **dict.fromkeys(_words("now localtimestamp"), f"Use `current_timestamp()`, {_CLOCK}"),
    **dict.fromkeys(_words("curdate current_date"), f"Use `to_date(current_timestamp())`, from {_CLOCK}"),
    **dict.fromkeys(_words("current_time localtime"), f"Use `to_time(current_timestamp())`, from {_CLOCK}"),
    "unix_timestamp()": f"Use `unix_seconds(current_timestamp())`, from {_CLOCK}",
    **dict.fromkeys(
        _words(
            "monotonically_increasing_id spark_partition_id input_file_name input_file_block_start "
            "input_file_block_length"
        ),
        _WHERE,
    ),
    **dict.fromkeys(
        _words(
            "user current_user session_user current_catalog current_database current_schema current_path "
            "current_timezone version"
        ),
        _SESSION,
    ),
    **dict.fromkeys(_words("window session_window window_time"), "Use the `window` step."),
}
"""Nondeterministic functions, which depend on more than the record, and the hints for them."""

_PARSED = "Write it with the functions of Spark SQL."
_BINARY = "Put the record into columns before it comes here, in the program that appends it."

UNSAFE: dict[str, str] = {
    **dict.fromkeys(_words("reflect java_method try_reflect"), _PARSED),
    **dict.fromkeys(
        _words("""
        xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string
        """),
        "Use `from_xml(text, 'a struct type')`, which fetches nothing.",
    ),
    **dict.fromkeys(_words("from_avro to_avro schema_of_avro from_protobuf to_protobuf"), _BINARY),
    **dict.fromkeys(_words("collations python_worker_logs range sql_keywords"), "It makes a table, not a value."),
}
"""Functions that load classes, or open files or addresses named in options or in the data, and the hints for them.

With `xpath`, Java's parser fetches the document type that a *record* names: from any host, without a time limit.
"""

_SKETCH = "Its sketches come from aggregates that Headwater does not support. Use `approx_count_distinct`."

NOT_OFFERED: dict[str, str] = {
    **dict.fromkeys(
        _words("""
        approx_top_k_estimate hll_sketch_estimate hll_union
        kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
        kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
        kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
        kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
        kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
        theta_difference theta_intersection theta_sketch_estimate theta_union
        tuple_difference_double tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
        tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
        tuple_intersection_theta_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
        tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
        tuple_union_double tuple_union_integer tuple_union_theta_double tuple_union_theta_integer
        """),
        _SKETCH,
    ),
    **dict.fromkeys(
        _words("st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid"), "No column can have a geometry type."
    ),
}
"""Functions of Spark that need something Headwater does not support, and the reasons."""

OPERATORS: frozenset[str] = _words("""
    ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~ and between case in not or when current_timestamp
    """)
"""Operators that Spark lists among its functions. `current_timestamp` is the planned time of the epoch."""

WORDS_WITHOUT_PARENTHESES: frozenset[str] = _words(
    "current_date current_time localtimestamp localtime current_user session_user"
)
"""Forbidden functions that SQL allows without parentheses, like `current_timestamp`, which is allowed."""


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate of the `aggregate` step.

    `subtracts`: rows can be removed from its result, as aggregations of tables need it. `columns`: the number of column
    arguments. `takes`: their types. `options`: the maximal number of literals behind them. `meaning`: SQL with simpler
    aggregates, in which {0} and {1} stand for the columns.
    """

    name: str
    subtracts: bool = False
    columns: int = 1
    takes: Literal["any", "numbers", "booleans", "ordered"] = "any"
    options: int = 0
    meaning: str | None = None

    def accepts(self, type_: str) -> bool:
        """Whether a column of a canonical type can be aggregated without a cast."""
        match self.takes:
            case "numbers":
                return type_ in NUMBERS or type_.startswith("decimal(")
            case "booleans":
                return type_ == "boolean"
            case "ordered":
                return not holds_map(type_)
        return True


_PAIR = "IF(({1}) IS NULL, NULL, named_struct('by', {1}, 'value', {0}))"
_AGGREGATES = (
    AggregateFunction("count", subtracts=True),
    AggregateFunction("sum", subtracts=True, takes="numbers"),
    AggregateFunction("avg", subtracts=True, takes="numbers"),
    AggregateFunction("min", takes="ordered"),
    AggregateFunction("max", takes="ordered"),
    AggregateFunction("min_by", columns=2, takes="ordered", meaning=f"min({_PAIR}).value"),
    AggregateFunction("max_by", columns=2, takes="ordered", meaning=f"max({_PAIR}).value"),
    AggregateFunction("first", options=1),
    AggregateFunction("last", options=1),
    AggregateFunction("any_value", options=1),
    AggregateFunction("count_if", takes="booleans", meaning="count(IF({0}, 1, NULL))"),
    AggregateFunction("bool_and", takes="booleans", meaning="min({0})"),
    AggregateFunction("bool_or", takes="booleans", meaning="max({0})"),
    AggregateFunction("collect_list"),
    AggregateFunction("approx_count_distinct", takes="ordered", options=1),
)

_SYNONYMS = {
    "mean": "avg",
    "first_value": "first",
    "last_value": "last",
    "every": "bool_and",
    "any": "bool_or",
    "some": "bool_or",
    "array_agg": "collect_list",
}

AGGREGATES: dict[str, AggregateFunction] = {function.name: function for function in _AGGREGATES}
AGGREGATES |= {synonym: AGGREGATES[name] for synonym, name in _SYNONYMS.items()}

SPARK_AGGREGATES: frozenset[str] = frozenset(AGGREGATES) | _words("""
    collect_set collect_union measure schema_of_variant_agg try_sum try_avg
    approx_top_k_accumulate approx_top_k_combine kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float theta_intersection_agg theta_sketch_agg
    theta_union_agg tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
    approx_percentile percentile percentile_approx percentile_cont percentile_disc median mode stddev stddev_pop
    stddev_samp std variance var_pop var_samp kurtosis skewness corr covar_pop covar_samp histogram_numeric listagg
    string_agg bit_and bit_or bit_xor count_min_sketch hll_sketch_agg hll_union_agg grouping grouping_id max_by min_by
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy approx_top_k
    bitmap_construct_agg bitmap_or_agg bitmap_and_agg
    """)
"""All names that Spark SQL reads as an aggregate, including those not supported here."""

SPARK_NAMES: frozenset[str] = frozenset().union(
    SCALAR_FUNCTIONS,
    OPERATORS,
    GENERATORS,
    WINDOW_FUNCTIONS,
    SPARK_AGGREGATES,
    FORBIDDEN,
    UNSAFE,
    NOT_OFFERED,
    WORDS_WITHOUT_PARENTHESES,
)
"""All names of functions and operators of Spark SQL, offered or not."""
