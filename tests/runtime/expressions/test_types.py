from __future__ import annotations

import pytest

from headwater.runtime.expressions.types import advice, canonical, ddl, holds_map


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("STRING", "string"),
        ("integer", "int"),
        ("long", "bigint"),
        ("decimal", "decimal(10,0)"),
        ("Decimal( 10 , 2 )", "decimal(10,2)"),
        ("array< struct<a: int, `b c`: string> >", "array<struct<a:int,`b c`:string>>"),
        ("struct<a int not null>", "struct<a:int>"),
        ("map<string, array<bigint>>", "map<string,array<bigint>>"),
        ("struct<date:date, text:string, array:array<int>>", "struct<date:date,text:string,array:array<int>>"),
        ("struct<`int``s`: timestamp_ltz>", "struct<`int``s`:timestamp>"),
        ("NUMERIC(5)", "decimal(5,0)"),
    ],
)
def test_type_in_any_spelling_has_one_canonical_spelling(written: str, read: str) -> None:
    assert canonical(written) == read


@pytest.mark.parametrize(
    "text",
    [
        "", "strng", "array<int", "map<int>", "int int", "decimal(39)", "decimal(2,3)", "a-b", "text", "uuid",
        "int[]", "array(int)", "array", "struct<>", "struct<int>", "struct<a:int,>", "struct<text:text>", "bigint(20)",
        "varchar", "decimal(a)", "decimal(2.5)", "decimal(1,2,3)", "string collate UTF8_LCASE", "variant",
        "double precision", "int not null", "int), foo(1", "'",
    ],
)  # fmt: skip
def test_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a type"):
        canonical(text)


@pytest.mark.parametrize("text", ["varchar(10)", "char(3)", "array<varchar(10)>"])
def test_text_of_limited_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="limits a string's length, which no step checks"):
        canonical(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("integr", "Did you mean 'integer'?"),
        ("strng", "Did you mean 'string'?"),
        ("varchar(10)", "Write string."),
        ("array<varchar(10)>", "Write string."),
        ("map<string, timestmp>", "Did you mean 'timestamp'?"),
        ("struct<text: strng>", "Did you mean 'string'?"),
        ("DATETIME", "Write timestamp."),
        ("int64", "Write bigint."),
        ("qqq", "Write a type of Spark SQL, such as string or array<int>."),
        ("array<int", "Write a type of Spark SQL, such as string or array<int>."),
    ],
)
def test_text_that_is_no_type_is_answered_with_what_to_write(text: str, said: str) -> None:
    assert advice(text) == said


def test_map_inside_a_struct_is_found() -> None:
    assert holds_map("struct<a:map<string,int>>")


def test_names_that_need_it_are_quoted_in_ddl() -> None:
    assert ddl({"a": "int", "key.a": "string"}) == "a int, `key.a` string"
