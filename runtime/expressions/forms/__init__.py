"""All operators and functions of SQL that tasks can evaluate, in families.

Each family has a table of forms, with one entry for each operator or function.
"""

from . import (
    form as leaves,
)
from . import (
    logic,
    nested,
    numbers,
    texts,
    times,
)
from . import (
    logic as casts,
)
from . import (
    logic as choices,
)
from . import (
    nested as json,
)
from . import (
    times as intervals,
)
from .form import Forms

FORMS: Forms = {
    **leaves.LEAF_FORMS,
    **numbers.NUMBER_FORMS,
    **logic.LOGIC_FORMS,
    **choices.CHOICE_FORMS,
    **casts.CAST_FORMS,
    **texts.TEXT_FORMS,
    **times.TIME_FORMS,
    **intervals.INTERVAL_FORMS,
    **nested.NESTED_FORMS,
    **json.JSON_FORMS,
}
"""All forms: the class of a syntax tree, or the name of a function -> `Form`."""
