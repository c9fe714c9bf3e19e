"""Projects with topics in Kafka, in targets with and without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater import HeadwaterError, Project
from headwater.compiler.target_settings import PemFile, with_pems
from headwater.runtime.generated_code import load_runner
from headwater.runtime.ir.topology import KafkaCluster, SchemaRegistry

LOCAL = "shop: {target: local, targets: {local: {state_dir: state, log: {type: embedded, path: log}}}}\n"
PROD = """shop:
  target: prod
  targets:
    prod:
      kafka:
        main:
          bootstrap_servers: localhost:9092
"""
ORDERS = """topics:
  orders:
    partitions: 2
    key: {customer: string}
    value: {quantity: int}
    seed: {path: seeds/orders.csv}
    on_error: dead_letter
"""
LARGE = """topics:
  large:
    partitions: 2
    key: {customer: string}
    value: {quantity: int}
    cleanup: compact
"""
SALES = """topology: sales
flows:
  large_orders:
    from: orders
    steps:
      - filter: quantity > 10
    to: large
"""


class NoSpark:
    """Stands where a session would, and fails if it is used."""

    def __getattr__(self, name: str) -> object:
        pytest.fail("these projects need no Spark")


def project(
    root: Path, profiles: str, *, orders: str = "", large: str = "", sales: str = SALES, select: Sequence[str] = ()
) -> Project:
    """The project. `orders`, `large`: `kafka` of these topics."""
    texts = {
        "headwater.yml": "name: shop\nversion: '1'\n",
        "profiles.yml": profiles,
        "topics/orders.yml": ORDERS + (f"    kafka: {orders}\n" if orders else ""),
        "topics/large.yml": LARGE + (f"    kafka: {large}\n" if large else ""),
        "topologies/sales.yml": sales,
        "seeds/orders.csv": "customer,quantity\nann,12\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return Project(root, select=select, session=NoSpark())


def generated(root: Path) -> dict[str, str]:
    """The code and the manifest."""
    files = [*(root / "target").glob("*/*.py"), root / "target" / "manifest.json"]
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in files}


def test_target_without_a_cluster_has_the_code_and_manifest_of_a_project_without_kafka(tmp_path: Path) -> None:
    for name, kafka in (("with", {"orders": "{topic: ops.orders}", "large": "{}"}), ("without", {})):
        project(tmp_path / name, LOCAL, **kafka).compile()
    assert generated(tmp_path / "with") == generated(tmp_path / "without")


def test_copies_are_first_and_last_of_the_applications(tmp_path: Path) -> None:
    compiled = project(tmp_path, PROD, orders="{}", large="{}").compile()
    assert [graph.application for graph in compiled.graphs] == ["shop-kafka", "shop-sales", "shop-kafka-out"]
    for name in ("kafka", "kafka-out"):
        assert load_runner(tmp_path / "target" / name / "runner.py").topology.application == f"shop-{name}"


@pytest.mark.parametrize(
    ("kafka", "applications"),
    [({"orders": "{}"}, ["shop-kafka", "shop-sales"]), ({"large": "{}"}, ["shop-sales", "shop-kafka-out"])],
)
def test_copy_without_topics_is_not_there(tmp_path: Path, kafka: dict[str, str], applications: list[str]) -> None:
    compiled = project(tmp_path, PROD, **kafka).compile()
    assert [graph.application for graph in compiled.graphs] == applications


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("kafka", ["kafka"]),
        ("+sales", ["kafka", "sales"]),
        ("large+", ["kafka-out"]),
        ("orders+", ["sales", "kafka-out"]),
        ("kafka+", ["kafka", "sales", "kafka-out"]),
    ],
)
def test_copies_are_selected_by_what_they_read_and_write(tmp_path: Path, selector: str, names: list[str]) -> None:
    compiled = project(tmp_path, PROD, orders="{}", large="{}", select=[selector]).compile()
    assert [emitted.topology for emitted in compiled.emitted] == names


def test_copies_are_listed_with_the_place_of_their_first_topic(tmp_path: Path) -> None:
    listed = project(tmp_path, PROD, orders="{}", large="{}").resources()
    found = {each.name: (f"{each.file}:{each.line}", each.parents) for each in listed if each.kind == "topology"}
    assert found == {
        "kafka": ("topics/orders.yml:8", ()),
        "sales": ("topologies/sales.yml:1", ("topic.orders",)),
        "kafka-out": ("topics/large.yml:7", ("topic.large",)),
    }
    assert {each.name: each.parents for each in listed if each.kind == "topic"} == {
        "large": ("topology.sales",),
        "orders": ("topology.kafka",),
        "kafka_orders_dead_letter": ("topology.kafka",),
        "sales_orders_dead_letter": ("topology.sales",),
    }


def test_topic_is_kept_for_its_copy_to_kafka(tmp_path: Path) -> None:
    topics = {
        name: project(tmp_path, profiles, large="{}").compile().graphs[0].topics
        for name, profiles in (("local", LOCAL), ("prod", PROD))
    }
    readers = {name: next(topic.readers for topic in found if topic.name == "large") for name, found in topics.items()}
    assert readers == {"local": (), "prod": ("shop-kafka-out",)}


def test_copy_of_topics_in_several_files_names_the_file_of_each_step(tmp_path: Path) -> None:
    two = SALES.replace("to: large", "to: others")
    compiled = project(tmp_path, PROD, orders="{}", large="{topic: theirs}", sales=two).compile()
    (copying, _) = compiled.graphs
    assert copying.file == "topics/*.yml"
    parts = load_runner(tmp_path / "target" / "kafka" / "runner.py").topology.subtopologies
    places = {part.name: {step.at for step in part.steps} for part in parts}
    assert places == {"large": {"topics/large.yml:7"}, "orders": {"topics/orders.yml:8"}}


@pytest.mark.parametrize(("profiles", "writer"), [(LOCAL, None), (PROD, "shop-kafka")])
def test_dead_letters_of_a_copy_can_be_read_in_every_target(tmp_path: Path, profiles: str, writer: str | None) -> None:
    sales = f"{SALES}  failed:\n    from: kafka_orders_dead_letter\n    to: failed_orders\n"
    compiled = project(tmp_path, profiles, orders="{}", sales=sales).compile()
    graph = next(graph for graph in compiled.graphs if graph.name == "sales")
    assert {topic.writer for topic in graph.topics if topic.name == "kafka_orders_dead_letter"} == {writer}


def test_topic_from_kafka_takes_neither_its_seed_nor_appends(tmp_path: Path) -> None:
    there = project(tmp_path, PROD, orders="{}")
    assert there.seed() == ()
    with pytest.raises(HeadwaterError, match="no seed for the topic 'orders'") as refused:
        there.seed(["orders"])
    assert str(refused.value.hint).startswith("it is written by shop-kafka")
    with pytest.raises(HeadwaterError, match="orders is written by shop-kafka") as refused:
        there.append("orders", [{"key": {"customer": "ann"}, "value": {"quantity": 1}}])
    assert "in a target without `kafka`" in str(refused.value.hint)


def test_topic_from_kafka_takes_seed_and_appends_where_no_cluster_is(tmp_path: Path) -> None:
    here = project(tmp_path, LOCAL, orders="{}")
    assert [seeded.topic for seeded in here.seed()] == ["orders"]
    here.append("orders", [{"key": {"customer": "ann"}, "value": {"quantity": 1}}])
    assert len(list(here.read("orders"))) == 2


def test_tests_of_a_project_need_no_kafka(tmp_path: Path) -> None:
    there = project(tmp_path, PROD, orders="{}", large="{}")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "sales.yml").write_text(
        """tests:
  - test: large orders are written
    topology: sales
    given:
      - topic: orders
        rows: [{customer: ann, quantity: 12}, {customer: bob, quantity: 1}]
    expect:
      - topic: large
        rows: [{customer: ann, quantity: 12}]
