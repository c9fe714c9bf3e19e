"""Options of the functions that read and write JSON, CSV and XML: `from_json(text, 'a int', map('mode', 'FAILFAST'))`.

Some of Spark's options name files or addresses, or use the machine's time zone and encoding. So only options that say
how a text is read or written are allowed, and only where they can be checked: as a `map` of literal texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType

_ALLOWED = {
    "json": """
        allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
        allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames columnNameOfCorruptRecord dateFormat
        dropFieldIfAllNull ignoreNullFields locale mode prefersDecimal pretty primitivesAsString singleVariantColumn
        timestampFormat timestampNTZFormat writeNonAsciiCharacterAsCodePoint
    """,
    "csv": """
        charToEscapeQuoteEscaping columnNameOfCorruptRecord comment dateFormat delimiter emptyValue escape escapeQuotes
        ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace locale maxCharsPerColumn maxColumns mode nanValue negativeInf
        nullValue positiveInf prefersDate quote quoteAll sep singleVariantColumn timestampFormat timestampNTZFormat
        unescapedQuoteHandling
    """,
    "xml": """
        arrayElementName attributePrefix columnNameOfCorruptRecord dateFormat declaration excludeAttribute
        ignoreNamespace ignoreSurroundingSpaces locale mode nullValue prefersDecimal rootTag rowTag singleVariantColumn
        timestampFormat timestampNTZFormat validateName valueTag
    """,
}

OPTIONS = {text: tuple(names.split()) for text, names in _ALLOWED.items()}
"""The options of each format."""

PLACES = {
    f"{function}_{text}": (text, at) for function, at in (("from", 2), ("to", 1), ("schema_of", 1)) for text in OPTIONS
}
"""Functions with options: the format, and the position of the options among the arguments, from 0."""


def names(argument: Sequence[Token]) -> Iterator[Token] | None:
    """The names in `map('name', 'value', ...)`; None for an argument of another form."""
    head, body = argument[:2], argument[2:-1]
    closed = bool(argument) and argument[-1].token_type is TokenType.R_PAREN
    if [token.text.lower() for token in head] != ["map", "("] or not closed:
        return None
    for index, token in enumerate(body):
        wanted = TokenType.COMMA if index % 2 else TokenType.STRING
        if token.token_type is not wanted:
            return None
    return iter(body[::4]) if len(body) % 4 == 3 or not body else None


def is_allowed(text: str, name: str) -> bool:
    """Whether an option of a format is allowed. Spark ignores upper and lower case here."""
    return name.lower() in {each.lower() for each in OPTIONS[text]}
