"""Topology bank of project joined_tables 1.0.

Made by `headwater compile` from topologies/bank.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Fork,
    KeyBy,
    Pipe,
    Settle,
    Sink,
    Source,
    Store,
    Table,
    TableTableJoin,
    Topic,
    Topology,
    ToStream,
    subtopology,
)

FILE = "topologies/bank.yml"

ACCOUNTS_RAW = Topic(
    "accounts_raw",
    partitions=2,
    key="account bigint",
    value="owner string, branch string",
)
BALANCES_RAW = Topic("balances_raw", partitions=2, key="account bigint", value="balance bigint")
LIMITS_RAW = Topic("limits_raw", partitions=2, key="account bigint", value="credit bigint")
ACCOUNTS_BY_NUMBER = Topic(
    "accounts_by_number",
    partitions=2,
    key="account bigint",
    value="owner string, branch string, balance bigint, available bigint",
    writer="joined_tables-bank",
)
BY_BRANCH_REPARTITION = Topic(
    "joined_tables-bank-by_branch-repartition",
    partitions=2,
    key="branch string",
    value="available bigint",
    writer="joined_tables-bank",
)
DEBTS_BY_ACCOUNT = Topic(
    "debts_by_account",
    partitions=2,
    key="account bigint",
    value="balance bigint, debt bigint",
    writer="joined_tables-bank",
)
BRANCHES = Topic(
    "branches",
    partitions=2,
    key="branch string",
    value="accounts bigint, available bigint",
    writer="joined_tables-bank",
)

ACCOUNTS = Store(
    "accounts",
    partitions=2,
    key="account bigint",
    value="owner string, branch string",
)
BALANCES = Store("balances", partitions=2, key="account bigint", value="balance bigint")
LIMITS = Store("limits", partitions=2, key="account bigint", value="credit bigint")
ACCOUNTS_IN_FULL_LIMITS = Store(
    "accounts_in_full-limits",
    partitions=2,
    key="account bigint",
    value="owner string, branch string, balance bigint",
)
OVERDRAWN = Store("overdrawn", partitions=2, key="account bigint", value="balance bigint")
BY_BRANCH = Store(
    "by_branch",
    partitions=2,
    key="branch string",
    value="accounts bigint, available bigint",
    aggregates=(Agg("accounts", "count"), Agg("available", "sum", "available", of="bigint")),
)


@subtopology(0, "overdrawn", file=FILE)
def overdrawn(rows: Pipe) -> Pipe:
    """2 tasks: accounts_raw, balances_raw, limits_raw -> accounts_by_number,
    joined_tables-bank-by_branch-repartition, debts_by_account.

    Stores: accounts, balances, limits, accounts_in_full-limits, overdrawn.
    """
    rows = rows.process(
        Source(ACCOUNTS_RAW, "accounts", at=3),
        Table("accounts", ACCOUNTS, at=3),
        Source(BALANCES_RAW, "balances", at=5),
        Table("balances", BALANCES, old=True, at=5),
        Fork(
            "balances",
            into=("balances", "overdrawn", "accounts_in_full.balances", "debts"),
            at=5,
        ),
        Source(LIMITS_RAW, "limits", at=7),
        Table("limits", LIMITS, at=7),
        TableTableJoin(
            "accounts",
            "accounts_in_full.balances",
            ACCOUNTS,
            BALANCES,
            "outer",
            values={"balance": "balance"},
            at=17,
        ),
        ToStream("accounts", at=20),
        Table("accounts", ACCOUNTS_IN_FULL_LIMITS, at=20),
        TableTableJoin(
            "accounts",
            "limits",
            ACCOUNTS_IN_FULL_LIMITS,
            LIMITS,
            "left",
            values={"limits.credit": "credit"},
            old=True,
            at=20,
        ),
        keep={"balances": ()},
    )
    rows = rows.where("overdrawn", "balance < 0", table=True, at=13)
    rows = rows.select(
        "accounts",
        {"available bigint": "coalesce(balance, 0) + coalesce(`limits.credit`, 0)"},
        keep=("owner", "branch", "balance"),
        at=20,
    )
    return rows.process(
        Settle("overdrawn", at=10),
        ToStream("overdrawn", at=10),
        Table("overdrawn", OVERDRAWN, at=10),
        Fork("accounts", into=("accounts_in_full", "by_branch"), at=14),
        Sink("accounts_in_full", ACCOUNTS_BY_NUMBER, mode="per_epoch", at=25),
        KeyBy("by_branch", {"branch": "branch"}, at=29),
        Sink("by_branch", BY_BRANCH_REPARTITION, mode="repartition", of="table", at=31),
        TableTableJoin(
            "debts",
            "overdrawn",
            BALANCES,
            OVERDRAWN,
            "inner",
            values={"debt": "balance"},
            emit="per_epoch",
            this_made_of=("balances",),
            other_made_of=("balances",),
            at=39,
        ),
        Sink("debts", DEBTS_BY_ACCOUNT, mode="per_epoch", at=43),
    )


@subtopology(1, "by_branch", file=FILE)
def by_branch(rows: Pipe) -> Pipe:
    """2 tasks: joined_tables-bank-by_branch-repartition -> branches.

    Stores: by_branch.
    """
    return rows.process(
        Source(BY_BRANCH_REPARTITION, "by_branch", at=31),
        Aggregate("by_branch", BY_BRANCH, emit="per_epoch", of="table", at=31),
        Sink("by_branch", BRANCHES, mode="per_epoch", at=35),
    )


TOPOLOGY = Topology(
    project="joined_tables",
    name="bank",
    version="1.0",
    content_hash="e8100b10d845cfe5e5cbcbb5e3f6d2fb6b3a14493fc566e5e65e99f6931e5a4b",
    subtopologies=(overdrawn, by_branch),
)