"""
    )
    results = there.test()
    assert [case.error for case in results.cases] == [None]
    assert results.failed == ()


HOURS = """topics:
  hours:
    partitions: 2
    key: {customer: string}
    windowed: true
    value: {orders: bigint}
    kafka: {key: KEY}
"""
COUNTS = """topology: sales
flows:
  counts:
    from: SOURCE
"""


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("json", None),
        ("{format: json, windows: fields}", None),
        ("{format: string, windows: java_time}", None),
        ("{format: string, windows: drop}", None),
        ("string", "one column"),
        ("{format: int, windows: java_session}", "string"),
    ],
)
def test_format_of_a_windowed_key_holds_the_key_with_or_without_its_window(
    tmp_path: Path, key: str, problem: str | None
) -> None:
    steps = """    steps:
      - window: {tumbling: 1h}
      - aggregate: {values: {orders: count(*)}}
    to: hours
"""
    there = project(tmp_path, PROD, sales=COUNTS.replace("SOURCE", "orders") + steps)
    (tmp_path / "topics" / "hours.yml").write_text(HOURS.replace("KEY", key))
    found = [(each.code, each.message) for each in there.compile(check=False).errors]
    assert [code for code, _ in found] == ([] if problem is None else ["HW775"])
    assert all(problem in message for _, message in found if problem)


@pytest.mark.parametrize(
    ("key", "codes"),
    [
        ("{format: string, windows: java_time}", ["HW775"]),
        ("{format: string, windows: java_time, window_size: 1h}", []),
        ("{format: json, window_size: 1h}", ["HW210"]),
        ("{format: string, windows: drop}", ["HW775"]),
    ],
)
def test_windows_of_keys_that_are_read_must_be_whole(tmp_path: Path, key: str, codes: list[str]) -> None:
    there = project(tmp_path, PROD, sales=COUNTS.replace("SOURCE", "hours") + "    to: counts_again\n")
    (tmp_path / "topics" / "hours.yml").write_text(HOURS.replace("KEY", key))
    assert [each.code for each in there.compile(check=False).errors] == codes


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("{format: protobuf, message: shop.Order}", None),
        ("{format: json_schema, subject: orders}", None),
        ("{format: json, envelope: debezium}", None),
        ("{format: avro, envelope: debezium}", None),
        ("{format: avro, record: shop.Order, subject: orders, register: true}", None),
        ("{format: avro, record: 3 orders}", "3 orders is no name of an Avro record. Write one such as shop.Order"),
        ("{format: avro, subject_name_strategy: topics}", "topics"),
        ("{format: protobuf, envelope: debezium}", "has no option 'envelope'"),
        ("{format: json, envelope: maxwell}", "maxwell"),
        ("{format: json_schema, subject_name_strategy: record}", "Write `subject`"),
    ],
)
def test_options_of_formats_are_checked_without_a_registry(tmp_path: Path, value: str, found: str | None) -> None:
    registry = "          registry: {url: https://registry:8081}\n"

    errors = project(tmp_path, PROD + registry, orders=f"{{value: {value}}}").compile(check=False).errors

    assert len(errors) == (found is not None)
    assert all(found in f"{each.message} {each.hint}" for each in errors if found)


def test_envelope_of_a_written_topic_and_a_missing_registry_are_found(tmp_path: Path) -> None:
    orders, large = "{value: json_schema}", "{value: {format: json, envelope: debezium}}"

    errors = project(tmp_path, PROD, orders=orders, large=large).compile(check=False).errors

    assert [(each.code, each.message) for each in errors] == [
        ("HW775", "`envelope: debezium` is for topics that are read."),
        ("HW775", "The format json_schema needs a schema registry."),
    ]


# Settings.


def clusters(root: Path, cluster: str) -> dict[str, KafkaCluster]:
    """The clusters of a target with one cluster."""
    checked = project(root, PROD + cluster, orders="{}")
    return dict(checked.settings().kafka)


def test_security_becomes_settings_of_librdkafka(tmp_path: Path) -> None:
    found = clusters(
        tmp_path,
        """\
          prefix: prod-
          security:
            protocol: sasl_ssl
            mechanism: SCRAM-SHA-512
            username: ann
            password: secret
            ca: certs/ca.pem
            certificate: |
              -----BEGIN CERTIFICATE-----
            key: /etc/key.pem
            key_password: word
          client:
            socket.keepalive.enable: true
            statistics.interval.ms: 5000
