"""All forms of SQL that tasks can compute, by families. A function is one entry of the table of its family."""

from . import casts, choices, intervals, json, leaves, logic, nested, numbers, texts, times
from .form import Forms

FORMS: Forms = {
    **leaves.FORMS,
    **numbers.FORMS,
    **logic.FORMS,
    **choices.FORMS,
    **casts.FORMS,
    **texts.FORMS,
    **times.FORMS,
    **intervals.FORMS,
    **nested.FORMS,
    **json.FORMS,
}
"""How each form is read, and which of its parts it may have."""
