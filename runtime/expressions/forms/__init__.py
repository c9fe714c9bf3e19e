"""All operators and functions of SQL that tasks can evaluate, in families.

Each family has a table of forms, with one entry for each operator or function.
"""

from . import form, logic, nested, numbers, texts, times
from .form import Forms

FORMS: Forms = {
    **form.LEAF_FORMS,
    **numbers.NUMBER_FORMS,
    **logic.LOGIC_FORMS,
    **logic.CHOICE_FORMS,
    **logic.CAST_FORMS,
    **texts.TEXT_FORMS,
    **times.TIME_FORMS,
    **times.INTERVAL_FORMS,
    **nested.NESTED_FORMS,
    **nested.JSON_FORMS,
}
"""All forms: the class of a syntax tree, or the name of a function -> `Form`."""