""",
    )
    assert found == {
        "main": KafkaCluster(
            "localhost:9092",
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ann",
                "sasl.password": "secret",
                "ssl.ca.pem": PemFile("certs/ca.pem"),
                "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----\n",
                "ssl.key.pem": PemFile("/etc/key.pem"),
                "ssl.key.password": "word",
                "socket.keepalive.enable": True,
                "statistics.interval.ms": 5000,
            },
            prefix="prod-",
        )
    }
    assert "secret" not in repr(found)


def test_oauth_is_that_of_librdkafka(tmp_path: Path) -> None:
    security = "          security: {protocol: sasl_ssl, mechanism: OAUTHBEARER}\n"
    client = "          client: {sasl.oauthbearer.client.id: ann}\n"
    assert clusters(tmp_path, security + client)["main"].client == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "ann",
    }


def test_run_reads_pem_files_and_their_texts_are_not_shown(tmp_path: Path) -> None:
    registry = "          registry: {url: https://registry:8081, ca: certs/ca.pem}\n"
    security = "          security: {protocol: ssl, ca: certs/ca.pem}\n"
    checked = project(tmp_path, PROD + security + registry, orders="{}")
    with pytest.raises(HeadwaterError, match=r"certs/ca.pem that profiles.yml names cannot be read"):
        with_pems(checked.settings(), tmp_path)
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU\n")
    settings = with_pems(checked.settings(), tmp_path)
    assert settings.kafka["main"].client["ssl.ca.pem"].startswith("-----BEGIN CERTIFICATE-----\nMIIB")
    registry = settings.kafka["main"].registry
    assert registry is not None
    assert registry.ca == settings.kafka["main"].client["ssl.ca.pem"]
    assert "MIIB" not in HeadwaterError("no certificate MIIBszCCAVmgAwIBAgIU").message


def test_only_the_code_of_copies_connects_and_none_has_values_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"BROKERS": "hushed.example:9092", "LOGIN": "hushed-password", "CA": "hushed.pem", "FIX": "hushed-fix-"}
    values |= {"REGISTRY": "hushed.example:8081"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    profiles = """shop:
  target: prod
  targets:
    prod:
      kafka:
        main:
          bootstrap_servers: "{{ env_var('BROKERS') }}"
          prefix: "{{ env_var('FIX') }}"
          security:
            protocol: sasl_ssl
            mechanism: PLAIN
            username: ann
            password: "{{ env_var('LOGIN') }}"
            ca: "{{ env_var('CA') }}"
          registry:
            url: "https://{{ env_var('REGISTRY') }}"
            username: ann
            password: "{{ env_var('LOGIN') }}"
            ca: "{{ env_var('CA') }}"
