"""Loading generated code."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.generated_code import OtherVersionError, topology_beside


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        ("from headwater.runtime import Projection", "cannot import name 'Projection'"),
        ("from headwater.runtime import Topic; Topic('t', lanes=1)", "unexpected keyword argument 'lanes'"),
        ("from headwater.runtime import Pipe; Pipe().gather()", "no attribute 'gather'"),
    ],
)
def test_code_of_another_version_is_refused_with_the_way_out(job: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(job)

    with pytest.raises(OtherVersionError, match=rf"job.py was not made by this version.*{cause}.*headwater compile"):
        topology_beside(tmp_path / "runner.py")