"""
    there = project(tmp_path, profiles, orders="{}", large="{}")
    there.compile()
    texts = {path: path.read_text("utf-8") for path in (tmp_path / "target").rglob("*") if path.is_file()}
    assert not [path for path, text in texts.items() if "hushed" in text]
    assert "kafka" not in (tmp_path / "target" / "sales" / "runner.py").read_text("utf-8").lower()
    assert "hushed" not in str(there.plan())
    shown = "hushed.example:9092 refuses ***"
    assert HeadwaterError(f"{values['BROKERS']} refuses {values['LOGIN']}").message == shown

    (tmp_path / "other.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    for name, value in {"BROKERS": "b:1", "LOGIN": "l", "CA": "other.pem", "FIX": "f-", "REGISTRY": "r:8"}.items():
        monkeypatch.setenv(name, value)
    for copying in ("kafka", "kafka-out"):
        cluster = load_runner(tmp_path / "target" / copying / "runner.py").settings.kafka["main"]
        assert (cluster.bootstrap_servers, cluster.prefix) == ("b:1", "f-")
        assert cluster.client == {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "l",
            "ssl.ca.pem": "-----BEGIN CERTIFICATE-----\n",
        }
        assert cluster.registry == SchemaRegistry("https://r:8", "ann", "l", "-----BEGIN CERTIFICATE-----\n")
